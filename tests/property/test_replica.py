"""Copies of what all say of themselves become equal, whatever happened on the way."""

from itertools import pairwise
from typing import get_args

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from distributed_grid.kernel.mesh.replica import Replica
from distributed_grid.kernel.mesh.replica_maps import Maps, is_sound
from distributed_grid.wire.mesh import GENERATION_FINAL, Entry, Key
from tests.unit.mesh.replica_lab import SECOND_US, Wires, contents, node, replica

KEYS = [key for key in get_args(Key) if key != "revoked"]

entries = st.one_of(
    st.builds(
        Entry,
        node=st.sampled_from([node(number) for number in range(3)]),
        generation=st.integers(0, 3),
        key=st.sampled_from(KEYS[:3]),
        version=st.integers(1, 4),
        value=st.sampled_from([b"", b"a", b"b"]),
        signature=st.sampled_from([b"", b"s", b"t"]),
    ),
    st.builds(
        Entry,
        node=st.sampled_from([node(number) for number in range(3)]),
        generation=st.just(GENERATION_FINAL),
        key=st.just("revoked"),
        version=st.integers(1, 2),
        value=st.sampled_from([b"a", b"b"]),
    ),
)
junk = st.builds(
    Entry,
    node=st.sampled_from(["", "a/b", "f" * 65, node(1)]),
    generation=st.sampled_from([-1, 1, GENERATION_FINAL, GENERATION_FINAL + 1]),
    key=st.sampled_from([*KEYS, "revoked", "nonsense"]),
    version=st.sampled_from([-1, 0, 1, 2**62]),
    value=st.sampled_from([b"", b"x", b"x" * 8193]),
    signature=st.sampled_from([b"", b"s" * 65]),
)
some = st.lists(entries, max_size=12)


def merged(*parts: list[Entry]) -> Maps:
    maps = Maps()
    for part in parts:
        for each in part:
            maps.take(each, 0)
    return maps


def state(maps: Maps) -> dict[str, Entry]:
    return {name: held.entry for name, held in maps.items.items()}


def held(maps: Maps) -> list[Entry]:
    return list(state(maps).values())


@given(some)
def test_merging_twice_is_merging_once(words):
    assert state(merged(words, words)) == state(merged(words))


@given(some, some)
def test_the_order_of_merging_does_not_matter(left, right):
    assert state(merged(left, right)) == state(merged(right, left))


@given(some, st.randoms(use_true_random=False))
def test_no_order_of_entries_matters(words, chance):
    shuffled = list(words)
    chance.shuffle(shuffled)

    assert state(merged(shuffled)) == state(merged(words))


@given(some, some, some)
def test_merging_states_is_associative(one, two, three):
    """Whole states, as replicas pass them on: not the entries from which they came."""
    first = held(merged(held(merged(one)), held(merged(two))))
    last = held(merged(held(merged(two)), held(merged(three))))

    assert state(merged(first, held(merged(three)))) == state(merged(held(merged(one)), last))


@given(some)
def test_what_is_no_news_changes_nothing_and_what_is_does(words):
    maps = Maps()
    for each in words:
        before, is_news = state(maps), maps.is_news(each)
        maps.take(each, 0)

        assert is_news == (state(maps) != before)


@given(some)
def test_two_indices_agree_exactly_if_the_items_do(words):
    one, other = merged(words), merged(words[1:])

    assert (one.ranges.range() == other.ranges.range()) == (state(one) == state(other))


@given(st.lists(junk, max_size=10))
def test_junk_leaves_nothing_behind(words):
    maps = merged(words)

    assert set(held(maps)) <= {each for each in words if is_sound(each)}
    assert all(set(one.held) <= {*KEYS, "revoked"} for one in maps.nodes.values())


@given(some, some)
def test_two_replicas_become_equal_whatever_each_knew(left, right):
    one, other = replica(node(8)), replica(node(9))
    one.take(left, source=None, now_us=0)
    other.take(right, source=None, now_us=0)
    wires = Wires(one, other)
    wires.up(one.me, other.me)
    wires.settle()
    for _ in range(3):
        wires.round()

    assert (
        contents(one)
        == contents(other)
        == {(each.node, each.key): each for each in held(merged(left, right))}
    )


class Gossip(RuleBasedStateMachine):
    """Some replicas; links break, messages are lost, doubled and reordered, disks lost and old."""

    @initialize(count=st.integers(3, 5))
    def begin(self, count):
        self.ids = [node(number) for number in range(1, count + 1)]
        self.wires = Wires(*(replica(each) for each in self.ids))
        self.newest = {each: {} for each in self.ids}  # What each said last, since it forgot.
        self.disks = {each: [] for each in self.ids}
        self.seen = {}

    def some_id(self, data):
        return data.draw(st.sampled_from(self.ids))

    def busy(self):
        return [ends for ends, queue in self.wires.queues.items() if queue]

    @rule(data=st.data(), key=st.sampled_from(KEYS[:3]), value=st.sampled_from([b"", b"a", b"b"]))
    def publish(self, data, key, value):
        me = self.some_id(data)
        self.wires.replicas[me].publish(key, value, self.wires.now_us)
        self.newest[me][key] = value

    @rule(data=st.data())
    def link(self, data):
        left, right = self.some_id(data), self.some_id(data)
        if left != right:
            self.wires.down(left, right)
            self.wires.up(left, right)

    @precondition(lambda self: self.wires.queues)
    @rule(data=st.data())
    def cut(self, data):
        self.wires.down(*data.draw(st.sampled_from(sorted(self.wires.queues))))

    @rule(data=st.data(), after_us=st.sampled_from([200_000, 2_500_000, 70 * SECOND_US]))
    def speak(self, data, after_us):
        me = self.some_id(data)
        self.wires.now_us += after_us
        peers = [peer for left, peer in self.wires.queues if left == me]
        partners = data.draw(st.sets(st.sampled_from(peers))) if peers else ()
        for peer, message in self.wires.replicas[me].round(sorted(partners), self.wires.now_us):
            self.wires.send(me, peer, [message])

    @precondition(lambda self: self.busy())
    @rule(data=st.data(), fate=st.sampled_from(["come", "come", "come", "lost", "twice", "late"]))
    def travel(self, data, fate):
        ends = data.draw(st.sampled_from(self.busy()))
        queue = self.wires.queues[ends]
        if fate == "lost":
            queue.popleft()
        elif fate == "late":
            queue.rotate(-1)
        else:
            if fate == "twice":
                queue.appendleft(queue[0])
            self.wires.deliver(*ends)

    @rule()
    def everything_travels(self):
        self.wires.settle()

    @rule(data=st.data())
    def save(self, data):
        me = self.some_id(data)
        self.disks[me].append((self.wires.replicas[me].dump(), dict(self.newest[me])))

    @rule(data=st.data(), away_us=st.sampled_from([0, SECOND_US, 8 * 86_400 * SECOND_US]))
    def restart(self, data, away_us):
        """From the last disk, an old one, or none."""
        me = self.some_id(data)
        for other in self.ids:
            self.wires.down(me, other)
        fresh = replica(me, now_us=self.wires.now_us)
        dump, newest = data.draw(st.sampled_from([(None, {}), *self.disks[me]]))
        if dump is not None:
            self.recall(fresh, dump, away_us)
        for key, value in newest.items():
            fresh.publish(key, value, self.wires.now_us)
        self.wires.replicas[me] = fresh
        self.newest[me] = dict(newest)
        self.seen = {pair: stamps for pair, stamps in self.seen.items() if pair[0] != me}

    def recall(self, fresh, dump, away_us):
        """What others said, as old as it is."""
        for word, age_us in fresh.recall(dump, away_us=away_us):
            fresh.take([word], source=None, now_us=self.wires.now_us - age_us)

    @invariant()
    def nobody_is_rolled_back(self):
        for me, each in self.wires.replicas.items():
            for other in self.ids:
                stamps = {
                    key: (said.generation, said.version, said.value)
                    for key in KEYS
                    if (said := each.entry(other, key)) is not None
                }
                now = (each.generation_of(other), stamps)
                was = self.seen.get((me, other), (0, {}))
                self.seen[me, other] = now

                assert now[0] >= was[0]
                if now[0] == was[0]:
                    assert all(stamps[key] >= stamp for key, stamp in was[1].items())

    @invariant()
    def memory_is_bounded(self):
        for each in self.wires.replicas.values():
            maps = each._maps
            assert len(maps.arrivals) == len(maps.items) <= 8 * len(self.ids)
            assert len(maps.arrivals._log) <= 2 * len(maps.items) + 65
            assert all(len(link._wanted) <= len(maps.items) + 8 for link in each._links.values())

    def teardown(self):
        if not hasattr(self, "wires"):
            return
        self.wires.settle()
        for left, right in pairwise(self.ids):  # A chain is enough.
            self.wires.down(left, right)
            self.wires.up(left, right)
        self.wires.settle()
        for _ in range(40):
            self.wires.round(5 * SECOND_US)
            self.nobody_is_rolled_back()
        first, *others = self.wires.replicas.values()

        assert all(contents(other) == contents(first) for other in others)
        for me, newest in self.newest.items():
            for key, value in newest.items():
                assert first.value(me, key) == value
            said = {key for key in KEYS if first.value(me, key)}
            assert said <= set(newest)


Gossip.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestGossip = Gossip.TestCase


def test_a_lost_disk_is_outlived_by_what_is_said_after_it():
    """The shortest story of the machine above, told by name."""
    one, other = replica(node(1)), replica(node(2))
    wires = Wires(one, other)
    wires.up(one.me, other.me)
    for number in range(5):
        one.publish("load", b"%d" % number, wires.now_us)
    wires.round()
    wires.down(one.me, other.me)
    again = wires.replicas[one.me] = replica(one.me, now_us=wires.now_us)
    assert isinstance(again, Replica)
    again.publish("load", b"new", wires.now_us)
    wires.up(one.me, other.me)
    wires.settle()
    wires.round()

    assert other.value(one.me, "load") == b"new"
    assert again.generation == other.generation_of(one.me) == 2
