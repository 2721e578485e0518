"""Events numbered over restarts: what follows one, and what is said of those that are lost."""

import asyncio

from distributed_grid.agent.watchers import EVENTS_KEPT, Watchers
from distributed_grid.kernel.ready import Happened
from distributed_grid.wire.api import GAP, Event, EventPlace


def told(*, epoch: int, events: int) -> Watchers:
    watchers = Watchers()
    watchers.epoch = epoch
    for at_ms in range(1, events + 1):
        watchers.publish(Happened(name="job.ended", at_ms=at_ms))
    return watchers


def after(watchers: Watchers, place: EventPlace) -> list[Event]:
    async def read() -> list[Event]:
        return [event async for event in watchers.events(after=place, follow=False)]

    return asyncio.run(read())


def test_what_follows_an_event_of_this_start_is_told_without_a_gap():
    watchers = told(epoch=3, events=4)

    assert [event.id for event in after(watchers, (3, 2))] == ["3-3", "3-4"]
    assert [event.id for event in after(watchers, (0, 2))] == ["3-3", "3-4"]
    assert [event.id for event in after(watchers, (0, 0))] == ["3-1", "3-2", "3-3", "3-4"]
    assert after(watchers, (3, 4)) == after(watchers, None) == []


def test_an_event_of_another_start_is_followed_by_all_that_is_kept_and_a_gap():
    for place in ((2, 900), (2, 1), (9, 0)):
        gap, *rest = after(told(epoch=3, events=2), place)

        assert (gap.name, gap.id, gap.at_ms) == (GAP, "3-0", 1)
        assert gap.fields["after"] == f"{place[0]}-{place[1]}"
        assert "started again" in gap.fields["why"]
        assert [event.id for event in rest] == ["3-1", "3-2"]


def test_a_reader_too_far_behind_is_told_how_many_are_kept():
    watchers = told(epoch=1, events=EVENTS_KEPT + 5)
    gap, first, *_ = after(watchers, (1, 4))

    assert (gap.name, gap.id, first.id) == (GAP, "1-5", "1-6")
    assert str(EVENTS_KEPT) in gap.fields["why"]
    assert after(watchers, (1, 5))[0].id == "1-6"  # Nothing lies between.
    assert after(watchers, (0, 0))[0].id == "1-6"  # Whatever there is, was asked for.


def test_before_the_first_event_there_is_only_the_gap():
    assert [event.id for event in after(told(epoch=2, events=0), (1, 7))] == ["2-0"]
