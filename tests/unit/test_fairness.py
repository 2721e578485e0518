import msgspec
import pytest

from distributed_grid.errors import BadValue
from distributed_grid.kernel.dominance import WHOLE_MICRO
from distributed_grid.kernel.fairness import IDLE_MAX, Accounts, SavedAccounts
from distributed_grid.model.gpus import Gpu, GpuRequest
from distributed_grid.model.priority import Weights
from distributed_grid.model.resources import Request, Resources

GPUS = tuple(
    Gpu(device=f"g{number}", model=model)
    for number, model in enumerate(["H100", "H100", "RTX4090", "RTX4090"])
)
TOTAL = Resources(
    cpu_milli=128_000,
    memory_bytes=1_000,
    storage_bytes=10_000,
    gpus=GPUS,
    custom=(("licence", 2_000),),
)
CORE = Request(cpu_milli=1_000)
HALF = Request(cpu_milli=64_000)
MINUTE_MS = 60_000
HALF_A_MINUTE = WHOLE_MICRO * MINUTE_MS // 2


def new_accounts(**weights: dict[str, int]) -> Accounts:
    return Accounts(TOTAL, Weights(**weights), credit_ms=MINUTE_MS, quantum_ms=MINUTE_MS)


def has_used(accounts: Accounts, user: str, ms: int, project: str = "") -> None:
    """Half of the machine for some time, long ago."""
    accounts.begin("before", user, project, HALF, 0)
    accounts.end("before", ms)


# How much of the machine a request is


@pytest.mark.rows("S3-108")
@pytest.mark.parametrize(
    ("request_", "micro"),
    [
        (CORE, 7_812),  # Of 128; seven or eight thousandths would both be wrong.
        (Request(cpu_milli=1_000, memory_bytes=500), 500_000),
        (Request(storage_bytes=10_000), WHOLE_MICRO),
        (Request(custom=(("licence", 1_000),)), 500_000),
        (Request(gpus=GpuRequest(milli=1_000)), 250_000),
        (Request(gpus=GpuRequest(milli=1_000, model="H100")), 500_000),
        (Request(gpus=GpuRequest(milli=500)), 125_000),
        (Request(), 1),  # Nothing is not free, so that turns are taken.
        (Request(memory_bytes=2_000), WHOLE_MICRO),  # Larger than the machine: all of it.
        (Request(gpus=GpuRequest(model="A100")), WHOLE_MICRO),
        (Request(custom=(("tpu", 1),)), WHOLE_MICRO),
    ],
)
def test_the_resource_of_which_it_takes_most_counts(request_, micro):
    assert new_accounts().dominant_micro(request_) == micro


# Paying


def test_a_grant_pays_a_quantum_ahead_and_the_end_settles_it():
    accounts = new_accounts()

    accounts.begin("lease", "ada", "", HALF, 0)
    assert accounts.user_use("ada") == HALF_A_MINUTE
    accounts.end("lease", 1_000)

    assert accounts.user_use("ada") == HALF_A_MINUTE // 60
    assert accounts.project_use("ada", "") == HALF_A_MINUTE // 60
    accounts.check()


def test_whoever_runs_longer_than_paid_for_pays_at_the_tick():
    accounts = new_accounts()
    accounts.begin("lease", "ada", "", HALF, 0)

    accounts.tick(MINUTE_MS)
    assert accounts.user_use("ada") == HALF_A_MINUTE
    accounts.tick(3 * MINUTE_MS)
    assert accounts.user_use("ada") == 3 * HALF_A_MINUTE
    accounts.end("lease", 4 * MINUTE_MS)

    assert accounts.user_use("ada") == 4 * HALF_A_MINUTE


def test_the_same_lease_pays_once_and_a_stranger_never():
    accounts = new_accounts()
    for _ in range(2):
        accounts.begin("lease", "ada", "", HALF, 0)
    accounts.end("lease", MINUTE_MS)
    accounts.end("lease", 9 * MINUTE_MS)
    accounts.end("unheard of", MINUTE_MS)

    assert accounts.user_use("ada") == HALF_A_MINUTE
    accounts.check()


def test_a_lease_that_ended_before_it_began_costs_nothing():
    accounts = new_accounts()
    accounts.begin("lease", "ada", "", HALF, 5_000)
    accounts.end("lease", 4_000)

    assert accounts.user_use("ada") == 0


def test_use_is_over_the_weight():
    accounts = new_accounts(users={"ada": 2_000}, projects={"vision": 500})
    accounts.begin("one", "ada", "vision", HALF, 0)
    accounts.begin("two", "bob", "text", HALF, 0)

    assert accounts.user_use("ada") == HALF_A_MINUTE // 2
    assert accounts.project_use("ada", "vision") == HALF_A_MINUTE * 2
    assert accounts.user_use("bob") == accounts.project_use("bob", "text") == HALF_A_MINUTE
    assert accounts.user_spent("ada") == accounts.project_spent("ada", "vision") == HALF_A_MINUTE


def test_the_share_that_is_held_now_is_told_over_the_weight():
    accounts = new_accounts(users={"ada": 2_000})
    accounts.begin("one", "ada", "vision", HALF, 0)
    accounts.begin("two", "ada", "text", Request(memory_bytes=250), 0)

    assert accounts.share_milli("ada") == 375
    assert accounts.share_milli("ada", "vision") == 500
    accounts.end("one", 1)
    assert accounts.share_milli("ada") == 125
    assert accounts.share_milli("ada", "vision") == 0


def test_of_strangers_nothing_is_known():
    accounts = new_accounts()

    assert accounts.user_use("eve") == accounts.project_use("eve", "") == 0
    assert accounts.user_spent("eve") == accounts.project_spent("eve", "") == 0
    assert accounts.share_milli("eve") == accounts.share_milli("eve", "") == 0


@pytest.mark.parametrize("weight_milli", [0, -1, 1_000_001])
def test_a_weight_that_cannot_be_meant_is_refused(weight_milli):
    with pytest.raises(BadValue, match="a weight of 1 to 1000000 thousandths"):
        Weights(users={"ada": weight_milli})
    with pytest.raises(BadValue, match="a weight"):
        Weights(projects={"vision": weight_milli})


# Coming back


@pytest.mark.rows("S3-77")
def test_nobody_saves_up_idle_time_beyond_the_credit():
    accounts = new_accounts()
    has_used(accounts, "ada", 100 * MINUTE_MS)
    accounts.joined("ada", "")

    accounts.joined("bob", "")

    assert accounts.user_use("bob") == 100 * HALF_A_MINUTE - 2 * HALF_A_MINUTE


def test_nor_if_nobody_else_is_there_when_one_comes_back():
    accounts = new_accounts()
    has_used(accounts, "ada", 100 * MINUTE_MS)

    accounts.joined("bob", "")

    assert accounts.user_use("bob") == 98 * HALF_A_MINUTE


def test_newcomers_do_not_begin_one_below_the_other():
    accounts = new_accounts()
    has_used(accounts, "ada", 100 * MINUTE_MS)
    accounts.joined("ada", "")
    for name in ("bob", "cy", "dan"):
        accounts.joined(name, "")

    assert {accounts.user_use(name) for name in ("bob", "cy", "dan")} == {98 * HALF_A_MINUTE}


def test_who_has_used_more_than_the_others_keeps_that():
    accounts = new_accounts()
    accounts.joined("bob", "")
    has_used(accounts, "ada", 100 * MINUTE_MS)

    accounts.joined("ada", "")

    assert accounts.user_use("ada") == 100 * HALF_A_MINUTE
    assert accounts.user_use("bob") == 0


def test_the_same_holds_between_the_projects_of_a_user():
    accounts = new_accounts(projects={"text": 3_000})
    has_used(accounts, "ada", 100 * MINUTE_MS, "vision")

    accounts.joined("ada", "text")

    assert accounts.project_use("ada", "text") == 98 * HALF_A_MINUTE
    assert accounts.user_use("ada") == 100 * HALF_A_MINUTE


def test_a_weight_does_not_let_anybody_begin_lower():
    accounts = Accounts(TOTAL, Weights(users={"bob": 300}), credit_ms=0)
    accounts.restore(SavedAccounts(floor=1_001))

    accounts.joined("bob", "")

    assert accounts.user_use("bob") >= 1_001
    assert accounts.user_spent("bob") == 301


def test_leaving_without_having_come_is_a_mistake_of_ours():
    accounts = new_accounts()
    accounts.joined("ada", "")
    accounts.left("ada", "")

    with pytest.raises(AssertionError, match="was not there"):
        accounts.left("ada", "")


# Remembering


def test_the_idle_are_forgotten_when_they_are_too_many_the_longest_first():
    accounts = new_accounts()
    has_used(accounts, "ada", MINUTE_MS, "vision")
    has_used(accounts, "ada", MINUTE_MS, "text")
    has_used(accounts, "bob", MINUTE_MS)
    accounts.joined("bob", "")  # Waits: is not forgotten.
    for number in range(IDLE_MAX - 1):
        accounts.joined(f"user-{number}", "")
        accounts.left(f"user-{number}", "")

    assert accounts.project_use("ada", "vision") == 0
    assert accounts.project_use("ada", "text") == HALF_A_MINUTE
    assert accounts.user_use("ada") == 2 * HALF_A_MINUTE
    accounts.joined("one more", "")
    accounts.left("one more", "")

    assert accounts.user_use("ada") == 0
    assert accounts.user_use("bob") == HALF_A_MINUTE
    assert "ada" not in set(accounts.changed_since(0))
    accounts.check()


def test_who_has_changed_is_told_newest_first_and_once():
    accounts = new_accounts()
    has_used(accounts, "ada", MINUTE_MS)
    before = accounts.version
    assert list(accounts.changed_since(before)) == []

    for user in ("bob", "ada", "bob"):
        accounts.begin(f"lease of {user}", user, "", CORE, 0)
    accounts.joined("cy", "")  # Begins with the credit of all: nothing has changed.

    assert list(accounts.changed_since(before)) == ["ada", "bob"]


def test_who_begins_higher_has_changed():
    accounts = new_accounts()
    has_used(accounts, "ada", 100 * MINUTE_MS, "vision")
    accounts.joined("ada", "vision")
    before = accounts.version

    accounts.joined("ada", "text")

    assert list(accounts.changed_since(before)) == ["ada"]


def test_use_survives_a_restart_and_nobody_pays_twice():
    accounts = new_accounts(users={"ada": 2_000})
    has_used(accounts, "ada", 100 * MINUTE_MS, "vision")
    accounts.begin("runs", "ada", "text", HALF, 0)
    accounts.begin("ends meanwhile", "bob", "", HALF, 0)
    accounts.tick(10 * MINUTE_MS)
    use = accounts.user_use("ada"), accounts.project_use("ada", "text"), accounts.user_use("bob")

    saved = msgspec.json.decode(msgspec.json.encode(accounts.saved()), type=SavedAccounts)
    again = new_accounts(users={"ada": 2_000})
    again.restore(saved)
    again.begin("runs", "ada", "text", HALF, 0)
    again.check()

    assert use == (
        again.user_use("ada"),
        again.project_use("ada", "text"),
        again.user_use("bob"),
    )
    again.end("runs", 11 * MINUTE_MS)
    assert again.user_spent("ada") == accounts.user_spent("ada") + HALF_A_MINUTE
    again.joined("newcomer", "")
    assert again.user_use("newcomer") == again.user_use("ada") - 2 * HALF_A_MINUTE


def test_nor_does_a_restart_let_a_project_begin_lower():
    accounts = Accounts(TOTAL, Weights(), credit_ms=0)
    accounts.restore(
        SavedAccounts(users=(("ada", 5_000, 1_001),), projects=(("ada", "vision", 0),))
    )

    accounts.joined("ada", "text")

    assert accounts.project_use("ada", "text") == 1_001


def test_of_more_than_can_be_kept_the_most_recent_come_back():
    saved = SavedAccounts(
        users=tuple((f"user-{number}", number, 0) for number in range(IDLE_MAX + 1)),
        projects=tuple((f"user-{number}", "", number) for number in range(IDLE_MAX + 1)),
    )
    accounts = new_accounts()
    accounts.restore(saved)
    accounts.check()

    assert len(accounts.saved().users) == IDLE_MAX
    assert accounts.user_use(f"user-{IDLE_MAX}") == IDLE_MAX


def test_accounts_in_use_are_not_restored():
    accounts = new_accounts()
    accounts.joined("ada", "")

    with pytest.raises(AssertionError, match="before they are used"):
        accounts.restore(SavedAccounts())
