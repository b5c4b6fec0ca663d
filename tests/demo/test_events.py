"""The demo's input is the same for the same seed, and flows until the last kill."""

from collections import defaultdict

from onceward.demo.events import ACCOUNTS, payments, truth
from onceward.demo.feeder import Phase


def test_the_same_seed_gives_the_same_payments() -> None:
    assert payments(2_000, seed=3) == payments(2_000, seed=3)
    assert payments(2_000, seed=3) != payments(2_000, seed=4)


def test_ids_are_unique_and_accounts_count_from_one() -> None:
    made = payments(5_000, seed=1)
    assert len({it.id for it in made}) == 5_000
    by_account = defaultdict(list)
    for it in made:
        by_account[it.account].append(it.seq)
    assert all(seqs == list(range(1, len(seqs) + 1)) for seqs in by_account.values())
    assert len(by_account) <= ACCOUNTS
    assert len(by_account["account-000"]) > 5 * len(by_account["account-199"])


def test_the_truth_is_the_running_balance() -> None:
    made = payments(1_000, seed=1)
    expected = truth(made)
    mine = [it for it in made if it.account == "account-003"]
    assert expected[mine[0].id].balance == mine[0].amount
    assert expected[mine[-1].id].balance == sum(it.amount for it in mine)


def test_a_phase_flows_on_and_never_exceeds_its_share() -> None:
    phase = Phase(first=100, last=1_100, final=False)
    due = [phase.due(second) for second in range(0, 300, 5)]
    assert due == sorted(due)
    assert due[0] == 100
    assert due[6] < 1_100 == due[-1]


def test_the_final_phase_ends_soon() -> None:
    assert Phase(first=100, last=1_100, final=True).due(5.0) == 1_100
