"""What must hold after a round: of every job, and of what is left on every machine.

Lives here: the checks, each from what was promised and what is found to sentences about what is
wrong. Never here: making it wrong (`faults`), asking for jobs (`people`).
Invariant: what is checked is counted here, from files and sockets, never taken from the kernel.
"""

import json
import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tests.agent_lab import AgentLab
from tests.mesh_jobs import unfinished as unfinished_rows
from tests.mesh_lab import Member
from tests.nemesis.faults import processes_of
from tests.nemesis.people import Promise

ENDED = frozenset({"succeeded", "failed", "cancelled", "lost", "skipped"})
RESUMED_S = 1.0  # After a machine stood still: until what may not go on there is ended.
TICK_S = 0.02  # The clock that processes read has hundredths.
PRODUCT = ("distributed_grid", "grid-sentinel")  # In the words of its own processes.
Views = dict[str, dict[str, dict[str, Any]]]  # By node: its jobs by id.


class Step(NamedTuple):
    """A line of a process."""

    what: str
    pid: int
    node: str
    at_s: float


def views_of(members: Iterable[Member]) -> Views:
    """Every job as every node shows it."""
    views: Views = {}
    for member in members:
        _, body = member.http_or_none("/v1/jobs?limit=10000") or (0, b"{}")
        views[member.name] = {one["id"]: one for one in json.loads(body).get("jobs", [])}
    return views


def unfinished(promises: Iterable[Promise], views: Views) -> list[Promise]:
    """Those that some node shows and that have not ended there; or that it does not show yet."""
    found = []
    for promise in promises:
        seen = [view.get(promise.id) for view in views.values()]
        is_known = promise.is_kept or any(seen)
        if is_known and not all(one and one["state"] in ENDED for one in seen):
            found.append(promise)
    return found


def wrong_jobs(promises: Iterable[Promise], views: Views) -> Iterator[tuple[Promise, str]]:
    """Jobs that did not end, or not everywhere alike, or not as they had to."""
    for promise in promises:
        seen = {name: view.get(promise.id) for name, view in views.items()}
        if not promise.is_kept and not any(seen.values()):
            continue  # It never came to be; nobody said that it had.
        told = {
            name: (one["state"], one.get("exit_code")) if one else ("unknown", None)
            for name, one in seen.items()
        }
        if any(state not in ENDED for state, _ in told.values()):
            yield promise, f"STUCK: {told}"
        elif len(set(told.values())) > 1:
            yield promise, f"DISAGREED: {told}"
        else:
            [(state, code)] = set(told.values())
            if state == "cancelled" and not promise.is_kept:
                continue  # Refused after it was known elsewhere: it is taken back.
            if state != promise.state or (promise.code is not None and code != promise.code):
                wanted = (promise.state, promise.code)
                yield promise, f"RESULT: {(state, code)}, not {wanted}"


def steps_of(file: Path) -> dict[int, list[Step]]:
    """What each process of a job wrote down."""
    found: dict[int, list[Step]] = {}
    for line in file.read_text().splitlines() if file.exists() else ():
        what, pid, node, at_s = line.split()
        found.setdefault(int(pid), []).append(Step(what, int(pid), node, float(at_s)))
    return found


def overlaps(
    promises: Iterable[Promise], runs: Path, paused: Iterable[tuple[str, float, float]]
) -> Iterator[tuple[Promise, str]]:
    """Two processes of an at-most-once job that both did something within one span of time.

    What a process does in the moment after its machine stood still does not count: it could not be
    ended before.
    """
    paused = list(paused)
    for promise in promises:
        if promise.kind != "once":
            continue
        processes = steps_of(runs / promise.tag)
        for pid, steps in processes.items():
            begin, end = steps[0].at_s, steps[-1].at_s
            for other, theirs in processes.items():
                inside = [
                    step for step in theirs
                    if other != pid and begin + TICK_S < step.at_s < end - TICK_S
                    and not _is_resumed(step, paused)
                ]  # fmt: skip
                # Of one that stood still meanwhile the span is not one.
                if inside and not _stood_still(steps, inside, paused):
                    yield promise, f"OVERLAP: {pid} on {steps[0].node} and {inside[0]}"
                    break


def _is_resumed(step: Step, paused: list[tuple[str, float, float]]) -> bool:
    return any(
        node == step.node and until - TICK_S <= step.at_s <= until + RESUMED_S
        for node, _, until in paused
    )


def _stood_still(
    steps: list[Step], inside: list[Step], paused: list[tuple[str, float, float]]
) -> bool:
    """Whether all that the other did fell into a time in which this one's machine stood still.

    Or after it, once this one had done no more than what its end took.
    """
    for node, since, until in paused:
        if node != steps[0].node:
            continue
        before = [step for step in steps if step.at_s <= since]
        later = [step for step in steps if step.at_s > until + RESUMED_S]
        last = max((step.at_s for step in before), default=since)
        if not later and all(step.at_s > last for step in inside):
            return True
    return False


def moved(promises: Iterable[Promise], runs: Path) -> int:
    """At-most-once jobs of which more than one process ran: what the check of overlaps rests on."""
    return sum(
        len(steps_of(runs / promise.tag)) > 1 for promise in promises if promise.kind == "once"
    )


def leftovers(members: Iterable[Member]) -> Iterator[str]:
    """What a machine still has that it should have let go of."""
    for member in members:
        for pid in processes_of(member):
            words = _words(pid)
            if words and not any(of in word for word in words for of in PRODUCT):
                yield f"PROCESS: {member.name} has {pid}: {' '.join(words)[:120]}"
        for folder in ("scratch", "work"):
            files = [str(path) for path in (member.home / folder).glob("*")]
            if files:
                yield f"FILES: {member.name} has {files[:5]}"
        with sqlite3.connect(f"file:{member.home}/grid.db?mode=ro", uri=True, timeout=10) as base:
            [[held]] = base.execute("SELECT count(*) FROM leases").fetchall()
        base.close()
        status = json.loads(AgentLab.http(member, "GET", "/v1/status")[1])
        free, whole = status["cpu_milli_free"], status["cpu_milli_total"]
        if held or free != whole:
            yield (
                f"LEASES: {member.name} has {held}, and {free} of {whole} thousandths are free; "
                f"on its disk is not over: {[*map(_in_short, unfinished_rows(member))]}"
            )


def _in_short(row: dict[str, Any]) -> dict[str, Any]:
    """Of a job on a disk: whose it is, and how far."""
    origin = row["spec"].get("origin") or {}
    names = ("state", "is_cancelled", "attempts", "story")
    return {"of": origin.get("job"), "home": origin.get("home"), **{n: row.get(n) for n in names}}


def _words(pid: int) -> list[str]:
    try:
        text = Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return []
    return text.rstrip("\0").split("\0") if text else []


def mistakes(members: Iterable[Member]) -> Iterator[str]:
    """What an agent did not expect."""
    for member in members:
        lines = member.log.splitlines()
        for number, line in enumerate(lines):
            if line.startswith("Traceback"):
                told = "\n    ".join(lines[number : number + 40])
                yield f"MISTAKE: {member.name}: {told}"
                break
