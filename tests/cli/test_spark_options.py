"""What `--conf` and its like come to."""

import pytest
import typer

from onceward.cli.spark_options import names, settings


def test_settings_are_taken_as_they_are_written() -> None:
    found = settings(["spark.ui.enabled=true", "spark.driver.extraJavaOptions=-Da=b -Dc=d"], None, "2g")
    assert found == {
        "spark.ui.enabled": "true",
        "spark.driver.extraJavaOptions": "-Da=b -Dc=d",
        "spark.driver.memory": "2g",
    }


def test_packages_may_be_given_both_ways() -> None:
    assert settings(["spark.jars.packages=a:b:1"], "c:d:2", None) == {"spark.jars.packages": "a:b:1,c:d:2"}
    assert settings(None, None, None) == {}
    assert names(" a.py, b.zip,") == ["a.py", "b.zip"]
    assert names(None) == []


@pytest.mark.parametrize("text", ["spark.ui.enabled", "ui.enabled=true", "=x"])
def test_what_is_no_setting_of_sparks_is_wrong_usage(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="names of Spark's settings begin with spark"):
        settings([text], None, None)
