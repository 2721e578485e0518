"""Steps that are being written, by job; and starts that wait only for those before their own.

Lives here: which jobs have something unsaved, and what may leave before it is saved. Never here:
writing (`edges.store`), what may leave so early (`kernel.ready`).
Invariant: a start leaves once everything that was to be saved of its job before is durable, at the
latest after its own step; and once.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from itertools import chain

import msgspec

from distributed_grid.kernel.ready import Ready, rests_on_earlier_steps
from distributed_grid.model.ids import JobId, NodeId
from distributed_grid.wire.across import Start


class _Start(msgspec.Struct):
    """One that waits until so many steps before its own are durable."""

    before: int
    ready: Ready
    peer: NodeId
    word: Start


class Unsaved:
    """What one agent has decided, and its disk does not know yet."""

    def __init__(self, send: Callable[[NodeId, Start], None]) -> None:
        self._send = send
        self._steps: Counter[JobId] = Counter()
        self._starts: dict[JobId, list[_Start]] = {}

    def __contains__(self, job: JobId) -> bool:
        return job in self._steps

    def begin(self, ready: Ready) -> None:
        """A step is about to be written."""
        early = [(peer, word) for peer, word in ready.send if rests_on_earlier_steps(word)]
        for peer, word in early:
            start = _Start(self._steps[word.job], ready, peer, word)
            if start.before:
                self._starts.setdefault(word.job, []).append(start)
            else:
                self._let_go(start)
        self._steps.update(ready.save_jobs.keys())

    def end(self, jobs: Iterable[JobId], *, is_saved: bool) -> None:
        """A step that changed these is durable, or could not be written: then nothing leaves."""
        jobs = tuple(jobs)
        self._steps.subtract(jobs)
        self._steps += Counter()  # Drops the zeros.
        if not self._starts:
            return
        waiting = list(chain.from_iterable(self._starts.pop(job, ()) for job in jobs))
        for start in waiting if is_saved else ():
            start.before -= 1
            if start.before:
                self._starts.setdefault(start.word.job, []).append(start)
            else:
                self._let_go(start)

    def _let_go(self, start: _Start) -> None:
        one = (start.peer, start.word)
        if one in start.ready.send:  # Else its own step was saved, and said it.
            start.ready.send.remove(one)
            self._send(*one)
