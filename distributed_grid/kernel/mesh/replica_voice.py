"""What this node says of itself, so that it counts everywhere.

Lives here: its versions and generations, and what it does when others know more of it than it does
itself. Never here: what others say (`replica_maps`), how it travels (`replica`).
Invariant: a version is never used for two values in one life; whoever lost its disk, found an old
one, or meets a clone, speaks under a generation above all that was seen, and says everything again.
"""

from collections import deque
from collections.abc import Iterable
from typing import Final

from distributed_grid.errors import BadValue
from distributed_grid.kernel.mesh.ranges import name_of
from distributed_grid.kernel.mesh.replica_maps import KEYS, Maps, is_sound
from distributed_grid.kernel.mesh.signing import Signer
from distributed_grid.model.ids import NodeId
from distributed_grid.model.membership import MeshId
from distributed_grid.wire.mesh import GENERATION_FINAL, VALUE_BYTES_MAX, Entry, Key

RISES_MAX: Final = 4  # New generations in a row: who lost a disk needs one for each memory of it.
RISES_US: Final = 10_000_000  # Two clones would otherwise outbid each other without end.
JUMP_MAX: Final = 2**32  # On a neighbour's bare word: starts a second for a century are fewer.


class Voice:
    """The only writer of this node's entries."""

    def __init__(
        self,
        *,
        me: NodeId,
        mesh: MeshId,
        signer: Signer,
        generation: int,
        maps: Maps,
        now_us: int,
    ) -> None:
        self.generation = generation
        self._me = me
        self._mesh = mesh
        self._signer = signer
        self._maps = maps
        self._version = 0
        self._is_unheard = True  # Nobody has confirmed anything said under this generation.
        self._unsaid: dict[Key, bytes] = {}  # Said before this generation began, and not since.
        self._rises: deque[int] = deque(maxlen=RISES_MAX)
        maps.begin(me, generation, now_us)

    @property
    def is_revoked(self) -> bool:
        """Whether this node was thrown out: it has nothing more to say."""
        return self._maps.nodes[self._me].generation == GENERATION_FINAL

    def say(self, key: Key, value: bytes, now_us: int) -> Entry | None:
        """Sign and keep it; None: there is nothing new in it."""
        assert key in KEYS, "one of the keys"
        assert key != "revoked", "written by others"
        if len(value) > VALUE_BYTES_MAX:
            raise BadValue(
                f"{key} of {len(value)} bytes",
                expected=f"at most {VALUE_BYTES_MAX} bytes",
                remedy="Use fewer or shorter labels",
            )
        self._unsaid.pop(key, None)
        held = self._maps.items.get(name_of(self._me, key))
        if value == (held.entry.value if held is not None else b"") or self.is_revoked:
            return None
        return self._sign(key, value, now_us)

    def _sign(self, key: Key, value: bytes, now_us: int) -> Entry:
        self._version += 1
        unsigned = Entry(self._me, self.generation, key, self._version, value)
        signature = self._signer.sign(unsigned.signed_bytes(self._mesh))
        entry = Entry(self._me, self.generation, key, self._version, value, signature)
        self._maps.take(entry, now_us)
        return entry

    def begin(self, now_us: int) -> None:
        """Start over with an empty map, if there is a generation left."""
        if self.generation + 1 < GENERATION_FINAL:
            self._begin(self.generation + 1, now_us)

    def say_again(self, now_us: int) -> list[Entry]:
        """What was said before this generation began, and not since."""
        said = [self.say(key, value, now_us) for key, value in list(self._unsaid.items())]
        return [entry for entry in said if entry is not None]

    def echoed(self, entry: Entry, now_us: int) -> list[Entry]:
        """Somebody has an own entry that would count more; returns what was said again."""
        return self._rise(entry.generation, now_us)

    def is_outlived(self, entry: Entry) -> bool:
        """Whether this is of a life before, and nothing was said since that would replace it."""
        return (
            entry.node == self._me
            and entry.generation < self.generation
            and not self._maps.nodes[self._me].held
            and not self._unsaid
            and is_sound(entry)
        )

    def withdraw(self, key: Key, now_us: int) -> Entry:
        """Say that a word of a life before counts no more: a generation shows by its entries."""
        return self._sign(key, b"", now_us)

    def remembered(self, seen: int, now_us: int) -> list[Entry]:
        """A neighbour has seen such a generation of this node; returns what was said again."""
        own = self.generation
        is_older_life = seen > own or (seen == own and self._is_unheard)
        return self._rise(seen, now_us) if is_older_life and seen - own <= JUMP_MAX else []

    def heard(self, entries: Iterable[Entry]) -> None:
        """A neighbour has taken these: from now on it may remember this generation."""
        if any((each.node, each.generation) == (self._me, self.generation) for each in entries):
            self._is_unheard = False

    def _rise(self, seen: int, now_us: int) -> list[Entry]:
        is_often = len(self._rises) == RISES_MAX and now_us - self._rises[0] < RISES_US
        if is_often or seen + 1 >= GENERATION_FINAL:
            return []  # It will be heard of again, at the latest when everything is compared.
        self._rises.append(now_us)
        self._begin(max(seen, self.generation) + 1, now_us)
        return self.say_again(now_us)

    def _begin(self, generation: int, now_us: int) -> None:
        self.generation = generation
        if self.is_revoked:
            return
        own = [held.entry for held in self._maps.nodes[self._me].held.values()]
        # The chain first: whoever hears the rest must know that this node belongs.
        own.sort(key=lambda entry: (entry.key != "chain", entry.version))
        said = {entry.key: entry.value for entry in own}
        self._unsaid = said | self._unsaid
        self._maps.begin(self._me, generation, now_us)
        self._version = 0
        self._is_unheard = True
