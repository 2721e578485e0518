"""The real agent, made to kill itself at a named step: `STEP:COUNT` in GRID_TEST_CRASH, once."""

import os
import signal
import sys
from pathlib import Path

from distributed_grid import app


def main() -> int:
    step, _, count = os.environ.pop("GRID_TEST_CRASH").partition(":")
    marker = Path(os.environ.pop("GRID_TEST_MARKER"))
    left = int(count)

    def at_step(name: str) -> None:
        nonlocal left
        if name != step or marker.exists():
            return
        left -= 1
        if left == 0:
            marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)

    return app.main(sys.argv[1:], at_step=at_step)


if __name__ == "__main__":
    sys.exit(main())
