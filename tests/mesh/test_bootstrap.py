"""`grid bootstrap` against a real sshd: one installation, and everything that can happen to it."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from distributed_grid import __version__
from tests.agent_lab import ROOT
from tests.mesh_lab import MeshLab, awaited
from tests.ssh_lab import ADA, SshLab

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def lab():
    with MeshLab.on_loopback() as made:
        made.member("desk").up()
        yield made


@pytest.fixture(scope="module")
def attic(lab):
    with closing(SshLab(lab["desk"].net)) as made:
        yield made


@pytest.fixture
def desk(lab, attic):
    lab["desk"].env["PATH"] = attic.path
    return lab["desk"]


@pytest.fixture(scope="module")
def first(lab, attic):
    """The first `grid bootstrap`, and how long it and a job there took."""
    desk = lab["desk"]
    desk.env["PATH"] = attic.path
    began = time.monotonic()
    done = desk("bootstrap", "--name", "attic", "attic")
    assert done.returncode == 0, f"{done.stderr}\n{(attic.root / 'log').read_text()}"
    ran = desk("run", "--node", "attic", "sh", "-c", "echo $GRID_NODE")
    return done, ran, time.monotonic() - began


def installed(attic) -> dict[str, int]:
    """Every file there that an installation made, and when."""
    found = attic.opt.rglob("*")
    return {
        str(each): each.lstat().st_mtime_ns
        for each in found
        if "__pycache__" not in each.parts and each.name != "lock" and not each.is_dir()
    }


def test_one_line_installs_starts_joins_and_waits_until_both_see_each_other(first, desk, attic):
    done, ran, took_s = first

    assert done.stdout == "attic is now in the mesh\n"
    said = [line.removeprefix("grid: attic: ") for line in done.stderr.splitlines()]
    assert said[0] == "connects by ssh"
    assert said[1].startswith("sends Grid, ")
    assert said[2].startswith(f"Grid is installed in {attic.opt}")
    assert said[3] == "the agent was started"
    assert said[-1] == "joined the mesh"
    assert (ran.returncode, ran.stdout) == (0, "attic\n")
    assert desk.health()["attic"] == "alive"
    there = json.loads(attic.grid("nodes", "--json").stdout)["nodes"]
    seen = {node["name"]: node["health"] for node in there}
    assert (seen["attic"], seen["desk"]) == ("alive", "alive")  # Other tests bring in others.
    assert took_s < 60


def test_the_ticket_is_in_no_argument(first, desk, attic):
    words = attic.root / "words"
    attic.wrap_ssh(f'echo "$@" >> {words}')
    attic.grid("leave")
    awaited(lambda: desk.health().get("attic") != "alive", desk.health)
    done = desk("bootstrap", "attic")
    attic.wrap_ssh("")

    assert done.returncode == 0, done.stderr
    assert "joined the mesh" in done.stderr
    assert "grid1" not in words.read_text().lower()
    assert "grid1" not in (done.stdout + done.stderr).lower()


def test_once_more_changes_nothing(first, desk, attic):
    before, pid = installed(attic), json.loads(attic.grid("status", "--json").stdout)["pid"]
    done = desk("bootstrap", "--json", "attic")

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)[0]["was_installed"]
    assert json.loads(done.stdout)[0]["was_member"]
    assert "sends" not in done.stderr
    assert installed(attic) == before
    assert json.loads(attic.grid("status", "--json").stdout)["pid"] == pid


@pytest.fixture
def older(tmp_path):
    """This Grid as it was in another version."""
    copy = shutil.copytree(ROOT / "distributed_grid", tmp_path / "distributed_grid")
    first = copy / "__init__.py"
    text = first.read_text()
    assert f'"{__version__}"' in text
    first.write_text(text.replace(f'"{__version__}"', '"0.0.1"'))
    return str(tmp_path)


def test_an_older_grid_there_is_replaced_once_by_two_and_its_job_goes_on(first, desk, attic, older):
    (attic.home / ".local/opt/grid/current").unlink()  # Else the newer one that is there stays.
    assert desk("bootstrap", "attic", env={"PYTHONPATH": older}).returncode == 0
    assert attic.grid("version").stdout.startswith("grid 0.0.1 ")
    job = attic.grid("run", "--detach", "--node", "attic", "sleep", "600").stdout.strip()
    awaited(lambda: "running" in attic.grid("job", job).stdout, lambda: attic.grid("job", job))
    pid = json.loads(attic.grid("status", "--json").stdout)["pid"]
    both = [desk.start("bootstrap", "attic") for _ in range(2)]
    said = "".join(process.communicate("", timeout=120)[1] for process in both)

    assert [process.returncode for process in both] == [0, 0], said
    assert said.count("sends Grid") == said.count("the agent was restarted") == 1
    assert said.count("the agent runs already") == 1
    assert attic.grid("version").stdout.startswith(f"grid {__version__} ")
    status = json.loads(attic.grid("status", "--json").stdout)
    assert (status["pid"] != pid, status["version"]) == (True, __version__)
    attempts = json.loads(attic.grid("job", job, "--json").stdout)["attempts"]
    assert [attempt.get("exit_code") for attempt in attempts] == [None]
    attic.grid("cancel", job)


def test_ssh_that_would_ask_says_how_to_let_the_key_in(first, desk, attic):
    done = desk("bootstrap", "--key", "/nowhere", "root@127.0.0.1")

    assert done.returncode == 1
    assert "Permission denied" in done.stderr
    assert "ssh-copy-id root@127.0.0.1" in done.stderr


def test_an_unknown_host_key_is_never_taken_unseen(first, desk, attic):
    known = attic.root / "known_hosts"
    kept = known.read_text()
    known.write_text("")
    done = desk("bootstrap", "attic")
    known.write_text(kept)

    assert done.returncode == 1
    assert "Host key verification failed" in done.stderr
    assert "ssh attic" in done.stderr


@pytest.mark.parametrize("host", ["-oProxyCommand=true", "", "a b"])
def test_a_host_that_ssh_would_read_as_an_option_is_refused(first, desk, host):
    done = desk("bootstrap", "--", host)

    assert done.returncode == 2
    assert "user@host" in done.stderr


def test_nobody_at_the_port_is_told_at_once(first, desk):
    done = desk("bootstrap", "--port", "9", "attic")

    assert done.returncode == 1
    assert "Connection refused" in done.stderr
    assert "--port" in done.stderr


def test_where_our_wheels_do_not_fit_and_no_index_answers_nothing_is_left(first, desk, attic):
    before = installed(attic)
    attic.give_python(is_musl=True)
    (attic.opt / "current").rename(attic.opt / "kept")
    done = desk("bootstrap", "attic")
    (attic.opt / "kept").rename(attic.opt / "current")
    attic.give_python()

    assert done.returncode == 1
    assert "its glibc is none" in done.stderr
    assert "pip there failed" in done.stderr
    assert "PIP_INDEX_URL" in done.stderr
    assert installed(attic) == before


def test_what_is_broken_is_repaired_and_where_ssh_dies_the_next_run_goes_on(first, desk, attic):
    attic.grid("leave")
    attic.grid("down")
    broken = next(attic.opt.glob("current/lib/python*/site-packages/distributed_grid/app"))
    broken.rename(broken.with_name("gone"))
    # The agent may have been started already: an order that arrived is carried out.
    for step in ("connects by ssh", "sends Grid", "Grid is installed in", "the agent "):
        process = desk.start("bootstrap", "attic")
        said = iter(process.stderr.readline, "")
        assert any(step in line for line in said), step
        for ssh in awaited(lambda pid=process.pid: ssh_of(pid)):
            os.kill(ssh, signal.SIGKILL)
        _, err = process.communicate("", timeout=60)

        assert process.returncode == 1
        assert "ssh ended" in err
        assert "Run it again" in err
        # What was half there goes as soon as the other side notices.
        awaited(lambda: not list(attic.opt.glob("versions/*.part")))
    done = desk("bootstrap", "--name", "loft", "attic")
    assert done.stdout == "loft is now in the mesh\n", done.stderr
    desk("bootstrap", "--name", "attic", "attic")  # Also the name can be told later.

    assert broken.exists()
    assert "Grid is installed\n" in done.stderr  # Already: that step was taken.
    assert "joined the mesh" in done.stderr
    awaited(lambda: desk.health().get("attic") == "alive", desk.health)


CONFIG = """\
nodes:
  - {{name: desk, host: localhost}}
  - {{name: attic, host: bare, user: root, ssh_key_path: {key}}}
"""
PROGRAMME = """\
import asyncio
from distributed_grid.config import ClusterConfig
from distributed_grid.orchestration.resource_sharing import ResourceSharingProtocol

async def main():
    protocol = ResourceSharingProtocol(ClusterConfig.from_yaml("cluster_config.yaml"))
    print([await protocol.install_worker_agent(name) for name in ("desk", "attic")])
    print((await protocol.check_node_resources("attic"))["node_id"])
    await protocol.install_worker_agent("nowhere")

asyncio.run(main())
"""


@pytest.mark.rows("S3-07", "S3-08", "S3-97")
def test_the_nodes_of_a_configuration_are_brought_in_by_name_and_by_a_programme(first, desk, attic):
    file = desk.dir / "cluster_config.yaml"
    file.write_text(CONFIG.format(key=attic.root / "key"))
    all_of_them = desk("bootstrap", "--json")
    named = desk("bootstrap", "--key", "/nowhere", "attic")
    attic.grid("leave")
    attic.grid("down")
    awaited(lambda: desk.health().get("attic") != "alive", desk.health)
    ran = subprocess.run(
        desk.net.command([sys.executable, "-c", PROGRAMME]),
        env=desk.env, cwd=desk.dir, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    file.unlink()

    assert all_of_them.returncode == 0, all_of_them.stderr
    assert [one["name"] for one in json.loads(all_of_them.stdout)] == ["attic"]
    assert "Permission denied" in named.stderr  # A flag counts before the file.
    assert ran.stdout == "[True, True]\nattic\n", ran.stderr
    assert "NotBrought: 'nowhere': ssh ended: " in ran.stderr
    assert desk.health()["attic"] == "alive"


@pytest.fixture
def barn(lab):
    """Somebody's who is not root, and can run no Python there: ours is in root's home."""
    with closing(SshLab(lab["desk"].net, user="ada", address="127.0.0.2")) as made:
        lab["desk"].env["PATH"] = made.path
        yield made


@pytest.mark.rows("S3-97")
def test_without_root_and_without_python_there_the_one_of_here_is_sent(lab, barn):
    desk = lab["desk"]
    barn.take("tar")
    not_taken = desk("bootstrap", "attic")
    left = list(barn.opt.glob("*"))
    barn.give("tar")
    done = desk("bootstrap", "--name", "barn", "attic")
    asked = "echo $GRID_NODE:$(id -u):$LD_LIBRARY_PATH"
    ran = desk("run", "--node", "barn", "--ship", "none", "sh", "-c", asked)
    again = desk("bootstrap", "attic")

    assert (not_taken.returncode, left) == (1, [])
    assert "no Python 3.11 or newer" in not_taken.stderr
    assert "tar: not found" in not_taken.stderr
    assert "uv python install" in not_taken.stderr
    assert done.returncode == 0, done.stderr
    assert "has no Python 3.11: sends this one" in done.stderr
    assert (ran.returncode, ran.stdout) == (0, f"barn:{ADA}:\n"), ran.stderr
    assert again.returncode == 0, again.stderr
    assert "sends" not in again.stderr
    assert "the agent runs already" in again.stderr
    barn.grid("leave")


def ssh_of(pid: int) -> list[int]:
    """The ssh that this process started."""
    children = Path(f"/proc/{pid}/task").glob("*/children")
    pids = [int(word) for file in children for word in file.read_text().split()]
    return [each for each in pids if Path(f"/proc/{each}/comm").read_text() == "ssh\n"]
