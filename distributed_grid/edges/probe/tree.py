"""A tree of files that describes a machine: `/` itself, or a copy of one below a directory.

Lives here: bounded reading that never raises and never waits. Never here: what the files mean.
Invariant: below another root, nothing outside of it is read, also not through symbolic links.
"""

import os
import re
import stat
from typing import Final

from distributed_grid.model.bytesize import BYTES_MAX

TEXT_BYTES_MAX: Final = 4 << 20  # /proc/cpuinfo of a thousand cores has 1.5 MB; more is no fact.
NAMES_MAX: Final = 4_096  # Entries of one directory; a host with thousands of veths still fits.
_INTEGER: Final = re.compile(r"-?[0-9]{1,19}")
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class Tree:
    """Reads below one root."""

    def __init__(self, root: str = "/") -> None:
        self.root = os.path.realpath(root)
        self.is_this_machine = self.root == "/"

    def text(self, path: str) -> str | None:
        """The whole file without surrounding space, or None if it cannot be read."""
        data = self._bytes(path)
        if data is None:
            return None
        # NUL ends or separates strings in a device tree and in environ files.
        return data.decode("utf-8", errors="replace").replace("\0", "\n").strip()

    def line(self, path: str, *, characters_max: int = 200) -> str | None:
        """One short line as people may see it: no control characters; None if there is none."""
        text = self.text(path)
        first = _CONTROL.sub("", text.split("\n", 1)[0]).strip() if text else ""
        return first[:characters_max] or None

    def integer(self, path: str, *, least: int = 0, most: int = BYTES_MAX) -> int | None:
        """A whole number within bounds; anything else is None."""
        return integer(self.text(path), least=least, most=most)

    def names(self, path: str) -> list[str]:
        """What a directory holds, sorted by number where names end in one; empty if unreadable."""
        try:
            with os.scandir(self._real(path)) as entries:
                found = [entry.name for entry, _ in zip(entries, range(NAMES_MAX), strict=False)]
        except (OSError, ValueError):
            return []
        return sorted(found, key=_natural)

    def exists(self, path: str) -> bool:
        """Whether something of this name is there."""
        try:
            return os.path.exists(self._real(path))  # noqa: PTH110  (pathlib costs 10 ms of start)
        except (OSError, ValueError):
            return False

    def target(self, path: str) -> str | None:
        """The last part of where a symbolic link points: the name of a driver, of a device."""
        try:
            folder, _, name = path.rpartition("/")
            target = os.readlink(f"{self._real(folder)}/{name}")  # noqa: PTH115
        except (OSError, ValueError):
            return None
        return target.rpartition("/")[2] or None

    def _bytes(self, path: str) -> bytes | None:
        try:
            # Not blocking: a pipe in the place of a file must not stop us.
            handle = os.open(self._real(path), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except (OSError, ValueError):
            return None
        try:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                return None
            chunks, size = [], 0
            while size < TEXT_BYTES_MAX and (chunk := os.read(handle, 1 << 16)):
                chunks.append(chunk)
                size += len(chunk)
            return b"".join(chunks)
        except OSError:
            return None  # Sysfs answers EINVAL or ENODEV where the hardware does not know.
        finally:
            os.close(handle)

    def _real(self, path: str) -> str:
        joined = self._joined(path)
        if self.is_this_machine:
            return joined
        real = os.path.realpath(joined)
        if real != self.root and not real.startswith(self.root + "/"):
            raise ValueError("leads out of the root")
        return real

    def _joined(self, path: str) -> str:
        return path if self.is_this_machine else self.root + "/" + path.lstrip("/")


def integer(text: str | None, *, least: int = 0, most: int = BYTES_MAX) -> int | None:
    """A whole number within bounds; anything else is None."""
    if text is None or not _INTEGER.fullmatch(text):
        return None
    number = int(text)
    return number if least <= number <= most else None


def cpu_list(text: str | None) -> frozenset[int]:
    """The kernel's list format: `0-3,8` is {0, 1, 2, 3, 8}; nonsense is empty."""
    cpus: set[int] = set()
    for part in (text or "").split(","):
        first, _, last = part.strip().partition("-")
        low = integer(first, most=CPUS_MAX)
        high = integer(last, most=CPUS_MAX) if last else low
        if low is None or high is None:
            return frozenset()
        cpus.update(range(low, high + 1))
    return frozenset(cpus)


CPUS_MAX: Final = 65_536  # Eight times what Linux can be built for (CONFIG_NR_CPUS).


def fields(text: str | None) -> dict[str, str]:
    """`Key: value` lines; of a key that repeats, the first counts."""
    found: dict[str, str] = {}
    for line in (text or "").splitlines():
        key, colon, value = line.partition(":")
        if colon:
            found.setdefault(key.strip(), value.strip())
    return found


def _natural(name: str) -> tuple[str, int, str]:
    stem = name.rstrip("0123456789")
    digits = name[len(stem) :]
    return stem, int(digits[:18]) if digits.isascii() and digits else -1, name
