"""A work directory to three nodes of a real mesh, and to three directories by rsync over ssh.

Lives here: both, in one network that is nothing but a loopback. `benchmarks.shipping` calls it.
A round has a new tree: the first time everything travels, the second time nothing has changed. What
is measured is the time until a job with these files begins on all three nodes, so ours holds
packing, the transfer and unpacking into a new directory, also the second time; rsync's holds the
transfer into a new directory, and the second time the comparison. All three go at once. The job's
own process is not counted: borrowed work gives way to everything else on a machine.

Nothing is removed before the end: an ext4 without a journal looks at every file that was removed in
the last minutes before it makes a new one, and both would be measured with that.
"""

import contextlib
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.mesh_fleet import Agent, at_once, fleet, form
from benchmarks.peers.work import TRUE
from distributed_grid.client.cluster import connect
from distributed_grid.wire.api import JobView

TARGETS = 3
CONFIG = "pretend: {cpus: 2}\n"
PORT = 2222  # In a network of its own.
SSH = ("ssh", "-p", str(PORT), "-o", "StrictHostKeyChecking=no", "-o", "LogLevel=ERROR")
LOOK_S = 0.02
PATIENCE_S = 20.0


class NoPeer(Exception):
    """rsync or sshd is not here."""


def ours(agents: list[Agent], tree: Path) -> dict[str, float]:
    """Seconds until a job begins with these files on every target, twice."""
    took = {}
    with connect(agents[0].home / "agent.sock") as cluster:
        for turn in ("first_s", "second_s"):
            used_s = sum(agent.cpu_s() for agent in agents)
            began_ms = time.time_ns() / 1e6
            jobs = [
                cluster.submit([TRUE], node=agent.name, cwd=tree, ship=[str(tree)])
                for agent in agents[1:]
            ]
            views = [job.wait() for job in jobs]
            assert all(view.state == "succeeded" for view in views), views
            took[turn] = max(_started_ms(view) - began_ms for view in views) / 1e3
            took[turn.replace("_s", "_cpu_s")] = sum(agent.cpu_s() for agent in agents) - used_s
    return took


def _started_ms(view: JobView) -> int:
    last = view.attempts[-1].started_ms
    assert last is not None, view
    return last


def theirs(place: Path, tree: Path, key: Path) -> dict[str, float]:
    """The same by rsync, into directories that are not there yet."""
    took = {}
    into = tempfile.mkdtemp(dir=place)
    shell = " ".join((*SSH, "-i", str(key), "-o", f"UserKnownHostsFile={place}/known"))
    for turn in ("first_s", "second_s"):
        began = time.perf_counter()
        running = [
            subprocess.Popen(
                ["rsync", "-a", "-e", shell, f"{tree}/", f"127.0.0.1:{into}/{number}/"]
            )
            for number in range(TARGETS)
        ]
        codes = [one.wait() for one in running]
        took[turn] = time.perf_counter() - began
        assert not any(codes), codes
    return took


@contextlib.contextmanager
def ssh_server() -> Iterator[tuple[Path, Path]]:
    """A server for this network, and the key that it knows. Raises NoPeer."""
    server = shutil.which("sshd", path="/usr/sbin:/sbin:/usr/bin")
    if server is None or not shutil.which("rsync") or not shutil.which("ssh"):
        raise NoPeer("rsync, ssh or sshd is not here: apt-get install rsync openssh-server")
    with tempfile.TemporaryDirectory(prefix="grid-rsync-") as folder:
        place = Path(folder)
        for name in ("host", "key"):
            argv = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(place / name)]
            subprocess.run(argv, check=True)
        Path("/run/sshd").mkdir(exist_ok=True)
        (place / "config").write_text(
            f"ListenAddress 127.0.0.1:{PORT}\nHostKey {place}/host\nPidFile none\n"
            f"AuthorizedKeysFile {place}/key.pub\nStrictModes no\nUsePAM no\n"
            "PasswordAuthentication no\nPermitRootLogin yes\nMaxStartups 20\n"
        )
        log = place / "log"
        process = subprocess.Popen([server, "-D", "-f", str(place / "config"), "-E", str(log)])
        try:
            _answers(place)
            yield place, place / "key"
        finally:
            process.terminate()
            process.wait()


def _answers(place: Path) -> None:
    argv = [*SSH, "-i", str(place / "key"), "-o", f"UserKnownHostsFile={place}/known"]
    until = time.monotonic() + PATIENCE_S
    while subprocess.run([*argv, "127.0.0.1", "true"], check=False, capture_output=True).returncode:
        if time.monotonic() > until:
            raise NoPeer(f"sshd does not answer: {(place / 'log').read_text()[-300:]}")
        time.sleep(LOOK_S)


def versus(trees: list[Path], *, megabytes: int) -> dict[str, object]:
    """One round for each tree, ours and theirs in turn; medians."""
    found: dict[str, list[dict[str, float]]] = {"grid": [], "rsync": []}
    missing, used_s = "", 0.0
    with contextlib.ExitStack() as stack:
        peer = None
        agents = stack.enter_context(fleet(1 + TARGETS, config=CONFIG))
        at_once(agents, Agent.up)
        form(agents)
        try:
            peer = stack.enter_context(ssh_server())
        except NoPeer as error:
            missing = str(error)
            sys.stderr.write(f"no rsync beside it: {missing}\n")
        for tree in trees:
            os.sync()
            found["grid"].append(ours(agents, tree))
            if peer is not None:
                os.sync()
                before_s = _children_s()
                found["rsync"].append(theirs(peer[0], tree, peer[1]))
                used_s += _children_s() - before_s
    told = _summary(found, megabytes=megabytes, missing=missing)
    if used_s:
        told["rsync_cpu_s"] = round(used_s / len(trees), 2)
    return told


def _children_s() -> float:
    """Of the clients; what the servers use beside them is about as much, and is not counted."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _summary(
    found: dict[str, list[dict[str, float]]], *, megabytes: int, missing: str
) -> dict[str, object]:
    told: dict[str, object] = {"targets": TARGETS}
    medians = {
        who: {turn: statistics.median(one[turn] for one in rounds) for turn in rounds[0]}
        for who, rounds in found.items()
        if rounds
    }
    for who, times in medians.items():
        told[who] = {turn: round(seconds, 3) for turn, seconds in times.items()} | {
            "first_mb_s": round(TARGETS * megabytes / times["first_s"])
        }
    grid = medians["grid"]
    told["second_times_faster"] = round(grid["first_s"] / grid["second_s"], 1)
    if "rsync" in medians:
        told["of_rsync"] = round(medians["rsync"]["first_s"] / grid["first_s"], 2)
    else:
        told["no_rsync"] = missing
    return told
