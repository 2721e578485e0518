"""Can any bytes, in any order, make the watching of others do anything but watch?"""

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distributed_grid.kernel.mesh.liveness import LAN, Liveness
from distributed_grid.wire import heartbeat as wire
from distributed_grid.wire.heartbeat import Heartbeat
from distributed_grid.wire.mesh import SPOKEN
from tests.liveness_model import node

IDS = [node(number) for number in range(6)]
SHORTS = st.sampled_from([wire.short_id(id_) for id_ in IDS]) | st.integers(0, 2**32 - 1)
STAMPS = st.integers(0, 3) | st.integers(0, 2**24 - 1)
CLOCKS = st.integers(0, 2**32 - 1)
MEMBERS = st.lists(
    st.builds(wire.packed_member, SHORTS, STAMPS, st.integers(0, 3), st.integers(0, 10**9)),
    max_size=8,
).map(wire.joined)


@st.composite
def beats(draw):
    version = draw(st.sampled_from(SPOKEN))
    clocks = draw(st.tuples(CLOCKS, CLOCKS, CLOCKS)) if version > 1 else (0, 0, wire.NO_ECHO)
    kind = draw(st.integers(0, 4))
    return Heartbeat(kind, draw(STAMPS), draw(SHORTS), draw(MEMBERS), *clocks, version)


@given(beats())
def test_every_heartbeat_comes_back_as_it_was(beat):
    assert wire.decode(wire.encode(beat)) == beat


@given(st.binary(max_size=1_300) | beats().map(wire.encode).map(lambda body: body[:-1]))
def test_any_bytes_are_a_heartbeat_or_a_value_error(junk):
    try:
        beat = wire.decode(junk)
    except ValueError:
        return

    assert wire.encode(beat) == junk


STEPS = st.lists(
    st.tuples(
        st.integers(0, 900_000),
        st.sampled_from(IDS),
        st.none() | beats().map(wire.encode) | st.binary(max_size=60),
    ),
    max_size=60,
)


@settings(max_examples=60)
@given(STEPS)
def test_whatever_members_say_verdicts_take_turns_and_what_is_sent_is_sound(steps):
    now_us = 0
    dice = iter(range(10**9))
    kernel = Liveness(me=IDS[0], rules=LAN, chance=lambda top: next(dice) % top, now_us=0)
    kernel.set_members(IDS, now_us)
    believed = dict.fromkeys(IDS[1:], "alive")
    for pause_us, peer, datagram in steps:
        now_us += pause_us
        sent = []
        if datagram is None:
            sent = kernel.tick(now_us, IDS[:5])
        else:
            try:
                sent = kernel.heard(peer, datagram, now_us)
            except ValueError:
                assert kernel.junk
            else:
                assert len(sent) <= 1
        for to, body in sent:
            assert to in IDS[1:5] or to == peer
            wire.decode(body)
        for change in kernel.changes():
            assert believed[change.node] == change.was != change.health
            assert change.health != "dead" or change.was == "suspect"
            believed[change.node] = change.health
    for id_, health in believed.items():
        assert kernel.health(id_).health == health


class Watchful(Liveness):
    """Looks at everyone at every tick, whether anybody can be late or not."""

    def tick(self, now_us, linked):
        self._quiet_us = -1
        return super().tick(now_us, linked)


@settings(max_examples=150)
@given(STEPS, st.lists(st.integers(3, 6), min_size=60, max_size=60))
def test_who_looks_only_when_somebody_can_be_late_judges_as_who_always_does(steps, links):
    stories = []
    for kind in (Liveness, Watchful):
        dice, now_us, story = iter(range(10**9)), 0, []
        kernel = kind(
            me=IDS[0], rules=LAN, chance=lambda top, dice=dice: next(dice) % top, now_us=0
        )
        kernel.set_members(IDS, 0)
        for (pause_us, peer, datagram), count in zip(steps, links, strict=False):
            for _ in range(1 + pause_us // 50_000):
                now_us += 50_000
                story.append(kernel.tick(now_us, IDS[:count]))
            with contextlib.suppress(ValueError):
                story.append(kernel.heard(peer, datagram or b"", now_us))
            story.append((kernel.changes(), [kernel.health(each) for each in IDS[1:]]))
        stories.append(story)

    assert stories[0] == stories[1]


@given(st.binary(max_size=40))
def test_junk_is_counted_and_changes_nothing(junk):
    kernel = Liveness(me=IDS[0], rules=LAN, chance=lambda top: 0, now_us=0)
    kernel.set_members(IDS, 0)
    with pytest.raises(ValueError):
        kernel.heard(IDS[1], b"\xff" + junk, 1)

    assert (kernel.junk, kernel.received, kernel.changes()) == (1, 0, [])
