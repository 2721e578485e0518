"""Telling neighbours what is new: deltas, their answers, back-pressure."""

from itertools import pairwise

from distributed_grid.kernel.mesh.replica_links import PATIENCE_US, size_bytes
from distributed_grid.wire.mesh import (
    DELTA_BYTES_MAX,
    VALUE_BYTES_MAX,
    Delta,
    DeltaTaken,
    Entry,
    Have,
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


def linked(*peers):
    """A replica with neighbours that have nothing to compare."""
    one = replica(ME)
    for peer in peers:
        one.link_up(peer, 0)
    return one


def deltas(one, now_us: int = 0, peers=(PEER,)) -> list[Delta]:
    return [each for _, each in one.round(peers, now_us) if isinstance(each, Delta)]


def test_what_is_new_goes_to_each_partner_once():
    one = linked(PEER, OTHER)
    said = one.publish("load", b"x", 0)
    first = one.round([PEER, OTHER], 0)

    assert [peer for peer, _ in first] == [PEER, OTHER]
    assert [each.entries for _, each in first] == [(said,), (said,)]
    for peer, delta in first:
        assert one.receive(peer, DeltaTaken(number=delta.number), 0) == ([], [])
    assert one.round([PEER, OTHER], 1) == []
    assert (one.deltas_sent, one.entries_sent) == (2, 2)


def test_who_is_no_partner_hears_of_it_when_it_becomes_one():
    one = linked(PEER, OTHER)
    said = one.publish("load", b"x", 0)

    assert [peer for peer, _ in one.round([PEER], 0)] == [PEER]
    assert deltas(one, 1, [OTHER])[0].entries == (said,)


def test_strangers_are_neither_told_nor_heard():
    one = linked()
    one.publish("load", b"x", 0)

    assert one.round([PEER], 0) == []
    assert one.receive(PEER, Delta(number=1, entries=(entry(PEER),)), 0) == ([], [])
    assert one.nodes() == [ME]


def test_a_delta_is_answered_and_not_sent_back():
    one = linked(PEER)
    new = entry(OTHER)

    answers, changed = one.receive(PEER, Delta(number=7, entries=(new,)), 0)

    assert answers == [DeltaTaken(number=7)]
    assert changed == [new]
    assert one.round([PEER], 0) == []


def test_what_a_neighbour_also_has_is_not_sent_to_it():
    one = linked(PEER, OTHER)
    new = entry(node(9))
    one.receive(PEER, Delta(number=1, entries=(new,)), 0)
    one.receive(OTHER, Delta(number=1, entries=(new,)), 0)

    assert one.round([PEER, OTHER], 0) == []


def test_a_newer_version_than_the_neighbour_sent_is_sent_to_it():
    one = linked(PEER)
    one.receive(PEER, Delta(number=1, entries=(entry(OTHER, version=1),)), 0)
    newer = entry(OTHER, version=2)
    one.take([newer], source=None, now_us=0)

    assert deltas(one)[0].entries == (newer,)


def test_what_a_neighbour_had_before_its_link_broke_counts_no_more():
    one = linked(PEER)
    one.receive(PEER, Delta(number=1, entries=(entry(OTHER),)), 0)
    one.link_down(PEER)
    one.link_up(PEER, 0)

    assert one._maps.items[f"{OTHER}/load"].knows == 0


def test_neighbours_are_told_apart():
    one = linked(PEER, OTHER, node(4))
    one.link_down(OTHER)
    one.link_up(OTHER, 0)
    one.link_up(OTHER, 0)

    bits = [link.bit for link in one._links.values()]

    assert len(set(bits)) == 3
    assert all(bit.bit_count() == 1 for bit in bits)


def test_one_delta_at_most_is_unanswered():
    one = linked(PEER)
    one.publish("load", b"1", 0)
    (first,) = deltas(one)
    second = one.publish("load", b"2", 0)

    assert deltas(one, 1) == []

    one.receive(PEER, DeltaTaken(number=first.number), 1)

    assert deltas(one, 2)[0].entries == (second,)


def test_an_unanswered_delta_is_sent_again_without_what_is_outdated():
    one = linked(PEER)
    kept = one.publish("profile", b"p", 0)
    one.publish("load", b"1", 0)
    (first,) = deltas(one)
    newer = one.publish("load", b"2", 0)

    assert deltas(one, PATIENCE_US - 1) == []

    (again,) = deltas(one, PATIENCE_US)

    assert again == Delta(number=first.number, entries=(kept,))
    assert deltas(one, PATIENCE_US + 1) == []

    one.receive(PEER, DeltaTaken(number=first.number), PATIENCE_US + 1)

    assert deltas(one, PATIENCE_US + 2)[0].entries == (newer,)


def test_an_answer_to_something_else_is_no_answer():
    one = linked(PEER)
    one.publish("load", b"1", 0)
    (first,) = deltas(one)
    one.receive(PEER, DeltaTaken(number=first.number + 1), 0)

    assert one._links[PEER].sent is not None

    one.receive(PEER, DeltaTaken(number=first.number), 0)
    one.receive(PEER, DeltaTaken(number=first.number), 0)

    assert deltas(one) == []


def test_what_changes_under_way_is_not_taken_for_known():
    one = linked(PEER)
    one.publish("load", b"1", 0)
    (first,) = deltas(one)
    newer = one.publish("load", b"2", 0)
    one.receive(PEER, DeltaTaken(number=first.number), 0)

    assert deltas(one)[0].entries == (newer,)


def test_what_is_forgotten_under_way_is_not_sent_again():
    one = linked(PEER)
    one.take([entry(OTHER)], source=None, now_us=0)
    (first,) = deltas(one)
    one.forget(OTHER)
    (again,) = deltas(one, PATIENCE_US)

    assert again.entries == ()

    one.receive(PEER, DeltaTaken(number=first.number), PATIENCE_US)

    assert deltas(one, PATIENCE_US) == []


def test_a_delta_holds_whole_entries_within_its_budget_the_stalest_first():
    one = linked(PEER)
    words = [
        entry(node(number), value=b"x" * (VALUE_BYTES_MAX - number)) for number in range(10, 21)
    ]
    one.take(words, source=None, now_us=0)
    got = []
    while sent := deltas(one):
        (delta,) = sent
        got += delta.entries
        assert len(encode(delta)) <= DELTA_BYTES_MAX + 32  # Its own frame.
        one.receive(PEER, DeltaTaken(number=delta.number), 0)

    assert got == words
    assert one.deltas_sent == 4


def test_no_entry_is_larger_than_it_is_counted():
    largest = Entry("f" * 64, 2**61, "coordinate", 2**61, b"x" * VALUE_BYTES_MAX, b"s" * 64)

    assert len(encode(Delta(number=2**61, entries=(largest,)))) - 40 <= size_bytes(largest)


def test_a_nodes_entries_go_in_the_order_of_their_versions():
    one = linked(PEER)
    late, early = entry(OTHER, "load", 9), entry(OTHER, "profile", 3)
    between = entry(node(9))
    one.take([late, between, early], source=None, now_us=0)

    assert deltas(one)[0].entries == (early, between, late)


def test_a_value_that_changes_often_is_sent_once():
    one = linked(PEER)
    for number in range(100):
        last = one.publish("load", b"%d" % number, 0)

    assert deltas(one)[0].entries == (last,)


def test_staleness_is_how_long_the_first_in_line_has_waited():
    one = linked(PEER, OTHER)
    one.round([PEER], 0)
    assert one.staleness_us == 0

    one.take([entry(node(9))], source=PEER, now_us=5)
    one.publish("load", b"x", 10)
    one.round([OTHER], 30)
    assert one.staleness_us == 25

    one.round([], 40)
    assert one.staleness_us == 0


def test_news_crosses_a_line_of_nodes_in_as_many_rounds():
    ids = [node(number) for number in range(1, 7)]
    wires = Wires(*map(replica, ids))
    for left, right in pairwise(ids):
        wires.up(left, right)
    wires.settle()
    wires.replicas[ids[0]].publish("load", b"x", 0)
    rounds = 0
    while wires.replicas[ids[-1]].value(ids[0], "load") != b"x":
        wires.round()
        rounds += 1

    assert rounds <= 5


def test_nothing_is_lost_with_a_link():
    one, other = replica(ME), replica(PEER)
    wires = Wires(one, other)
    wires.up(ME, PEER)
    wires.settle()
    one.publish("load", b"x", 0)
    one.round([PEER], 0)  # It is sent, and never arrives.
    wires.down(ME, PEER)
    wires.up(ME, PEER)
    wires.settle()
    wires.round()

    assert contents(one) == contents(other) != {}


def test_thirty_idle_nodes_say_next_to_nothing():
    ids = [spread(number) for number in range(30)]
    wires = Wires(*map(replica, ids))
    keys = ("chain", "profile", "load", "contact")
    words = [entry(each, key, at) for each in ids for at, key in enumerate(keys, 1)]
    for me, each in wires.replicas.items():
        for key in keys:
            each.publish(key, b"v", 0)
        each.take([word for word in words if word.node != me], source=None, now_us=0)
    for left in ids:
        for right in ids:
            if left < right:
                wires.up(left, right)
    wires.settle()
    for _ in range(10):
        wires.round()
    wires.forget_sent()
    for _ in range(60):
        wires.round(SECOND_US)

    assert {type(message) for _, _, message in wires.sent} <= {Ranges}
    assert wires.sent_bytes / 30 < 2_000  # Of each node in a minute.


def test_a_newcomer_learns_from_one_and_not_from_each():
    """Otherwise joining would cost everything once for each neighbour."""
    ids = [spread(number) for number in range(10)]
    wires = Wires(*map(replica, ids))
    words = [entry(spread(number), value=b"x" * 200) for number in range(100, 400)]
    for me in ids[1:]:
        wires.replicas[me].take(words, source=None, now_us=0)
    wires.replicas[ids[0]].publish("load", b"hello", 0)
    for peer in ids[1:]:
        wires.up(ids[0], peer)
    wires.settle()
    for _ in range(12):
        wires.round()
    got = sum(
        len(message.entries)
        for _, peer, message in wires.sent
        if peer == ids[0] and isinstance(message, Delta)
    )

    assert len(contents(wires.replicas[ids[0]])) == 301
    assert got < 2 * len(words)


def test_a_newcomer_whose_source_falls_silent_asks_another():
    one, source, other = replica(spread(0)), replica(spread(1)), replica(spread(2))
    words = [entry(spread(number)) for number in range(100, 400)]
    for each in (source, other):
        each.take(words, source=None, now_us=0)
    wires = Wires(one, source, other)
    wires.up(one.me, source.me)
    wires.up(one.me, other.me)
    wires.deliver(one.me, source.me)
    for peer in (source.me, other.me):
        while wires.queues[one.me, peer]:
            wires.deliver(one.me, peer)
        while wires.queues[peer, one.me]:
            wires.deliver(peer, one.me)
    teacher = one._teacher
    assert teacher == source.me

    wires.down(one.me, teacher)
    wires.settle()
    for _ in range(15):
        wires.round()

    assert len(contents(one)) == 300


def test_each_tells_the_other_what_it_remembers_of_it():
    one = replica(ME)
    one.take([entry(PEER, generation=6)], source=None, now_us=0)

    assert one.link_up(PEER, 0)[0] == Remember(generation=6)


def test_only_one_of_two_begins_to_compare():
    one, other = replica(ME), replica(PEER)

    assert [type(each) for each in one.link_up(PEER, 0)] == [Remember, Ranges]
    assert [type(each) for each in other.link_up(ME, 0)] == [Remember]


def test_the_other_compares_if_nothing_came():
    other = replica(PEER)
    other.link_up(ME, 0)

    assert other.round([], 2 * SECOND_US - 1) == []
    assert [type(each) for _, each in other.round([], 2 * SECOND_US)] == [Ranges]
    assert other.round([], 3 * SECOND_US) == []


def test_comparing_waits_for_what_is_under_way_but_not_for_ever():
    one = linked(PEER)
    due_us = one._links[PEER].reconcile_us
    one.publish("load", b"x", due_us - 1)
    at_due = one.round([PEER], due_us)
    later = one.round([PEER], due_us + 10 * SECOND_US)

    assert [type(each) for _, each in at_due] == [Delta]
    assert [type(each) for _, each in later] == [Delta, Ranges]


def test_each_minute_a_partner_compares_and_others_do_not():
    one = linked(PEER, OTHER)
    sent = [peer for second in range(200) for peer, _ in one.round([PEER], second * SECOND_US)]

    assert sent == [PEER] * len(sent)
    assert 2 <= len(sent) <= 3
    assert one.ranges_sent == 2 + len(sent)


def test_an_empty_message_is_no_comparison():
    one = linked(PEER)
    due_us = one._links[PEER].reconcile_us

    assert one.receive(PEER, Ranges(ranges=()), 5) == ([], [])
    assert one.receive(PEER, Have(low="", high="", items=()), 5) == ([], [])
    assert one._links[PEER].reconcile_us == due_us


def claim(one, peer, now_us: int, count: int = 10_000) -> bool:
    """A neighbour says that it knows so much; whether it got an answer."""
    message = Ranges(ranges=(RangeHash("", "", count, b"?"),))
    return bool(one.receive(peer, message, now_us)[0])


def test_who_claims_much_keeps_others_away_for_a_moment_only():
    one = linked(PEER, OTHER)

    assert claim(one, PEER, 0)
    assert not claim(one, OTHER, 999_999)
    assert claim(one, PEER, 999_999)  # Saying so again gains no time.
    assert claim(one, OTHER, 1_000_000)


def test_who_tells_little_by_little_keeps_others_away_for_seconds_only():
    one = linked(PEER, OTHER)
    claim(one, PEER, 0)
    waited = 0
    for number in range(1, 40):
        now_us = number * 500_000
        one.receive(PEER, Delta(number=number, entries=(entry(PEER, version=number),)), now_us)
        waited += not claim(one, OTHER, now_us + 1)

    assert waited == 19


def test_who_is_put_off_is_asked_soon():
    one = linked(PEER, OTHER)
    claim(one, PEER, 0)
    claim(one, OTHER, 1)
    later = [peer for peer, each in one.round([], 1 + SECOND_US) if isinstance(each, Ranges)]

    assert later == [OTHER]


def test_what_is_forgotten_before_it_was_sent_is_not_sent():
    one = linked(PEER)
    one.take([entry(OTHER)], source=None, now_us=0)
    one.forget(OTHER)

    assert one.round([PEER], 0) == []


def test_before_comparing_nothing_is_sent_that_the_other_may_have():
    other = replica(PEER)
    other.link_up(ME, 0)
    other.publish("load", b"x", 0)

    assert other.round([ME], 0) == []

    other.receive(ME, Ranges(ranges=(RangeHash("", "", 0, b"?"),)), 0)
    other.publish("load", b"y", 0)

    assert len(deltas(other, 0, [ME])) == 1


def test_a_link_that_comes_up_twice_starts_over():
    one = linked(PEER)
    one.receive(PEER, Delta(number=1, entries=(entry(node(9)),)), 0)
    one.link_up(PEER, 0)

    assert one._maps.items[f"{node(9)}/load"].knows == 0


def test_nobody_waits_for_a_source_that_is_gone():
    one = linked(PEER, OTHER)
    claim(one, PEER, 0)
    one.link_down(PEER)

    assert claim(one, OTHER, 1)
