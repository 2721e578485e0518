"""The real agent, whose kernel breaks off at each so many steps, with its memory half gone.

GRID_TEST_STUMBLE=COUNT python -m tests.e2e.stumbling_app --data-dir DIR
"""

import os
import sys
from pathlib import Path
from typing import Any

from distributed_grid import app
from distributed_grid.kernel.node import Node, NodeEvent
from distributed_grid.kernel.ready import Ready

EVERY = int(os.environ.pop("GRID_TEST_STUMBLE"))
MARKER = Path(os.environ.pop("GRID_TEST_MARKER"))


class Stumbling(Node):
    """Does what it is told, and forgets what it holds."""

    def __init__(self, **words: Any) -> None:
        super().__init__(**words)
        self.steps = 0

    def step(self, event: NodeEvent) -> Ready:
        ready = super().step(event)
        self.steps += 1
        if self.steps % EVERY == 0:
            self.ledger.__init__(self.ledger.inventory)
            self.coordinator.jobs.clear()
            with MARKER.open("a") as file:
                file.write(f"{type(event).__name__}\n")
            raise KeyError(self.steps)
        return ready


def main() -> int:
    app.Node = Stumbling
    return app.main(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
