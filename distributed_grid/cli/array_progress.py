"""An array in the foreground: how far it is, or its lines with their indices.

Lives here: progress on stderr (rich is loaded only for it), prefixed lines. Never here: the array.
"""

import sys
from collections.abc import Iterator
from typing import Final

from distributed_grid.cli import foreground
from distributed_grid.cli.interrupts import Interrupts
from distributed_grid.client import calls
from distributed_grid.client.blocking import Caller, Woken
from distributed_grid.client.streams import Output
from distributed_grid.model.job import JobSpec
from distributed_grid.wire.api import ENDED, JobView

REFRESH_MS: Final = 250  # Four times a second looks alive and costs the agent nothing.
LINE_BYTES_MAX: Final = 1 << 20  # A line longer than this is cut into several.


def watch(agent: Caller, spec: JobSpec, interrupts: Interrupts, *, stream: bool) -> JobView:
    """Show an array until it has ended."""
    turns = _Turns(spec)
    # What may be tried again is shown in the end, its last try, as `grid logs` does.
    is_live = stream and not spec.retries
    has_bar = sys.stderr.isatty() and not is_live
    if has_bar:  # It tells how far files are, too.
        foreground.explain_wait(agent, [f"id:{spec.id}"], has_line=False)
    while True:
        try:
            if is_live:
                turns.copy(agent, interrupts)
            view = _bar(agent, spec) if has_bar else agent.run(calls.wait(f"id:{spec.id}"))
            if stream and not is_live:
                turns.copy(agent, interrupts)
            return view  # noqa: TRY300  (the loop is about signals)
        except Woken:
            foreground.leave_or_go_on(agent, spec.id, spec.name, interrupts)
        except foreground.Unwritable as unwritable:
            raise foreground.left_unwritten(agent, spec.id, spec.name, unwritable) from None


def _bar(agent: Caller, spec: JobSpec) -> JobView:
    from distributed_grid.cli import render

    assert spec.array is not None
    with render.progress(render.talk()) as bar:
        task = bar.add_task(spec.name, total=len(spec.array.indices))
        while True:
            view = agent.run(calls.wait(f"id:{spec.id}", timeout_ms=REFRESH_MS))
            if view.array is not None:
                array = view.array
                done = array.succeeded + array.failed + array.cancelled
                failed = f", {array.failed} failed" if array.failed else ""
                words = f"{spec.name}: {array.running} running{failed}"
                if view.transits and not array.running:
                    words = f"{spec.name}: {view.transits[0]}"
                bar.update(task, completed=done, description=words)
            if view.state in ENDED:
                return view


class _Turns:
    """Every index in its order, live while its turn is: one connection, whatever the size."""

    def __init__(self, spec: JobSpec) -> None:
        assert spec.array is not None
        self._turns = (
            (index, target, Output(f"id:{spec.id}", stream=name, index=index))
            for index in spec.array.indices
            for name, target in (("stdout", foreground.STDOUT), ("stderr", foreground.STDERR))
        )
        self._turn = next(self._turns)

    def copy(self, agent: Caller, interrupts: Interrupts) -> None:
        """Write the lines; called again after an interruption, it goes on where it was."""
        while True:
            index, target, output = self._turn
            for line in _cut(agent.stream(output)):
                foreground.pour(target, b"%d: %s\n" % (index, line), interrupts)
            following = next(self._turns, None)
            if following is None:
                return
            self._turn = following


def _cut(parts: Iterator[bytes]) -> Iterator[bytes]:
    rest = b""
    for part in parts:
        *lines, rest = (rest + part).split(b"\n")
        yield from lines
        if len(rest) > LINE_BYTES_MAX:
            yield rest
            rest = b""
    if rest:
        yield rest
