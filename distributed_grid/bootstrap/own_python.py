"""The Python that runs here, packed for a machine of the same kind that has none.

Lives here: which of its files travel, and how it runs where its libraries are not. Never here:
sending it (`connection`).
Invariant: what it needs to run elsewhere reaches no process but itself.
"""

import io
import re
import subprocess
import sys
import sysconfig
import tarfile
from pathlib import Path
from typing import Final

NAME: Final = f"python{sys.version_info[0]}.{sys.version_info[1]}"
PLACE: Final = f".local/opt/grid/{NAME}"  # Below the home directory there.
LDD_S: Final = 60
_LEFT_OUT: Final = frozenset(
    {"site-packages", "dist-packages", "__pycache__", "test", "tests", "idlelib", "tkinter"}
    | {"turtledemo", "ensurepip", "lib2to3", "sitecustomize.py"}
)
# Those of the C library belong to the machine.
_LIBRARY: Final = re.compile(r"(\S+) => (/\S+)")
_SYSTEM: Final = re.compile(r"(libc|libm|libdl|librt|libpthread|libutil|libresolv|ld-linux.*)\.so")
# The libraries are for this programme alone: jobs have the path that a person gave them.
_WRAPPER: Final = b"""\
#!/bin/sh
GRID_LD=$LD_LIBRARY_PATH LD_LIBRARY_PATH="${0%/*}/../lib" exec "$0.bin" "$@"
"""
_RESTORE: Final = b"""\
import os, sys
os.environ.pop("LD_LIBRARY_PATH", None)
if before := os.environ.pop("GRID_LD", ""):
    os.environ["LD_LIBRARY_PATH"] = before
sys.executable = sys.executable.removesuffix(".bin")
"""


def pack(folder: Path) -> Path:
    """An archive of it, as `bin` and `lib`."""
    path, stdlib = folder / "python.tar.gz", Path(sysconfig.get_path("stdlib"))
    program = Path(getattr(sys, "_base_executable", sys.executable)).resolve()
    with tarfile.open(path, "w:gz", compresslevel=1) as archive:
        archive.add(program, f"bin/{NAME}.bin")
        archive.add(stdlib, f"lib/{NAME}", filter=_wanted)
        for name, file in _libraries([program, *stdlib.glob("lib-dynload/*.so")]).items():
            archive.add(Path(file).resolve(), f"lib/{name}")
        for name, text in ((f"bin/{NAME}", _WRAPPER), (f"lib/{NAME}/sitecustomize.py", _RESTORE)):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(text), 0o755
            archive.addfile(entry, io.BytesIO(text))
    return path


def _wanted(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    name = entry.name.rpartition("/")[2]
    return None if name in _LEFT_OUT or name.startswith(("config-", "_tkinter")) else entry


def _libraries(files: list[Path]) -> dict[str, str]:
    words = ["ldd", *(str(file) for file in files if not file.name.startswith("_tkinter"))]
    done = subprocess.run(words, capture_output=True, text=True, timeout=LDD_S, check=False)  # noqa: S603
    found = dict(_LIBRARY.findall(done.stdout))
    return {name: file for name, file in found.items() if not _SYSTEM.match(name)}
