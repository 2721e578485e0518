"""Files of a job on their way: what is being done with them, where, and how far it is.

Lives here: the noun, and its sentence. Never here: who counts (`agent`), where it is shown (`cli`).
"""

from typing import Final, Literal

import msgspec

from distributed_grid.model.bounds import Bytes, Count, Name

Doing = Literal[
    "packing",  # Its directory, at its home.
    "receiving",  # By the node that will run it.
    "copying",  # To a node that keeps them, should the home be lost.
    "unpacking",
    "building",  # Its Python environment.
    "collecting",  # What it left behind, where it ran.
    "bringing",  # That, to its home.
]

_WORDS: Final[dict[str, str]] = {
    "packing": "is packing its directory",
    "receiving": "is receiving",
    "copying": "is getting a copy of its files",
    "unpacking": "is unpacking its files",
    "building": "is building its Python environment",
    "collecting": "is collecting its outputs",
    "bringing": "is fetching its outputs",
}


class Transit(msgspec.Struct, frozen=True, kw_only=True):
    """How far some files are; of what is not counted, only that it goes on."""

    doing: Doing
    node: Name  # The name of the one that does it.
    bytes_done: Bytes = 0
    bytes_total: Bytes = 0  # 0: nobody knows, or nobody counts.
    files: Count = 0  # In all of them.

    @property
    def is_after_the_end(self) -> bool:
        """Whether it is of what a process left behind that has ended."""
        return self.doing in ("collecting", "bringing")

    def __str__(self) -> str:
        """In a sentence: `attic is receiving 34 MiB of 200 MiB (1204 files)`."""
        words = f"{self.node} {_WORDS[self.doing]}"
        if self.bytes_total:
            # Whoever is started for a job of a millisecond does without.
            from distributed_grid.model import bytesize

            done, total = (bytesize.text(size) for size in (self.bytes_done, self.bytes_total))
            comma = "" if self.doing == "receiving" else ","
            words += f"{comma} {done} of {total}"
        elif self.doing == "receiving":
            words += " its files"
        if self.files:
            words += f" ({self.files} file{'' if self.files == 1 else 's'})"
        return words
