"""The Python of here on a machine that has nothing but a shell and a C library."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from distributed_grid.bootstrap import own_python

USED = """
import ctypes, os, sqlite3, ssl, sys, zipfile, zlib
print(sys.executable, sys.prefix, os.environ.get("LD_LIBRARY_PATH"), os.environ.get("GRID_LD"))
"""


@pytest.fixture(scope="module")
def machine(tmp_path_factory):
    """Its root directory."""
    if os.geteuid() != 0 or shutil.which("busybox") is None:
        pytest.skip("chroot needs root, and the machine a busybox: run scripts/setup")
    root = tmp_path_factory.mktemp("machine")
    (root / "bin").mkdir()
    shutil.copy(shutil.which("busybox"), root / "bin/sh")
    said = subprocess.run(["ldd", "/bin/ls"], capture_output=True, text=True, check=True).stdout
    loader = re.search(r"(/lib\S*/ld-linux\S*)", said)[1]
    libc = Path(re.search(r"libc\.so\.6 => (\S+)", said)[1]).parent
    for file in (Path(loader), *(libc / name for name in ("libc.so.6", "libm.so.6"))):
        place = root / str(file).lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file.resolve(), place)
    packed = own_python.pack(root)
    (root / "here").mkdir()
    subprocess.run(["tar", "-xzf", packed, "-C", root / "here"], check=True, timeout=60)
    packed.unlink()
    return root


@pytest.mark.parametrize("before", [None, "/theirs"])
def test_it_runs_with_its_own_libraries_and_gives_them_to_nobody(machine, before):
    program = f"/here/bin/{own_python.NAME}"
    env = {"PATH": "/bin"} | ({"LD_LIBRARY_PATH": before} if before else {})
    done = subprocess.run(
        [shutil.which("chroot"), str(machine), program, "-I", "-c", USED],
        env=env, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split() == [program, "/here", str(before), "None"]


def test_what_only_developers_need_stays_here(machine):
    stdlib = machine / "here/lib" / own_python.NAME
    names = {file.name for file in stdlib.iterdir()}

    assert "os.py" in names
    assert not names & {"site-packages", "test", "idlelib"}
    assert not list((machine / "here/lib").glob("libc.so*"))  # That is the machine's own.
