"""Whoever rests is woken by a beat, about when it wanted to be."""

import asyncio

import pytest

from distributed_grid.agent.pace import SHORT_S, Pace

BEAT_S = 0.5


class Clock(asyncio.SelectorEventLoop):
    """A loop whose time is turned by hand."""

    now_s = 100.0

    def time(self) -> float:
        return self.now_s


@pytest.fixture
def clock():
    loop = Clock()
    yield loop
    loop.close()


async def at_rest(pace, *spans_s):
    """Those who rest for so long, in the order of their spans, once all of them do."""
    tasks = [asyncio.create_task(pace.rest(span_s)) for span_s in spans_s]
    await asyncio.sleep(0)
    return tasks


def test_a_beat_wakes_those_whose_time_is_nearest_to_it(clock):
    async def scene():
        pace = Pace()
        pace.begin(BEAT_S)
        soon, later, never = await at_rest(pace, 1.0, 2.0, 3.0)
        never.cancel()
        woken = []
        for now_s in (100.5, 100.7, 100.8, 101.7, 101.8, 103.0):
            clock.now_s = now_s
            pace.beat()
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            woken.append((soon.done(), later.done()))
        return woken

    assert clock.run_until_complete(scene()) == [
        (False, False), (False, False), (True, False), (True, False), (True, True), (True, True),
    ]  # fmt: skip


def test_when_there_are_no_more_beats_everybody_looks_around(clock):
    async def scene():
        pace = Pace()
        pace.begin(BEAT_S)
        resting = await at_rest(pace, 1.0, 60.0)
        pace.end()
        await asyncio.gather(*resting)

    clock.run_until_complete(scene())


@pytest.mark.parametrize(("beat_s", "span_s"), [(0.0, SHORT_S), (BEAT_S, SHORT_S / 2)])
async def test_without_beats_and_for_a_moment_it_is_a_plain_sleep(monkeypatch, beat_s, span_s):
    slept = []

    async def sleep(seconds):
        slept.append(seconds)

    pace = Pace()
    pace.begin(beat_s)
    monkeypatch.setattr(asyncio, "sleep", sleep)
    await pace.rest(span_s)

    assert slept == [span_s]
