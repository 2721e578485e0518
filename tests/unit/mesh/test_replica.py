"""Publishing and taking: which word counts, and what a node does when others know more of it."""

import pytest

from distributed_grid.errors import BadValue
from distributed_grid.kernel.mesh import replica_maps
from distributed_grid.kernel.mesh.replica_voice import JUMP_MAX, RISES_MAX, RISES_US
from distributed_grid.wire.mesh import (
    GENERATION_FINAL,
    VALUE_BYTES_MAX,
    Delta,
    DeltaTaken,
    Entry,
    Remember,
)
from tests.unit.mesh.replica_lab import (
    MESH,
    Wires,
    contents,
    entry,
    key_of,
    node,
    replica,
    revoked,
)

ME, PEER, OTHER = node(1), node(2), node(3)


def test_what_is_published_is_signed_by_this_node_for_this_mesh():
    said = replica(ME, generation=3).publish("load", b"busy", 0)

    assert said.signature == key_of(ME).sign(said.signed_bytes(MESH))
    assert (said.node, said.generation, said.version) == (ME, 3, 1)


def test_versions_are_counted_over_all_keys():
    one = replica(ME)
    said = [one.publish(key, b"x", 0) for key in ("chain", "load", "profile")]

    assert [each.version for each in said] == [1, 2, 3]


def test_the_same_again_is_not_said_twice():
    one = replica(ME)
    one.publish("load", b"x", 0)

    assert one.publish("load", b"x", 1) is None
    assert one.publish("offers", b"", 1) is None  # There was nothing to withdraw.


def test_a_withdrawn_value_is_said_once_and_reads_as_nothing():
    one = replica(ME)
    one.publish("load", b"x", 0)

    assert one.publish("load", b"", 1).version == 2
    assert one.value(ME, "load") == b""
    assert one.publish("load", b"", 2) is None


def test_a_value_that_no_message_could_carry_is_refused_and_says_so():
    one = replica(ME)
    one.publish("profile", b"x" * VALUE_BYTES_MAX, 0)

    with pytest.raises(BadValue, match="at most 8192 bytes"):
        one.publish("profile", b"x" * (VALUE_BYTES_MAX + 1), 0)


@pytest.mark.parametrize("key", ["revoked", "nonsense"])
def test_a_node_publishes_only_what_is_its_own_to_say(key):
    with pytest.raises(AssertionError):
        replica(ME).publish(key, b"x", 0)


def test_what_nobody_said_reads_as_nothing():
    one = replica(ME)

    assert one.entry(PEER, "load") is None
    assert one.value(PEER, "load") == b""
    assert one.generation_of(PEER) == 0
    assert one.nodes() == [ME]


def test_taking_returns_what_changed_and_nothing_else():
    one = replica(ME)
    first, second = entry(PEER, version=1), entry(PEER, version=2)

    assert one.take([second, first, second], source=None, now_us=0) == [second]
    assert one.entry(PEER, "load") == second
    assert one.nodes() == [ME, PEER]
    assert one.entries_taken == 1


def test_a_higher_generation_replaces_the_whole_map():
    one = replica(ME)
    one.take([entry(PEER, "load", 7), entry(PEER, "profile", 8)], source=None, now_us=0)
    later = entry(PEER, "load", 1, generation=2)

    assert one.take([later, entry(PEER, "profile", 9)], source=None, now_us=0) == [later]
    assert contents(one) == {(PEER, "load"): later}
    assert one.generation_of(PEER) == 2


def test_of_two_values_of_one_version_the_larger_counts():
    small, large = entry(PEER, value=b"a"), entry(PEER, value=b"b")
    for order in ([small, large], [large, small]):
        one = replica(ME)
        one.take(order, source=None, now_us=0)

        assert one.entry(PEER, "load") == large


def test_an_old_version_is_nobodys_fault():
    one = replica(ME)
    one.take([entry(PEER, version=2), entry(PEER, version=1)], source=None, now_us=0)
    one.take([entry(PEER, version=2)], source=None, now_us=0)

    assert one.refused == 0


def test_a_revocation_is_final():
    one = replica(ME)
    out = revoked(PEER)
    one.take([entry(PEER), out], source=None, now_us=0)

    assert not one.is_news(entry(PEER, version=9, generation=GENERATION_FINAL - 1))
    assert contents(one) == {(PEER, "revoked"): out}


@pytest.mark.parametrize(
    "wrong",
    [
        Entry("", 1, "load", 1, b"x"),
        Entry("a/b", 1, "load", 1, b"x"),
        Entry("f" * 65, 1, "load", 1, b"x"),
        Entry(PEER, -1, "load", 1, b"x"),
        Entry(PEER, GENERATION_FINAL, "load", 1, b"x"),  # A node cannot make itself final.
        Entry(PEER, 5, "revoked", 1, b"x"),
        Entry(PEER, GENERATION_FINAL + 1, "revoked", 1, b"x"),
        Entry(PEER, 1, "nonsense", 1, b"x"),
        Entry(PEER, 1, "load", 0, b"x"),
        Entry(PEER, 1, "load", 2**62, b"x"),
        Entry(PEER, 1, "load", 1, b"x" * (VALUE_BYTES_MAX + 1)),
        Entry(PEER, 1, "load", 1, b"x", b"s" * 65),
    ],
)
def test_what_is_malformed_never_counts(wrong):
    one = replica(ME)

    assert not one.is_news(wrong)
    assert one.take([wrong], source=None, now_us=0) == []
    assert contents(one) == {}
    assert one.refused == 1


def test_there_is_a_limit_to_the_nodes_that_are_remembered(monkeypatch):
    monkeypatch.setattr(replica_maps, "NODES_MAX", 3)
    one = replica(ME)
    one.take([entry(node(number)) for number in range(10, 20)], source=None, now_us=0)

    assert len(one.nodes()) == 3
    assert one.refused == 8
    assert one.take([entry(node(10), version=2)], source=None, now_us=0)  # Known ones go on.


def test_exactly_what_is_here_is_known_to_be_genuine():
    one = replica(ME)
    one.take([entry(PEER, value=b"a")], source=None, now_us=0)

    assert one.has(entry(PEER, value=b"a"))
    assert not one.has(entry(PEER, value=b"b"))
    assert not one.has(entry(OTHER))


# Others know more of this node than it does


def test_an_echo_of_a_life_before_makes_this_one_count():
    one = replica(ME)
    one.publish("load", b"now", 0)
    one.publish("chain", b"chain", 0)
    changed = one.take([entry(ME, "load", 40, value=b"then")], source=None, now_us=0)

    assert one.generation == one.generation_of(ME) == 2
    assert [(each.key, each.generation, each.version, each.value) for each in changed] == [
        ("chain", 2, 1, b"chain"),  # First, whatever the order before.
        ("load", 2, 2, b"now"),
    ]


def test_an_echo_of_a_key_that_this_life_never_used_counts_as_one():
    one = replica(ME)
    one.publish("load", b"now", 0)
    one.take([entry(ME, "left", 40)], source=None, now_us=0)

    assert one.value(ME, "left") == b""
    assert one.generation == 2


def test_a_higher_generation_of_this_node_is_outbid():
    one = replica(ME)
    one.take([entry(ME, generation=9)], source=None, now_us=0)

    assert one.generation == 10


def test_ones_own_words_coming_back_are_no_echo():
    one = replica(ME)
    old = one.publish("load", b"a", 0)
    new = one.publish("load", b"b", 0)

    assert one.take([old, new], source=None, now_us=0) == []
    assert one.generation == 1


def test_two_clones_do_not_outbid_each_other_without_end():
    one = replica(ME)
    for number in range(20):
        one.take(
            [entry(ME, generation=one.generation + 1, version=number + 1)], source=None, now_us=0
        )

    assert one.generation == 1 + 2 * RISES_MAX

    one.take([entry(ME, generation=50)], source=None, now_us=RISES_US)

    assert one.generation == 51


def test_no_word_of_this_node_can_be_final():
    last = GENERATION_FINAL - 1
    one = replica(ME, generation=last)
    one.publish("load", b"x", 0)

    assert one.take([entry(ME, version=7, generation=last)], source=None, now_us=0) == []
    assert one.generation == one.begin_generation(0) == last
    assert one.value(ME, "load") == b"x"


def test_a_revoked_node_knows_it_and_falls_silent():
    one = replica(ME)
    one.publish("load", b"x", 0)

    assert one.take([revoked(ME)], source=None, now_us=0) == [revoked(ME)]
    assert one.publish("load", b"y", 0) is None
    assert one.begin_generation(0) == 2  # Its own count goes on, for another mesh.
    assert contents(one) == {(ME, "revoked"): revoked(ME)}


def remembered(one, generation: int, now_us: int = 0):
    return one.receive(PEER, Remember(generation=generation), now_us)


def test_who_starts_anew_speaks_above_what_others_remember():
    one = replica(ME)
    one.publish("load", b"x", 0)
    one.link_up(PEER, 0)

    _, changed = remembered(one, 1)  # Said in a life before: nobody has heard of this one.
    assert [each.generation for each in changed] == [2]

    remembered(one, 7)
    assert one.generation == 8

    assert remembered(one, 3) == ([], [])


def test_a_memory_of_this_very_life_changes_nothing():
    one = replica(ME)
    one.publish("load", b"x", 0)
    one.link_up(PEER, 0)
    one.publish("load", b"y", 0)
    ((_, delta),) = one.round([PEER], 0)
    assert isinstance(delta, Delta)
    one.receive(PEER, DeltaTaken(number=delta.number), 0)

    assert remembered(one, 1) == ([], [])
    assert one.generation == 1


def test_taking_somebody_elses_words_confirms_nothing():
    one = replica(ME)
    one.link_up(PEER, 0)
    one.take([entry(OTHER)], source=None, now_us=0)
    ((_, delta),) = one.round([PEER], 0)
    one.receive(PEER, DeltaTaken(number=delta.number), 0)
    remembered(one, 1)

    assert one.generation == 2


def test_the_bare_word_of_a_neighbour_cannot_use_up_all_generations():
    one = replica(ME)
    one.link_up(PEER, 0)
    remembered(one, 1 + JUMP_MAX + 1)
    assert one.generation == 1

    remembered(one, 1 + JUMP_MAX)
    assert one.generation == 2 + JUMP_MAX


def test_a_new_generation_begins_with_what_is_said_first():
    one = replica(ME)
    for key in ("chain", "load", "coordinate", "offers"):
        one.publish(key, b"old", 0)
    one.publish("offers", b"", 0)

    assert one.begin_generation(1) == 2
    assert one.publish("chain", b"new", 1).version == 1
    assert one.publish("load", b"old", 1).version == 2  # Said again, though it is the same.

    one.round([], 2)

    assert one.entry(ME, "coordinate").version == 3  # Not forgotten, only said later.
    assert one.entry(ME, "offers") is None


def test_what_waits_to_be_said_again_survives_another_start():
    one = replica(ME)
    one.publish("load", b"x", 0)
    one.begin_generation(0)
    one.begin_generation(0)
    one.round([], 1)

    assert one.value(ME, "load") == b"x"
    assert one.generation == 3


def test_under_a_new_generation_nobody_has_heard_of_this_node():
    one = replica(ME)
    one.link_up(PEER, 0)
    one.publish("load", b"x", 0)
    ((_, delta),) = one.round([PEER], 0)
    one.receive(PEER, DeltaTaken(number=delta.number), 0)
    one.begin_generation(0)
    remembered(one, 2)  # From a life that this disk knows nothing of.

    assert one.generation == 3


@pytest.mark.parametrize("generation", [1, 2])
def test_who_starts_over_and_says_nothing_withdraws_what_it_said_before(generation):
    """Otherwise the old words would stand for ever: an empty map cannot be passed on."""
    one, other = replica(ME, generation=generation), replica(PEER)
    old = [entry(ME, "load", 1), entry(ME, "profile", 2)]
    other.take(old, source=None, now_us=0)

    assert all(map(one.is_news, old))

    wires = Wires(one, other)
    wires.up(ME, PEER)
    wires.settle()
    for _ in range(3):
        wires.round()

    assert contents(one) == contents(other)
    assert one.generation == 2
    assert other.value(ME, "load") == other.value(ME, "profile") == b""
    assert not any(map(one.is_news, old))
