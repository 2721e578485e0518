"""The steps that bring a machine in, each told as it is taken.

Lives here: install, start, join, wait. Never here: how they are done over there (`remote`).
Invariant: a step that has been taken already changes nothing.
"""

import re
import time
from collections.abc import Callable
from typing import Any, Final

import msgspec

from distributed_grid.bootstrap import NotBrought
from distributed_grid.bootstrap.connection import (
    ANSWER_S,
    Connection,
    NoPython,
    Target,
    send_python,
)
from distributed_grid.bootstrap.packing import Supply
from distributed_grid.client import mesh_calls
from distributed_grid.client.blocking import Caller

SEEN_S: Final = 60.0  # Two that reach each other see each other within two seconds.
LOOK_S: Final = 0.3
TICKET_TTL: Final = "10m"


class Brought(msgspec.Struct, frozen=True, kw_only=True):
    """What became of it."""

    host: str
    node: str
    name: str
    mesh: str
    was_installed: bool  # Before.
    was_member: bool


def bring(
    target: Target,
    agent: Caller,
    supply: Supply,
    *,
    say: Callable[[str], None],
    answer_s: float = ANSWER_S,
) -> Brought:
    """Install Grid there if need be, start it, let it join the mesh of this agent."""
    own = agent.run(mesh_calls.nodes())
    say("connects by ssh")
    there, machine = _connected(target, supply, say, answer_s)
    with there:
        found, wanted = there.ask("look", wanted=supply.fingerprint), supply.fingerprint
        is_there = found["is_installed"]
        if is_there:
            say("Grid is installed")
        elif is_newer(str(found.get("installed", "")), wanted):
            is_there, wanted = True, str(found["installed"])
            say(f"Grid {wanted} is installed, which is newer than this one, and stays")
        else:
            _install(there, machine, supply, target.host, say)
        seen = there.ask("start", wanted=wanted, name=target.name)
        say(f"the agent {seen['was']}")
        was_member = bool(own.mesh) and seen["mesh"] == own.mesh
        if was_member:
            say("is in the mesh")
        elif seen["mesh"]:
            raise NotBrought(
                target.host,
                why=f"it is in another mesh, {str(seen['mesh'])[:12]}",
                remedy=f"Let it leave that one first: ssh {target.host} .local/bin/grid leave",
            )
        else:
            seen = _join(there, agent, say)
        if target.name not in ("", seen["name"]):
            seen = there.ask("rename", name=target.name)
        _await_each_other(there, agent, str(seen["id"]), target.host)
    return Brought(
        host=target.host,
        node=str(seen["id"]),
        name=str(seen["name"]),
        mesh=str(seen["mesh"]),
        was_installed=bool(is_there),
        was_member=was_member,
    )


def is_newer(one: str, other: str) -> bool:
    """Whether an installation is of a later version than another."""
    first, second = ([int(part) for part in re.findall(r"\d+", name.partition("-")[0])]
                     for name in (one, other))  # fmt: skip
    return first > second


def _connected(
    target: Target, supply: Supply, say: Callable[[str], None], answer_s: float
) -> tuple[Connection, dict[str, Any]]:
    """The way there and what there is; to a machine without Python ours is sent first."""
    there = Connection(target, say=say, answer_s=answer_s)
    try:
        return there, there.begin()
    except NoPython as lacking:
        if lacking.kind != f"{supply.system} {supply.machine}":
            raise
        sent = supply.own_python()
        say(f"has no Python 3.11: sends this one, {sent.stat().st_size / 1e6:.1f} MB")
        send_python(target, sent, kind=lacking.kind)
    there = Connection(target, say=say, answer_s=answer_s)
    return there, there.begin()


def _install(
    there: Connection,
    machine: dict[str, Any],
    supply: Supply,
    host: str,
    say: Callable[[str], None],
) -> None:
    misfit = supply.misfit(machine)
    if machine["system"] != "Linux":
        raise NotBrought(host, why=f"it runs {machine['system']}", remedy="Take a Linux machine")
    sent = supply.wheel() if misfit else supply.bundle()
    if misfit:
        say(f"{misfit}: what Grid needs comes from the package index there")
    say(f"sends Grid, {sent.stat().st_size / 1e6:.1f} MB")
    place = there.ask(
        "install", wanted=supply.fingerprint, from_index=bool(misfit), sent=sent, wheel=sent.name
    )
    say(f"Grid is installed in {place['place']}")


def _join(there: Connection, agent: Caller, say: Callable[[str], None]) -> dict[str, Any]:
    made = agent.run(mesh_calls.ticket(ttl=TICKET_TTL))
    if made.recovery_file:
        say(f"founded a mesh; keep a copy of {made.recovery_file} elsewhere")
    try:
        seen = there.ask("join", ticket=made.text)
    except NotBrought:
        agent.run(mesh_calls.revoke_ticket(made.id))
        raise
    say("joined the mesh")
    return seen


def _await_each_other(there: Connection, agent: Caller, node: str, host: str) -> None:
    deadline = time.monotonic() + SEEN_S
    while True:
        here = agent.run(mesh_calls.nodes()).nodes
        own = next(each.id for each in here if each.is_self)
        is_seen = any(each.id == node and each.health == "alive" for each in here)
        if is_seen and own in there.ask("nodes")["alive"]:
            return
        if time.monotonic() > deadline:
            blind = "it does not see this machine" if is_seen else "this machine does not see it"
            raise NotBrought(
                host,
                why=f"it joined, but {blind} after {SEEN_S:.0f} s",
                remedy="Let UDP through between them; see grid doctor on both",
            )
        time.sleep(LOOK_S)
