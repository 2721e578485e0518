"""What rights forbid, for somebody who is not root: in a user namespace without any mapping."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = """
import os, sys
from distributed_grid.edges.artifacts import CannotShip, CannotUnpack, unpacking
from distributed_grid.edges.artifacts.chunks import ChunkStore
from distributed_grid.edges.artifacts.files import DiskFiles
from distributed_grid.model.artifact import ASKED

base = sys.argv[1]
root = base + "/w"
os.makedirs(root + "/shut/in")
for name in ("a", "shut/b", "shut/in/c"):
    with open(f"{root}/{name}", "w") as file:
        file.write(name)
os.chmod(root + "/shut/in", 0o500)
os.chmod(root + "/shut", 0o500)
try:
    open(root + "/shut/new", "w")
except PermissionError:
    pass
else:
    raise SystemExit("this world has more rights than it should")

store = ChunkStore(base + "/cache"); store.open()
files = DiskFiles(store, user_home="/none")
packed = files.pack(root, owner="j", amount=ASKED)
files.unpack(packed.id, base + "/x")
assert os.stat(base + "/x/shut").st_mode & 0o777 == 0o500
assert open(base + "/x/shut/in/c").read() == "shut/in/c"

# Something stands in the way of the last step: folders without rights are taken away all the same.
os.mkdir(base + "/y"); open(base + "/y/mine", "w").close()
try:
    files.unpack(packed.id, base + "/y")
except CannotUnpack:
    pass
else:
    raise SystemExit("written over")
unpacking.remove(os.fsencode(base + "/x"))
assert sorted(os.listdir(base)) == ["cache", "w", "y"], os.listdir(base)

os.chmod(root + "/a", 0)
os.chmod(root + "/shut/in", 0)
try:
    files.pack(root, owner="k", amount=ASKED)
except CannotShip as error:
    told = {one.path: one.why for one in error.refused}
    assert told == {"shut/in": "cannot be read: Permission denied"}, told
else:
    raise SystemExit("read?")
os.chmod(root + "/shut/in", 0o500)
try:
    files.pack(root, owner="k", amount=ASKED)
except CannotShip as error:
    assert [one.path for one in error.refused] == ["a"], error
else:
    raise SystemExit("read?")
print("done")
"""


@pytest.mark.slow
def test_what_may_not_be_read_is_named_and_what_may_not_be_written_is_still_ours(tmp_path):
    done = subprocess.run(
        ["unshare", "--user", sys.executable, "-c", PROGRAM, str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.stdout == "done\n", done.stderr
