"""Another machine brought in over ssh: Grid installed, its agent started, joined to this mesh.

Lives here: what is sent (`packing`), how (`connection`), in which steps (`bringing`), and the
programme that runs over there (`remote`). Never here: what is printed (`cli.bootstrap`).
Invariant: whatever fails, the next run finds things as they were or goes on from there.
"""

from distributed_grid.errors import GridError, shown


class NotBrought(GridError):
    """A machine could not be brought in."""

    def __init__(self, host: str, *, why: str, remedy: str) -> None:
        self.host, self.why = host, why
        super().__init__(f"{shown(host)}: {why}", remedy=remedy)
