"""`grid bootstrap` against a real sshd: one installation, and everything that can happen to it."""

import json
import os
import signal
import time
from contextlib import closing
from pathlib import Path

import pytest

from tests.mesh_lab import MeshLab, awaited
from tests.ssh_lab import SshLab

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
    (desk.dir / ".gridignore").write_text("*\n")
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
    assert {node["name"]: node["health"] for node in there} == {"attic": "alive", "desk": "alive"}
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


def test_what_is_broken_there_is_repaired(first, desk, attic):
    attic.grid("down")
    broken = next(attic.opt.glob("current/lib/python*/site-packages/distributed_grid/app"))
    broken.rename(broken.with_name("gone"))
    done = desk("bootstrap", "attic")

    assert done.returncode == 0, done.stderr
    assert "sends Grid" in done.stderr
    assert "the agent was started" in done.stderr
    assert broken.exists()


def test_an_older_grid_there_is_replaced_and_its_job_goes_on(first, desk, attic):
    versions = attic.opt / "versions"
    now = (attic.opt / "current").resolve()
    older = versions / "0.0.1-older"
    now.rename(older)
    (attic.opt / "current").unlink()
    (attic.opt / "current").symlink_to(older)
    (attic.opt / "started").write_text(older.name)
    (older / "bin/grid").write_text((older / "bin/grid").read_text().replace(now.name, older.name))
    job = attic.grid("run", "--detach", "--node", "attic", "sleep", "600").stdout.strip()
    awaited(lambda: "running" in attic.grid("job", job).stdout, lambda: attic.grid("job", job))
    pid = json.loads(attic.grid("status", "--json").stdout)["pid"]
    done = desk("bootstrap", "attic")

    assert done.returncode == 0, done.stderr
    assert "the agent was restarted" in done.stderr
    assert (attic.opt / "current").resolve() == now
    assert json.loads(attic.grid("status", "--json").stdout)["pid"] != pid
    attempts = json.loads(attic.grid("job", job, "--json").stdout)["attempts"]
    assert [attempt.get("exit_code") for attempt in attempts] == [None]
    attic.grid("cancel", job)


def test_two_at_once_take_turns(first, desk, attic):
    both = [desk.start("bootstrap", "attic") for _ in range(2)]
    ended = [each.communicate("", timeout=120) for each in both]

    assert [each.returncode for each in both] == [0, 0], ended


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


def test_a_machine_without_python_says_how_to_get_one(first, desk, attic):
    attic.take_python()
    done = desk("bootstrap", "attic")
    attic.give_python()

    assert done.returncode == 1
    assert "no Python 3.11 or newer" in done.stderr
    assert "uv python install" in done.stderr


def test_ssh_that_is_killed_is_a_sentence_and_the_next_run_goes_on(first, desk):
    process = desk.start("bootstrap", "attic")
    (ssh,) = awaited(lambda: ssh_of(process.pid))
    os.kill(ssh, signal.SIGKILL)
    _, err = process.communicate("", timeout=60)

    assert process.returncode == 1
    assert "ssh ended" in err
    assert "Run it again" in err
    assert desk("bootstrap", "attic").returncode == 0


def ssh_of(pid: int) -> list[int]:
    """The ssh that this process started."""
    children = Path(f"/proc/{pid}/task").glob("*/children")
    pids = [int(word) for file in children for word in file.read_text().split()]
    return [each for each in pids if Path(f"/proc/{each}/comm").read_text() == "ssh\n"]
