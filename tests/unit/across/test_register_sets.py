import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributed_grid.kernel.across.register_sets import (
    can_be_carried,
    due_set,
    first_set,
    is_carried,
    is_recollected,
    is_remembered,
    members_of,
)
from tests.unit.across.register_lab import member, members

NAMES = st.sets(st.sampled_from("abcdefg"), min_size=1, max_size=5)


def test_a_majority_is_more_than_half():
    assert is_carried((members("abc"),), {member("a"), member("c")})
    assert not is_carried((members("abc"),), {member("a"), member("x")})
    assert is_carried((members("a"),), {member("a")})
    assert not is_carried((members("ab"),), {member("a")})


def test_two_sets_need_two_majorities():
    both = (members("abc"), members("cde"))

    assert not is_carried(both, set(members("abc")))
    assert is_carried(both, set(members("bcd")))
    assert not can_be_carried(both, set(members("de")))
    assert can_be_carried(both, set(members("ae")))
    assert members_of(both) == members("abcde")


@given(NAMES, st.data())
def test_whoever_must_be_asked_after_a_start_includes_one_who_remembers(names, data):
    """However those who confirmed a vote and those who answer after a start are chosen."""
    me, *_ = everyone = members("".join(sorted(names)))
    others = st.sets(st.sampled_from(everyone))
    remember, answered = data.draw(others) - {me}, data.draw(others) - {me}
    sets = (everyone,)
    if len(everyone) > 1 and is_remembered(sets, me, remember):
        assert not is_recollected(sets, me, answered) or remember & answered


def test_alone_nobody_need_be_asked_and_strangers_do_not_count():
    me = member("a")

    assert is_recollected((members("a"),), me, set())
    assert is_remembered((members("a"),), me, set())
    assert not is_recollected((members("abc"), members("a")), me, {member("b")})
    assert is_recollected((members("xyz"),), me, set())
    assert is_recollected((members("abc"),), me, {member("b"), member("c")})
    assert is_remembered((members("abc"),), me, {member("c")})
    assert not is_remembered((members("abcde"),), me, {member("c")})


@pytest.mark.parametrize(
    ("there", "size", "voters"),
    [("a", 3, "a"), ("ba", 3, "a"), ("bac", 3, "bac"), ("bacd", 5, "bac"), ("bacde", 5, "bacde"),
     ("bacde", 3, "bac"), ("bacd", 1, "a"), ("", 3, "a")],
)  # fmt: skip
def test_there_is_one_voter_or_three_or_five(there, size, voters):
    assert first_set(member("a"), members(there), size) == members(voters)


@pytest.mark.parametrize(
    ("now", "there", "gone", "due"),
    [
        ("abc", "abcd", "", None),
        ("abc", "dab", "c", "abd"),
        ("abc", "ab", "c", None),  # Two are no safer than one; the lost one may come back.
        ("a", "ab", "", None),
        ("a", "bca", "", "abc"),
        ("a", "cb", "a", "c"),
        ("a", "cbd", "a", "cbd"),
        ("abcde", "abcde", "", None),
        ("abc", "de", "abc", None),
        ("abc", "def", "abc", "def"),
    ],
)
def test_a_set_changes_when_it_is_too_small_or_has_lost_somebody(now, there, gone, due):
    found = due_set(members(now), members(there), set(members(gone)), 3)

    assert found == (members(due) if due else None)
