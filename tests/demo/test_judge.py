"""The judge can tell every kind of failure from a good run; a judge that cannot fail proves nothing."""

from dataclasses import replace

import pytest

from onceward.demo.events import Booking, payments, truth
from onceward.demo.judge import judge

TRUTH = truth(payments(500, seed=7))
GOOD = list(TRUTH.values())


def test_every_event_once_is_exact() -> None:
    found = judge(TRUTH, GOOD)
    assert found.exact
    assert found.facts() == {
        "visible": 500,
        "lost": 0,
        "duplicated": 0,
        "wrong": 0,
        "payments_off_cents": 0,
        "balances_off_cents": 0,
    }


def test_accounts_may_come_in_any_order() -> None:
    assert judge(TRUTH, sorted(GOOD, key=lambda it: (it.account, it.seq))).exact


def test_a_missing_record_is_lost() -> None:
    found = judge(TRUTH, GOOD[:-3])
    assert (found.lost, found.duplicated, found.wrong) == (3, 0, 0)
    assert found.payments_off_cents == -sum(it.amount for it in GOOD[-3:])
    assert not found.exact


def test_nothing_at_all_is_all_lost() -> None:
    assert judge(TRUTH, []).lost == 500


def test_each_further_copy_is_a_duplicate() -> None:
    found = judge(TRUTH, [*GOOD, GOOD[-1], GOOD[-1], GOOD[-2]])
    assert (found.lost, found.duplicated, found.wrong) == (0, 3, 0)
    assert found.payments_off_cents == 2 * GOOD[-1].amount + GOOD[-2].amount
    assert not found.exact


@pytest.mark.parametrize(
    "changed",
    [
        replace(GOOD[9], balance=GOOD[9].balance + 1),
        replace(GOOD[9], seq=GOOD[9].seq + 1),
        replace(GOOD[9], account="account-of-nobody"),
        replace(GOOD[9], amount=-GOOD[9].amount),
    ],
)
def test_a_record_that_says_something_else_is_wrong(changed: Booking) -> None:
    found = judge(TRUTH, [changed if it.id == changed.id else it for it in GOOD])
    assert (found.lost, found.duplicated, found.wrong) == (0, 0, 1)
    assert not found.exact


def test_what_belongs_to_no_payment_is_wrong() -> None:
    found = judge(TRUTH, [*GOOD, replace(GOOD[0], id="payment-of-nobody"), None])
    assert (found.visible, found.lost, found.duplicated, found.wrong) == (502, 0, 0, 2)


def test_an_older_balance_at_the_end_of_an_account_is_not_exact() -> None:
    busiest = [it for it in GOOD if it.account == "account-000"]
    found = judge(TRUTH, [*(it for it in GOOD if it not in busiest), *reversed(busiest)])
    assert (found.lost, found.duplicated, found.wrong) == (0, 0, 0)
    assert found.balances_off_cents == abs(busiest[-1].balance - busiest[0].balance)
    assert not found.exact


def test_findings_of_all_kinds_are_counted_apart() -> None:
    bad = replace(GOOD[2], balance=0)
    found = judge(TRUTH, [*GOOD[1:2], bad, *GOOD[3:], GOOD[5], GOOD[6]])
    assert (found.visible, found.lost, found.duplicated, found.wrong) == (501, 1, 2, 1)


@pytest.mark.parametrize(
    "value", [None, b"", b"no json", b"[]", b'{"id": 1}', b'{"id":"a","seq":1,"amount":"2","balance":3}']
)
def test_what_is_no_booking_decodes_to_none(value: bytes | None) -> None:
    assert Booking.decode(b"account-001", value) is None


def test_a_booking_decodes() -> None:
    value = b'{"id":"a","seq":1,"amount":-2,"balance":3}'
    assert Booking.decode(b"account-001", value) == Booking("a", "account-001", 1, -2, 3)
