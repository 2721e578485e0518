"""Comparing: what differs is found with few bytes, and what is equal is not talked about."""

import msgspec
import pytest

from distributed_grid.kernel.mesh.arrivals import SLACK, Arrivals
from distributed_grid.kernel.mesh.ranges import LIST_MAX, SPLIT
from distributed_grid.kernel.mesh.ranges import Ranges as Index
from distributed_grid.kernel.mesh.replica import Replica
from distributed_grid.wire.mesh import (
    ITEMS_MAX,
    RANGES_MAX,
    Delta,
    Have,
    Item,
    RangeHash,
    Ranges,
    Remember,
    encode,
)
from tests.unit.mesh.replica_lab import (
    SECOND_US,
    Wires,
    contents,
    entry,
    node,
    replica,
    spread,
)

ME, PEER, OTHER = node(1), node(2), node(3)
KEYS = ("profile", "load", "offers", "coordinate", "contact", "chain", "verdicts", "left")
MANY = [
    entry(spread(number), key, version + 1)
    for number in range(1_000)
    for version, key in enumerate(KEYS)
]


def pair(left, right) -> Wires:
    """Two neighbours that know this much, connected."""
    one, other = replica(node(1)), replica(node(2))
    one.take(left, source=None, now_us=0)
    other.take(right, source=None, now_us=0)
    wires = Wires(one, other)
    wires.up(one.me, other.me)
    wires.settle()
    return wires


def index(words) -> Index:
    made = Index()
    for each in words:
        made.put(f"{each.node}/{each.key}", each)
    return made


def test_equal_replicas_exchange_one_hash_and_nothing_else():
    wires = pair(MANY, reversed(MANY))

    assert len(wires.said(Ranges)) == 1
    assert len(wires.sent) == 3  # And what each remembers of the other.
    assert len(encode(wires.said(Ranges)[0])) < 60

    wires.forget_sent()
    for _ in range(70):
        wires.round(SECOND_US)

    assert len(wires.sent) == 1
    assert wires.sent_bytes < 60


def test_one_difference_among_thousands_costs_a_few_kilobytes():
    newer = entry(spread(500), "load", 99)
    wires = pair(MANY, [*MANY, newer])
    wires.round()

    assert wires.replicas[node(1)].entry(spread(500), "load") == newer
    assert len(wires.said(Delta)) == 1
    assert wires.sent_bytes < 5_000


@pytest.mark.parametrize("is_reversed", [False, True])
def test_who_has_nothing_gets_everything_at_once(is_reversed):
    sides = ([], MANY) if is_reversed else (MANY, [])
    wires = pair(*sides)
    wires.round()

    one, other = wires.replicas.values()
    assert contents(one) == contents(other)
    assert len(contents(one)) == len(MANY)
    assert wires.sent_bytes < 1.1 * len(encode(Delta(number=0, entries=tuple(MANY))))


def test_two_halves_become_a_whole():
    wires = pair(MANY[:2000:2], MANY[1:2000:2])
    for _ in range(3):
        wires.round()

    one, other = wires.replicas.values()
    assert len(contents(one)) == 2_000
    assert contents(one) == contents(other)


def test_two_values_of_one_version_are_told_apart():
    """A list names versions; without more, such a pair would differ for ever."""
    wires = pair([entry(OTHER, value=b"a")], [entry(OTHER, value=b"b")])
    wires.round()

    one, other = wires.replicas.values()
    assert one.value(OTHER, "load") == other.value(OTHER, "load") == b"b"


def test_what_a_list_shows_to_be_there_is_not_sent():
    one = replica(ME)
    one.link_up(PEER, 0)
    one.take([entry(OTHER)], source=None, now_us=0)
    mark = one._maps.ranges.mark(f"{OTHER}/load")
    one.receive(PEER, Have(low="", high="", items=(Item(OTHER, "load", 1, 1, mark),)), 0)

    assert one.round([PEER], 0) == []


def test_equal_hashes_end_everything_that_is_under_way():
    one = replica(ME)
    one.link_up(PEER, 0)
    one.publish("load", b"x", 0)
    one.round([PEER], 0)
    one.publish("profile", b"x", 0)
    same = one._maps.ranges.range()
    one.receive(PEER, Ranges(ranges=(same,)), 0)

    assert one.round([PEER], 5 * SECOND_US) == []


def test_equal_parts_say_nothing_about_the_rest():
    one = replica(ME)
    one.link_up(PEER, 0)
    one.publish("load", b"x", 0)
    part = one._maps.ranges.range("", "0")
    one.receive(PEER, Ranges(ranges=(part,)), 0)

    assert len(one.round([PEER], 0)) == 1


def have(one, *items, low="", high="", **more):
    return one.receive(PEER, Have(low=low, high=high, items=items, **more), 0)


def told() -> Replica:
    one = replica(ME)
    one.link_up(PEER, 0)
    one.take([entry(OTHER, "load", 5, generation=2)], source=None, now_us=0)
    one._links[PEER].cursor = one._maps.arrivals.head
    return one


def asked(answers) -> list[Item]:
    return [item for each in answers[0] for item in each.items]


def test_what_is_older_or_lacking_is_asked_for_once():
    one = told()
    answers = have(one, Item(OTHER, "load", 2, 6), Item(node(7), "load", 1, 1))
    (answer,), _ = answers

    assert answer.is_answer
    assert [(each.node, each.generation, each.version) for each in answer.items] == [
        (OTHER, 2, 5),
        (node(7), 0, 0),
    ]
    assert one.round([PEER], 0) == []


def test_an_answer_is_not_answered_and_asks_only_for_what_it_names():
    one = told()
    one.take([entry(node(7))], source=None, now_us=0)
    one._links[PEER].cursor = one._maps.arrivals.head

    assert have(one, Item(OTHER, "load", 0, 0), Item(node(9), "load", 0, 0), is_answer=True) == (
        [],
        [],
    )
    ((_, delta),) = one.round([], 0)  # Partner or not: it was asked for.
    assert delta.entries == (entry(OTHER, "load", 5, generation=2),)


@pytest.mark.parametrize(
    "item",
    [
        Item(OTHER, "load", 2, 4),
        Item(OTHER, "load", 1, 9),
        Item(OTHER, "profile", 1, 9),  # Of a generation that was replaced.
        Item(node(7), "load", 1, 1),  # Of a node that was dropped.
        Item("f" * 65, "load", 1, 1),
    ],
)
def test_what_would_not_count_is_not_asked_for(item):
    one = told()
    one.take([entry(node(7))], source=None, now_us=0)
    one.forget(node(7))

    assert asked(have(one, item)) == []


def test_another_key_of_a_known_node_is_asked_for():
    one = told()

    assert asked(have(one, Item(OTHER, "profile", 2, 1))) == [Item(OTHER, "profile", 0, 0)]


def test_what_lies_outside_of_its_range_does_not_count():
    one = told()
    items = (Item(node(7), "load", 1, 1), Item(node(0), "load", 1, 1))

    assert asked(have(one, *items, low=ME, high=node(5))) == []
    assert len(asked(have(one, *items, low=ME, high=node(8)))) == 1


def test_lists_that_are_too_long_or_crossed_are_ignored():
    one = told()
    item = Item(node(7), "load", 1, 1)

    assert have(one, *[item] * (ITEMS_MAX + 1)) == ([], [])
    assert have(one, item, low="b", high="a") == ([], [])
    assert have(one, item, low="0" * 76) == ([], [])
    assert len(asked(have(one, *[item] * ITEMS_MAX))) == 1
    assert len(asked(have(one, item, low="0" * 75))) == 1


def test_answers_are_bounded_whatever_is_asked():
    one = replica(ME)
    one.take(MANY, source=None, now_us=0)
    one.link_up(PEER, 0)
    cuts = [f"{number:02x}" for number in range(0, 256, 2)]
    wrong = [RangeHash(low, high, 99, b"") for low, high in zip(cuts, [*cuts[1:], ""], strict=True)]
    answers, _ = one.receive(PEER, Ranges(ranges=tuple(wrong)), 0)

    assert len(answers) <= SPLIT
    assert all(len(each.ranges) <= RANGES_MAX for each in answers)
    assert all(part.low < cuts[RANGES_MAX] for each in answers for part in each.ranges)
    assert one.ranges_sent == 1 + len(answers)


def test_ranges_that_overlap_are_looked_at_once():
    """Otherwise one message could make this node hash everything 64 times."""
    one = replica(ME)
    one.take(MANY[:LIST_MAX], source=None, now_us=0)
    one.link_up(PEER, 0)
    wrong = RangeHash("", "", 99, b"")
    crossed = RangeHash("b", "a", 99, b"")
    half = RangeHash("", "8", 99, b"")

    assert len(one.receive(PEER, Ranges(ranges=(wrong, wrong, half)), 0)[0]) == 1
    assert len(one.receive(PEER, Ranges(ranges=(half, half, crossed)), 0)[0]) == 1


def test_the_shorter_list_is_asked_for():
    one = replica(ME)
    one.take(MANY, source=None, now_us=0)
    one.link_up(PEER, 0)
    (answer,), _ = one.receive(PEER, Ranges(ranges=(RangeHash("", "8", 1, b""),)), 0)

    assert answer == Ranges(ranges=(one._maps.ranges.range("", "8"),))


def test_memory_of_a_neighbour_comes_first():
    wires = pair([], [])

    assert isinstance(wires.sent[0][2], Remember)


# The index


def test_parts_cover_the_whole_and_add_up():
    whole = index(MANY)
    parts = whole.split("", "")

    assert len(parts) == SPLIT
    assert parts[0].low == parts[-1].high == ""
    assert [each.high for each in parts[:-1]] == [each.low for each in parts[1:]]
    assert sum(each.count for each in parts) == len(MANY)
    assert [whole.range(each.low, each.high) for each in parts] == parts
    assert max(len(each.low) for each in parts) < 8  # Ids differ early.


def test_a_node_is_not_cut_in_two():
    parts = index(MANY[:40]).split("", "")

    assert [each.count for each in parts] == [8] * 5


def test_cuts_are_right_even_if_ids_hardly_differ():
    words = [entry(node(number)) for number in range(100)]
    whole = index(words)

    assert sum(each.count for each in whole.split("", "")) == 100


def test_what_is_put_and_dropped_leaves_no_trace():
    one = index(MANY[:50])
    before = one.range()
    one.put("x/load", entry(OTHER))
    with_more = one.range()
    one.drop("x/load")
    one.put("y/load", entry(OTHER))
    one.drop("y/load")

    assert one.range() == before != with_more
    assert one.names("x") == []


def test_the_hash_is_over_everything_that_is_said():
    said = entry(OTHER)
    others = [
        entry(OTHER, version=2),
        entry(OTHER, generation=2),
        entry(OTHER, value=b"w"),
        entry(PEER),
        msgspec.structs.replace(said, signature=b"z" * 64),
    ]

    assert len({index([each]).range().hash for each in [said, *others]}) == 6


# The log


def test_a_reader_reads_on_from_its_place():
    log = Arrivals()
    for name in "abca":
        log.add(name, 0)

    assert list(log.after(0)) == [(2, "b"), (3, "c"), (4, "a")]
    assert list(log.after(3)) == [(4, "a")]
    assert list(log.after(log.head)) == []
    assert (log.number("a"), log.number("z")) == (4, 0)


def test_what_is_dropped_is_passed_over():
    log = Arrivals()
    log.add("a", 0)
    log.add("b", 0)
    log.drop("a")
    log.drop("z")

    assert list(log.after(0)) == [(2, "b")]
    assert len(log) == 1


def test_the_log_is_as_long_as_there_are_names():
    log = Arrivals()
    for number in range(10_000):
        log.add(f"{number % 10}", 0)

    assert len(log._log) <= 2 * 10 + SLACK
    assert [name for _, name in log.after(0)] == list("0123456789")


def test_how_long_something_waits_is_known_even_if_nothing_is_left():
    log = Arrivals()
    assert log.waiting_us(0, 9) == 0

    log.add("a", 5)
    assert log.waiting_us(0, 9) == 4
    assert log.waiting_us(1, 9) == 0

    log.drop("a")
    for _ in range(SLACK + 2):
        log.add("b", 6)
        log.drop("b")
    log.drop("b")
    assert log.waiting_us(log.head - 1, 4) == 0


def test_a_part_that_the_other_lacks_is_sent_without_asking():
    one = replica(ME)
    one.take(MANY[:80], source=None, now_us=0)
    one.link_up(PEER, 0)
    lacking = one._maps.ranges.names("", "8")

    assert one.receive(PEER, Ranges(ranges=(RangeHash("", "8", 0, b"\0" * 16),)), 0) == ([], [])
    ((_, delta),) = one.round([], 0)
    assert sorted(f"{each.node}/{each.key}" for each in delta.entries) == lacking


def test_what_was_asked_for_and_is_forgotten_is_passed_over():
    one = told()
    have(one, Item(OTHER, "load", 0, 0), is_answer=True)
    one.forget(OTHER)

    assert one.round([], 0) == []

    one.take([entry(node(7))], source=PEER, now_us=0)
    have(one, Item(node(7), "load", 0, 0), is_answer=True)
    one.receive(PEER, Delta(number=1, entries=(entry(node(7)),)), 0)

    assert one.round([], 0) == []


def test_what_was_asked_for_and_has_just_arrived_is_sent_once():
    one = told()
    one.take([entry(node(7))], source=None, now_us=0)
    have(one, Item(node(7), "load", 0, 0), is_answer=True)
    ((_, delta),) = one.round([PEER], 0)

    assert delta.entries == (entry(node(7)),)


def test_equal_hashes_answer_what_was_asked_for():
    one = told()
    have(one, Item(OTHER, "load", 0, 0), is_answer=True)
    one.receive(PEER, Ranges(ranges=(one._maps.ranges.range(),)), 0)

    assert one.round([PEER], 0) == []


def test_of_what_is_asked_for_the_stalest_comes_first():
    one = told()
    words = [entry(node(number)) for number in (8, 5, 9, 6)]
    one.take(words, source=None, now_us=0)
    have(one, *(Item(node(number), "load", 0, 0) for number in (5, 6, 8, 9)), is_answer=True)
    ((_, delta),) = one.round([], 0)

    assert delta.entries == tuple(words)
