"""The real agent, whose kernel cannot bear some words: what it says of them is the product's doing.

A reservation for a job called `raises` breaks off with the kernel's memory half gone; one called
`endless` never comes to an end. So does taking over a job called `heirless`.

python -m tests.mesh.poisoned_app --data-dir DIR …
"""

import sys
from typing import Any

from distributed_grid import app
from distributed_grid.kernel.across.meeting import Meeting
from distributed_grid.kernel.across.record import JobRecord
from distributed_grid.kernel.node import Node, NodeEvent, Told
from distributed_grid.kernel.ready import Ready
from distributed_grid.wire.across import Reserve

take_over = Meeting.take_over


class Poisoned(Node):
    """Hears as any other, but for these."""

    def step(self, event: NodeEvent) -> Ready:
        words = [(event.peer, event.message), *event.more] if isinstance(event, Told) else []
        names = {word.spec.name for _, word in words if isinstance(word, Reserve)}
        while "endless" in names:
            pass
        ready = super().step(event)
        if "raises" in names:
            self.ledger.__init__(self.ledger.inventory)
            self.coordinator.jobs.clear()
            raise ZeroDivisionError
        return ready


def taken(meeting: Meeting, kept: Any, *rest: Any) -> None:
    record: JobRecord | None = meeting.shelf.find(kept.job)
    if kept.name == "heirless":
        raise OverflowError(record and record.job)
    take_over(meeting, kept, *rest)


def main() -> int:
    app.Node = Poisoned
    Meeting.take_over = taken
    return app.main(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
