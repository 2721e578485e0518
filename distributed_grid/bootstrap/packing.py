"""What travels to a machine without network: wheels of what is installed here.

Lives here: making them of the installed files. Never here: sending them, unpacking them.
Invariant: nothing is fetched and nothing is built: what arrives is what runs here.
"""

import base64
import csv
import hashlib
import io
import platform
import re
import sys
import tempfile
import threading
import zipfile
from collections.abc import Iterator, Mapping
from functools import cached_property
from importlib import metadata
from pathlib import Path
from typing import Final

import distributed_grid
from distributed_grid.bootstrap import own_python
from distributed_grid.errors import GridError

OURS: Final = "distributed_grid"
# About an installation, not about what is installed.
_LOCAL: Final = ("INSTALLER", "REQUESTED", "RECORD", "direct_url.json", "uv_cache.json")
_GLIBC: Final = re.compile(r"manylinux_(\d+)_(\d+)_")
_OLDEST: Final = (2, 17)  # manylinux2014 and before.
_PACE: Final = 1  # Of the compression: a network is seldom slower than level 6.


class NotPacked(GridError):
    """Something that is installed here cannot be made a wheel again."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(
            f"the files of {name} are not known here: it was not installed by pip",
            remedy="Install Grid into an environment of its own: python3 -m venv, then pip install",
        )


def distributions() -> list[metadata.Distribution]:
    """Grid, and everything it needs that is installed here."""
    found: dict[str, metadata.Distribution] = {}
    names = [OURS]
    while names:
        name = _normal(names.pop())
        if name in found:
            continue
        try:
            found[name] = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            if name == OURS:
                raise NotPacked(name) from None
            continue  # For another system than this.
        needs = (line for line in found[name].requires or () if "extra ==" not in line)
        names += [need[0] for line in needs if (need := re.match(r"[\w.-]+", line))]
    return list(found.values())


def write_wheel(one: metadata.Distribution, folder: Path) -> Path:
    """A wheel of what is installed, in this folder."""
    told = re.findall(r"^Tag: (\S+)$", one.read_text("WHEEL") or "", re.MULTILINE)
    tag = "py3-none-any" if _is_ours(one) else (told or ["py3-none-any"])[0]
    stem = f"{_normal(one.name)}-{one.version}"
    path, record = folder / f"{stem}-{tag}.whl", io.StringIO()
    lines = csv.writer(record, lineterminator="\n")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=_PACE) as wheel:
        described = ""
        for name, file in _files(one):
            data = file.read_bytes()
            if file.name == "WHEEL" and _is_ours(one):  # An editable one names this checkout.
                data = f"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: {tag}\n".encode()
            if file.parent.name.endswith(".dist-info"):
                described = name.partition("/")[0]
            wheel.writestr(name, data)
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            lines.writerow([name, f"sha256={digest}", len(data)])
        lines.writerow([f"{described}/RECORD", "", ""])
        wheel.writestr(f"{described}/RECORD", record.getvalue())
    return path


def _files(one: metadata.Distribution) -> Iterator[tuple[str, Path]]:
    """What of a distribution lies beside others in a wheel: its name there, and the file."""
    if one.files is None:
        raise NotPacked(one.name)
    for entry in one.files:
        file = Path(str(entry.locate()))
        if ".." in entry.parts or file.suffix == ".pyc" or file.name in _LOCAL:
            continue  # Commands in bin, and what each installation makes for itself.
        if not _is_ours(one) or entry.parts[0].endswith(".dist-info"):
            yield entry.as_posix(), file
    if _is_ours(one):  # Editable or not, this is what runs.
        for file in _own_files():
            yield f"{OURS}/{file.relative_to(_home()).as_posix()}", file


def _own_files() -> list[Path]:
    known = (file for file in _home().rglob("*") if "__pycache__" not in file.parts)
    return sorted(file for file in known if file.is_file())


def _home() -> Path:
    return Path(distributed_grid.__path__[0])


def _is_ours(one: metadata.Distribution) -> bool:
    return _normal(one.name) == OURS


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "_", name).lower()


class Supply:
    """What this machine can send; made once, at the first who needs it, for all who do."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="grid-bootstrap-")
        self._one = threading.Lock()
        self.system, self.machine = platform.system(), platform.machine()
        self.python = f"{sys.version_info[0]}.{sys.version_info[1]}"
        name, version = platform.libc_ver()
        self.glibc = _version(version) if name == "glibc" else None

    @cached_property
    def packages(self) -> list[metadata.Distribution]:
        """Grid first."""
        return distributions()

    @cached_property
    def fingerprint(self) -> str:
        """Tells two installations apart, of one version as well."""
        hashed = hashlib.sha256(self.python.encode())
        for one in self.packages:
            hashed.update(f"{_normal(one.name)}={one.version}\n".encode())
        for file in _own_files():
            hashed.update(f"{file.name}\n".encode() + file.read_bytes())
        return f"{distributed_grid.__version__}-{hashed.hexdigest()[:12]}"

    @cached_property
    def glibc_of_wheels(self) -> tuple[int, int] | None:
        """The oldest C library that they run with; None: they are for another kind."""
        if self.glibc is None:
            return None
        needed = _OLDEST
        for one in self.packages:
            text = one.read_text("WHEEL") or ""
            found = [(int(major), int(minor)) for major, minor in _GLIBC.findall(text)]
            if re.search(r"^Tag: \S+-linux_", text, re.MULTILINE):  # Compiled here.
                found = [self.glibc]
            needed = max(needed, min(found, default=needed))
        return needed

    def misfit(self, machine: Mapping[str, object]) -> str:
        """Why what is compiled here does not run there; empty: it does."""
        if machine["machine"] != self.machine:
            return f"its processor is {machine['machine']}, not {self.machine}"
        if machine["python"] != self.python:
            return f"its Python is {machine['python']}, not {self.python}"
        needed, there = self.glibc_of_wheels, _version(str(machine["glibc"]))
        if needed is None or there is None or there < needed:
            found = ".".join(map(str, there)) if there else "none"
            least = ".".join(map(str, needed or ())) or "another kind"
            return f"its glibc is {found}, Grid was made for {least}"
        return ""

    def wheel(self) -> Path:
        """Grid's own, for a machine that gets the rest from an index."""
        with self._one:
            folder = Path(self._folder.name)
            made = sorted(folder.glob(f"{OURS}-*.whl"))
            return made[0] if made else write_wheel(self.packages[0], folder)

    def bundle(self) -> Path:
        """All wheels in one file."""
        with self._one:
            path = Path(self._folder.name) / "bundle.zip"
            if not path.exists():
                wheels = Path(self._folder.name) / "wheels"
                wheels.mkdir(exist_ok=True)
                draft = path.with_suffix(".part")
                with zipfile.ZipFile(draft, "w") as bundle:
                    for one in self.packages:
                        bundle.write(wheel := write_wheel(one, wheels), wheel.name)
                draft.replace(path)
            return path

    def own_python(self) -> Path:
        """The Python of here, for a machine that has none."""
        with self._one:
            return own_python.pack(Path(self._folder.name))

    def close(self) -> None:
        """Remove what was made."""
        self._folder.cleanup()


def _version(text: str) -> tuple[int, int] | None:
    found = re.match(r"(\d+)\.(\d+)", text)
    return (int(found[1]), int(found[2])) if found else None
