import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
V2 = Path("/sys/fs/cgroup/unified/cgroup.controllers")


def run(script: str, **popen: object) -> str:
    """In a process of its own: it changes what it is."""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=30, check=False,
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, **popen,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.skipif(
    not V2.exists() or "hugetlb" not in V2.read_text(),
    reason="no version 2 hierarchy with a controller here: boot with cgroup_no_v1=hugetlb",
)
def test_groups_of_version_2_are_entered_emptied_and_removed() -> None:
    """The only controller here is hugetlb, which limits nothing; moving and ending are real."""
    script = """
import os, time
from distributed_grid.edges.runner.cgroup_files import places
from distributed_grid.edges.runner.cgroups import Group
from distributed_grid.wire.keeper import Limits, Slot
found, is_v2 = places("/sys/fs/cgroup", f"grid-{os.getpid()}-test", ("hugetlb",))
assert is_v2 and set(found) == {"hugetlb"}, found
place = found["hugetlb"]
group = Group(found, "slot-0", is_v2=True)
group.enter(Limits(), Slot())
pid = os.posix_spawn("/bin/sleep", ["sleep", "600"], {})
assert group.leave(Slot())
assert open("/proc/self/cgroup").read().strip().endswith("/home")
assert group.members() == [pid]
assert group.end_members() == 1
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -9
assert group.members() == []
group.remove(); place.remove()
assert not os.path.exists(place.path)
print("done")
"""
    assert run(script) == "done\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="process namespaces need root")
def test_a_keeper_in_another_container_leaves_the_groups_of_a_living_one() -> None:
    """It sees the same hierarchy, but not the process: an idle keeper's groups are empty, too."""
    script = """
import os, subprocess, sys
from distributed_grid.edges.runner.cgroups import CgroupPool
pool = CgroupPool("a" * 32)
sweep = "from distributed_grid.edges.runner.cgroups import CgroupPool as P; p = P('b' * 32);"
sweep += "p.remove_leftovers(''); p.remove()"
apart = ["unshare", "--pid", "--fork", "--mount-proc", sys.executable, "-c", sweep]
subprocess.run(apart, check=True)
assert pool.paths and all(os.path.exists(path) for path in pool.paths)
pool.take().remove()
pool.remove()
dead = pool.paths[0]
os.mkdir(dead)
subprocess.run(apart, check=True)
assert not os.path.exists(dead)
print("done")
"""
    assert run(script) == "done\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="becoming somebody else needs root")
def test_the_limit_of_processes_of_a_plain_user_is_put_on_and_taken_off(tmp_path: Path) -> None:
    script = """
import os, resource
from distributed_grid.edges.runner.rlimits import ProcessLimit
os.setgid(65534); os.setuid(65534)
limit = ProcessLimit()
assert limit.is_enforced()
home = resource.getrlimit(resource.RLIMIT_NPROC)
limit.put_on(10)
soft, hard = resource.getrlimit(resource.RLIMIT_NPROC)
assert 10 <= soft < 10_000 and hard == home[1], (soft, hard)
born = []
try:
    while len(born) < 1_000:
        born.append(os.posix_spawn("/bin/sleep", ["sleep", "600"], {}))
except BlockingIOError:
    pass
for pid in born:
    os.kill(pid, 9)
    os.waitpid(pid, 0)
assert len(born) <= soft
limit.put_on(0)
assert resource.getrlimit(resource.RLIMIT_NPROC) == home
print("done")
"""
    assert run(script) == "done\n"


def test_where_no_directory_is_a_control_group_none_is_made(tmp_path: Path) -> None:
    from distributed_grid.edges.runner.cgroups import CgroupPool

    pool = CgroupPool("0" * 32, root=str(tmp_path))

    assert pool.enforces == {}
    assert pool.take() is None
