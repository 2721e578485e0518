"""Which node knows a job, and which of several answers about it counts.

Lives here: whom to ask, in which order, and for how long a "nobody" is believed. Never here: what a
word means on one node (`kernel.finding`), asking itself (`remote`).
Invariant: of one job the view of its home wins, then that of who holds its record, then that of who
runs it as a guest.
"""

import contextlib
from collections import OrderedDict
from collections.abc import Callable, Container, Iterable
from typing import Final, NamedTuple, TypeVar

import msgspec

from distributed_grid.agent.remote import Remote
from distributed_grid.errors import Ambiguous, GridError, NotFound
from distributed_grid.model.ids import NodeId
from distributed_grid.model.transit import Transit
from distributed_grid.wire.api import ENDED, JobView

NOBODY_S: Final = 1.0  # As long as nobody is asked again about a job that nobody knew.
WORDS_MAX: Final = 1_000  # Remembered as unknown.
HINTS_MAX: Final = 10_000  # Who answered for a job last: a megabyte.

T = TypeVar("T")


class Known(NamedTuple):
    """Who knows a job, and what it said."""

    node: NodeId
    view: JobView


class Finding:
    """Asks around, and remembers a little of it."""

    def __init__(self, remote: Remote, *, clock_s: Callable[[], float]) -> None:
        self._remote, self._clock_s = remote, clock_s
        self._nobody: OrderedDict[str, float] = OrderedDict()  # Word -> until when.
        self._hints: OrderedDict[str, NodeId] = OrderedDict()  # Job -> who answered for it.

    async def find(self, word: str) -> Known:
        """Who knows this job. Raises NotFound or Ambiguous."""
        if self._nobody.get(word, 0.0) > self._clock_s():
            raise NotFound("job", word)
        hint = self._hints.pop(word.removeprefix("id:"), None)
        if hint is not None:
            with contextlib.suppress(GridError):  # It may have forgotten it, or be gone.
                view = await self._remote.ask(hint, "job", JobView, {"job": word})
                return self._remembered(Known(hint, view))
        heard = await self._remote.ask_all(
            self._remote.around.live, "job", JobView, lambda _: {"job": word}
        )
        found = chosen(word, [Known(*one) for one in heard.answers])
        if found is not None:
            return self._remembered(found)
        if not heard.missing:
            _put(self._nobody, word, self._clock_s() + NOBODY_S, WORDS_MAX)
        error = NotFound("job", word)
        if heard.missing:
            error.remedy = f"{', '.join(heard.missing[:5])} did not answer; ask again"
        raise error

    def _remembered(self, known: Known) -> Known:
        _put(self._hints, known.view.id, known.node, HINTS_MAX)
        return known


def chosen(word: str, found: list[Known]) -> Known | None:
    """The job that a word means among what several nodes know; None: nobody knows it."""
    jobs = _best(found)
    plain = word.removeprefix("name:")
    named = [known for known in jobs if known.view.name == plain]
    if named and not word.startswith("id:"):
        unfinished = [known for known in named if known.view.state not in ENDED]
        if len(unfinished) > 1:
            raise Ambiguous("job", word, matches=[known.view.id[:16] for known in unfinished])
        newest = max(named, key=lambda known: (known.view.submitted_ms, known.view.id))
        return unfinished[0] if unfinished else newest
    if len(jobs) > 1:
        raise Ambiguous("job", word, matches=[known.view.id[:16] for known in jobs])
    return jobs[0] if jobs else None


def standing(known: Known) -> tuple[int, NodeId]:
    """How much a view counts: the lowest wins."""
    view = known.view
    if view.guest_of:
        return 2, known.node
    return (0 if view.home == known.node else 1), known.node


def merged(found: Iterable[Known], *, answered: Container[str] = ()) -> list[JobView]:
    """Every job once, newest first; a guest only if its home, which knows the job, is silent."""
    views = [
        known.view
        for known in _best(found)
        if not known.view.guest_of or known.view.home not in answered
    ]
    return sorted(views, key=lambda view: (-view.submitted_ms, view.id))


def _best(found: Iterable[Known]) -> list[Known]:
    """Of each job the view that counts."""
    best: dict[str, Known] = {}
    moving: dict[str, tuple[Transit, ...]] = {}  # What those who run them do with their files.
    for known in found:
        job = known.view.guest_of or known.view.id
        if job not in best or standing(known) < standing(best[job]):
            best[job] = known
        if known.view.guest_of and known.view.transits:
            moving[job] = (*moving.get(job, ()), *known.view.transits)
    return [_with(known, moving.get(job, ())) for job, known in best.items()]


def _with(known: Known, transits: tuple[Transit, ...]) -> Known:
    if not transits or known.view.transits:  # Its home knows that it sends them.
        return known
    return known._replace(view=moved(known.view, transits))


def moved(view: JobView, transits: tuple[Transit, ...]) -> JobView:
    """A job, with what is done with its files elsewhere."""
    is_reason = view.state == "waiting" and not view.reason
    reason = str(transits[0]) if is_reason else view.reason
    return msgspec.structs.replace(view, transits=transits, reason=reason)


def _put(kept: OrderedDict[str, T], key: str, value: T, most: int) -> None:
    kept[key] = value
    kept.move_to_end(key)
    if len(kept) > most:
        kept.popitem(last=False)
