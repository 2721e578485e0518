"""A disk that is full: a small tmpfs in a namespace of its own."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
WORLD = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]
PROGRAM = """
import os, sys
from distributed_grid.edges.artifacts import CacheFull, CannotUnpack
from distributed_grid.edges.artifacts.chunks import ChunkStore
from distributed_grid.edges.artifacts.files import DiskFiles
from distributed_grid.model.artifact import ASKED

small, large, work = sys.argv[1:]
os.makedirs(work)
with open(work + "/a", "wb") as file:
    file.write(os.urandom(6_000_000))

store = ChunkStore(small + "/cache"); store.open()
try:
    DiskFiles(store, user_home="/none").pack(work, owner="j", amount=ASKED)
except CacheFull as error:
    assert "the disk is full" in str(error), error
else:
    raise SystemExit("it fit?")
assert os.listdir(small + "/cache/drafts") == []
assert store.status().bytes_pinned == 0
assert store.status().bytes_used <= 4 << 20
store.clear()
assert os.statvfs(small).f_bavail * 4096 > 3_500_000

roomy = ChunkStore(large + "/cache"); roomy.open()
files = DiskFiles(roomy, user_home="/none")
packed = files.pack(work, owner="j", amount=ASKED)
try:
    files.unpack(packed.id, small + "/x")
except CannotUnpack as error:
    assert "No space left" in str(error), error
else:
    raise SystemExit("it fit?")
assert os.listdir(small) == ["cache"], os.listdir(small)
with open(work + "/b", "wb") as file:
    file.write(b"small")
os.unlink(work + "/a")
packed = files.pack(work, owner="k", amount=ASKED)
files.unpack(packed.id, small + "/x")
print("done")
"""


@pytest.mark.slow
def test_a_full_disk_is_told_nothing_is_left_behind_and_afterwards_all_is_well(tmp_path):
    small = tmp_path / "small"
    small.mkdir()
    words = [
        sys.executable,
        "-c",
        PROGRAM,
        str(small),
        str(tmp_path / "large"),
        str(tmp_path / "w"),
    ]
    shell = 'mount -t tmpfs -o size=4m none "$0" && exec "$@"'
    done = subprocess.run(
        [*WORLD, shell, str(small), *words], cwd=ROOT, capture_output=True, text=True, check=False
    )

    assert done.stdout == "done\n", done.stderr
