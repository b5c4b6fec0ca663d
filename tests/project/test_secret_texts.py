"""What looks like a secret is hidden from people's eyes, wherever it stands and however long the text is."""

import time

import pytest

from onceward.secret import without_secrets


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("host=db password=geheim user=me", "host=db password=*** user=me"),
        ("password='two words' sslmode=require", "password=*** sslmode=require"),
        ("postgresql://me:geheim@db:5432/shop", "postgresql://me:***@db:5432/shop"),
        ("sasl.password: geheim, sasl.username: me", "sasl.password: ***, sasl.username: me"),
        ('{"token": "geheim"}', '{"token": ***}'),
        ("s3.secret-access-key=geheim", "s3.secret-access-key=***"),
        ("password=${env:DB_PASSWORD}", "password=${env:DB_PASSWORD}"),
        ("the password is wrong: check user and password (in the dsn)",) * 2,
        ("epoch 4 up to t-0 at 17",) * 2,
    ],
)
def test_a_value_after_a_telling_name_is_hidden(text: str, shown: str) -> None:
    """J4."""
    assert without_secrets(text) == shown
    assert without_secrets(shown) == shown


def test_values_under_telling_names_are_hidden_at_any_depth() -> None:
    assert without_secrets({("a", 1): {2: "password=geheim"}}) == {("a", 1): {2: "password=***"}}
    given = {"catalog": {"token": "geheim", "uri": "http://u:geheim@h"}, "list": [{"Password": 1}], "key": ["id"]}
    assert without_secrets(given) == {
        "catalog": {"token": "***", "uri": "http://u:***@h"},
        "list": [{"Password": "***"}],
        "key": ["id"],
    }


@pytest.mark.parametrize("piece", ["r", "password", "password=", "://", "://a:", "password "])
def test_no_text_takes_long(piece: str) -> None:
    """It is asked while epochs run: no text may cost the square of its length."""
    began = time.process_time()
    without_secrets(piece * 20_000)
    assert time.process_time() - began < 2
