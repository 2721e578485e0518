"""Large values of calls: files beside the agent's socket, named by their content.

Lives here: writing them, and letting go of those that no call needs. Never here: what they hold
(`pickling`), how another machine gets them (the agents); what is left, the agent removes.
Invariant: what a call that is not done needs is there; of the rest no more than `IDLE_BYTES`.
"""

import hashlib
import os
from collections import Counter, OrderedDict
from typing import Final

from distributed_grid.client.pickling import values_of

NEEDED_BYTES: Final = 2 << 30  # Of calls on their way: beyond this nothing is sent ahead.
IDLE_BYTES: Final = 1 << 30  # The next call may need them again.


class LargeValues:
    """Those of one pool of workers."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._sizes: OrderedDict[str, int] = OrderedDict()  # The longest unused first.
        self._users: Counter[str] = Counter()
        self._function = b""

    def put(self, data: memoryview) -> str:
        """Keep a value; its name. Raises OSError."""
        name = hashlib.sha256(data).hexdigest()
        if name not in self._sizes:
            place = f"{self._folder}/{name}"
            os.makedirs(place, 0o700, exist_ok=True)  # noqa: PTH103
            with open(f"{place}/draft", "wb") as file:  # noqa: PTH123
                file.write(data)
            os.rename(f"{place}/draft", f"{place}/data")  # noqa: PTH104
        self._sizes[name] = len(data)
        self._sizes.move_to_end(name)
        return name

    @property
    def has_room(self) -> bool:
        """Whether more may be on its way."""
        return not self._users or sum(map(self._sizes.__getitem__, self._users)) < NEEDED_BYTES

    def hold(self, data: bytes) -> None:
        """A call needs its values from now on."""
        if names := values_of(data):
            self._users.update(names)

    def release(self, data: bytes) -> None:
        """It does not any more."""
        if not (names := values_of(data)):
            return
        self._users.subtract(names)
        self._users += Counter()  # Drops the zeros.
        idle = [name for name in self._sizes if name not in self._users]
        size = sum(self._sizes[name] for name in idle)
        while idle and size > IDLE_BYTES:
            name = idle.pop(0)
            size -= self._sizes.pop(name)
            os.unlink(f"{self._folder}/{name}/data")  # noqa: PTH108  # Who reads it reads on.
            os.rmdir(f"{self._folder}/{name}")  # noqa: PTH106

    def hold_function(self, data: bytes) -> None:
        """The calls to come are of this function."""
        self.hold(data)
        self.release(self._function)
        self._function = data
