import pytest

from distributed_grid.errors import BadValue
from distributed_grid.kernel.entry import AGEING_MS, Entry, lifted
from distributed_grid.kernel.fairness import Accounts
from distributed_grid.kernel.waiting import WaitingLine
from distributed_grid.model.ids import JobId
from distributed_grid.model.priority import RANKS, Weights, priority
from distributed_grid.model.resources import Request, Resources

TOTAL = Resources(cpu_milli=8_000, memory_bytes=1_000)
CORE = Request(cpu_milli=1_000)
BIG = Request(cpu_milli=4_000)
NOW_MS = 10 * AGEING_MS
WORDS = tuple(RANKS)


def an_entry(name: str, word: str = "medium", ago_ms: int = 0, **what_matters) -> Entry:
    return Entry(
        **{
            "job": JobId(name),
            "rank": RANKS[word],
            "submitted_ms": NOW_MS - ago_ms,
            "request": CORE,
            **what_matters,
        }
    )


def a_world(*entries: Entry, **weights: dict[str, int]) -> tuple[WaitingLine, Accounts]:
    line, accounts = WaitingLine(), Accounts(TOTAL, Weights(**weights))
    for entry in entries:
        assert line.add(entry)
        accounts.joined(entry.user, entry.project)
    return line, accounts


def names(entries) -> list[str]:
    return [entry.job for entry in entries]


def served(line: WaitingLine, accounts: Accounts, count: int) -> list[Entry]:
    """Grant the first, again and again; all run on."""
    found = []
    for _ in range(count):
        first = line.tops(NOW_MS, accounts)[0]
        line.remove(first.job)
        accounts.begin(first.job, first.user, first.project, first.request, NOW_MS)
        accounts.left(first.user, first.project)
        found.append(first)
    return found


# Classes


def test_classes_come_in_order_and_within_one_the_oldest_first():
    waiting = [an_entry(f"{word}-{age}", word, age) for word in WORDS for age in (5, 9)]
    line, accounts = a_world(*reversed(waiting))

    assert names(line.order(NOW_MS, accounts)) == [
        *("urgent-9", "urgent-5", "high-9", "high-5"),
        *("medium-9", "medium-5", "low-9", "low-5"),
    ]
    assert names(line.tops(NOW_MS, accounts)) == ["urgent-9", "high-9", "medium-9", "low-9"]


def test_borrowed_work_comes_after_all_of_the_owners():
    line, accounts = a_world(
        an_entry("borrowed", "urgent", is_shared=True, user="eve"),
        an_entry("own", "low", user="ada"),
    )

    assert names(line.order(NOW_MS, accounts)) == ["own", "borrowed"]


def test_of_one_moment_the_lowest_id_is_first():
    line, accounts = a_world(an_entry("b"), an_entry("a"), an_entry("c"))

    assert names(line.order(NOW_MS, accounts)) == ["a", "b", "c"]


@pytest.mark.parametrize(("word", "means"), [("Normal", "medium"), ("CRITICAL", "urgent")])
def test_other_words_for_classes_are_understood(word, means):
    assert priority(word) == means


@pytest.mark.parametrize("word", ["", "asap", 3, None])
def test_a_word_that_is_no_class_is_refused(word):
    with pytest.raises(BadValue, match="urgent, high, medium or low"):
        priority(word)


# Ageing


def test_waiting_lifts_by_a_class_an_hour_and_never_above_the_first():
    steps = [lifted(RANKS["low"], hours * AGEING_MS) for hours in range(5)]

    assert steps == [3, 2, 1, 0, 0]
    assert lifted(RANKS["low"], AGEING_MS - 1) == 3
    assert lifted(RANKS["low"], -5) == 3  # Submitted by a clock that was ahead.


def test_somebody_is_lifted_at_the_very_moment():
    line, accounts = a_world(
        an_entry("old", "low", AGEING_MS - 1), an_entry("new", "medium", -10_000)
    )
    assert names(line.tops(NOW_MS, accounts)) == ["new", "old"]
    assert line.lifted(an_entry("old", "low", AGEING_MS - 1), NOW_MS) == RANKS["low"]

    assert names(line.tops(NOW_MS + 1, accounts)) == ["old", "new"]
    assert names(line.order(NOW_MS + 1, accounts)) == ["old", "new"]
    line.check()


def test_the_next_of_a_group_has_waited_for_itself_only():
    line, accounts = a_world(
        an_entry("oldest", "low", 2 * AGEING_MS),
        an_entry("younger", "low", AGEING_MS - 1),
        an_entry("high", "high", 1),
    )
    assert names(line.tops(NOW_MS, accounts)) == ["oldest", "high"]

    line.remove(JobId("oldest"))

    assert names(line.tops(NOW_MS, accounts)) == ["high", "younger"]
    assert names(line.order(NOW_MS, accounts)) == ["high", "younger"]


def test_time_does_not_go_back():
    line, accounts = a_world(an_entry("old", "low", 0), an_entry("new", "medium", -AGEING_MS))
    lifted_then = names(line.tops(NOW_MS + AGEING_MS, accounts))

    assert names(line.tops(NOW_MS, accounts)) == lifted_then == ["old", "new"]


def test_nothing_starves_though_more_important_work_comes_all_the_time():
    line, accounts = a_world(an_entry("patient", "low", 0))
    for hour in range(4):
        for number in range(20):
            came_ms = NOW_MS + hour * AGEING_MS + number + 1
            line.add(an_entry(f"{hour}-{number}", "urgent", submitted_ms=came_ms))

    assert line.position(JobId("patient"), NOW_MS + 2 * AGEING_MS, accounts) == 81
    assert line.position(JobId("patient"), NOW_MS + 3 * AGEING_MS, accounts) == 1


# Shares


@pytest.mark.rows("S3-77", "S3-108")
def test_medium_work_is_shared_out_between_users_by_weight():
    users = ("ada", "bob", "cy")
    waiting = [an_entry(f"{user}-{n:03}", user=user) for user in users for n in range(200)]
    line, accounts = a_world(*waiting, users={"ada": 2_000})
    forecast = names(line.order(NOW_MS, accounts))[:200]

    got = names(served(line, accounts, 200))

    counts = {user: sum(name.startswith(user) for name in got) for user in users}
    assert counts == {"ada": 100, "bob": 50, "cy": 50}
    assert got == forecast


def test_then_between_the_projects_of_each():
    waiting = [
        an_entry(f"{user}-{project}-{n:03}", user=user, project=project)
        for user, of_user in (("ada", ("text", "vision")), ("bob", ("text",)))
        for project in of_user
        for n in range(90)
    ]
    line, accounts = a_world(*waiting, projects={"vision": 2_000})

    got = names(served(line, accounts, 120))

    starts = ("ada-text", "ada-vision", "bob-text")
    assert [sum(name.startswith(start) for name in got) for start in starts] == [20, 40, 60]


def test_who_asks_for_more_has_fewer_turns():
    waiting = [an_entry(f"ada-{n:02}", user="ada", request=BIG) for n in range(20)]
    waiting += [an_entry(f"bob-{n:02}", user="bob") for n in range(20)]
    line, accounts = a_world(*waiting)

    got = names(served(line, accounts, 20))

    assert sum(name.startswith("ada") for name in got) == 4


def test_shares_do_not_matter_in_the_other_classes():
    line, accounts = a_world(
        an_entry("first", "high", 9, user="ada"), an_entry("then", "high", 5, user="bob")
    )
    accounts.begin("lease", "ada", "", BIG, 0)

    assert names(line.order(NOW_MS, accounts)) == ["first", "then"]


def test_but_their_use_counts():
    line, accounts = a_world(
        an_entry("ada's urgent", "urgent", user="ada"),
        an_entry("ada's", ago_ms=9, user="ada"),
        an_entry("bob's", ago_ms=5, user="bob"),
    )

    assert names(line.order(NOW_MS, accounts)) == ["ada's urgent", "bob's", "ada's"]


def test_users_part_and_meet_again():
    waiting = [
        an_entry(f"{user}-{n}", ago_ms=n, user=user, request=Request(cpu_milli=1_000 + n))
        for user in ("ada", "bob")
        for n in range(3)
    ]
    line, accounts = a_world(*waiting)
    together = ["ada-2", "bob-2", "ada-1", "bob-1", "ada-0", "bob-0"]
    assert names(line.tops(NOW_MS, accounts)) == together

    accounts.begin("one", "ada", "", CORE, NOW_MS)
    assert names(line.tops(NOW_MS, accounts)) == [*together[1::2], *together[::2]]
    accounts.begin("two", "bob", "", CORE, NOW_MS)
    assert names(line.tops(NOW_MS, accounts)) == together
    line.remove(JobId("ada-1"))
    line.add(an_entry("bob-9", ago_ms=9, user="bob", request=BIG))
    assert names(line.tops(NOW_MS, accounts)) == ["bob-9", *together[:2], *together[3:]]
    accounts.end("two", NOW_MS)

    assert names(line.tops(NOW_MS, accounts))[-2:] == ["ada-2", "ada-0"]
    line.check()


def test_other_accounts_are_another_order():
    line, accounts = a_world(an_entry("ada's", ago_ms=9, user="ada"), an_entry("bob's", user="bob"))
    others = Accounts(TOTAL, Weights())
    others.begin("lease", "ada", "", CORE, 0)

    assert names(line.tops(NOW_MS, accounts)) == ["ada's", "bob's"]
    assert names(line.tops(NOW_MS, others)) == ["bob's", "ada's"]
    assert names(line.tops(NOW_MS, accounts)) == ["ada's", "bob's"]


# The line


def test_a_job_that_waits_keeps_its_place():
    line, accounts = a_world(an_entry("a", ago_ms=5))

    assert not line.add(an_entry("a", "urgent", ago_ms=9))
    assert line.tops(NOW_MS, accounts) == [an_entry("a", ago_ms=5)]


def test_who_leaves_is_told_and_who_was_not_there_is_not():
    line, accounts = a_world(an_entry("a"), an_entry("b"), an_entry("c", user="eve"))

    assert line.remove(JobId("b")) == an_entry("b")
    assert line.remove(JobId("b")) is None
    assert line.position(JobId("b"), NOW_MS, accounts) is None
    assert line.remove(JobId("c")) == an_entry("c", user="eve")
    assert list(line) == ["a"]
    assert len(line) == 1
    line.check()


def test_one_who_comes_and_goes_before_anybody_looks_leaves_nothing_behind():
    line, accounts = a_world()
    line.add(an_entry("a", user="ada"))
    line.remove(JobId("a"))
    line.add(an_entry("b", user="ada"))

    assert names(line.tops(NOW_MS, accounts)) == ["b"]
    line.check()


def test_of_those_who_claim_the_same_only_the_first_is_looked_at():
    line, accounts = a_world(
        an_entry("later", user="ada"),
        an_entry("first", "high", user="bob"),
        an_entry("larger", user="bob", request=BIG),
        an_entry("booked", "low", user="bob", booking="demo"),
        an_entry("borrowed", "urgent", user="eve", is_shared=True),
        an_entry("also borrowed", user="eve", is_shared=True),
    )

    found = line.first_of_each(NOW_MS, accounts)

    assert names(found) == ["first", "larger", "booked", "borrowed"]
    assert [entry.request for entry in found] == [CORE, BIG, CORE, CORE]
    line.remove(JobId("larger"))
    found = line.first_of_each(NOW_MS, accounts)
    assert names(found) == ["first", "booked", "borrowed"]
    line.check()


def test_nobody_waits():
    line, accounts = a_world()

    assert line.tops(NOW_MS, accounts) == line.first_of_each(NOW_MS, accounts) == []
    assert list(line.order(NOW_MS, accounts)) == []
