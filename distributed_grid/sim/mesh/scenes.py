"""Scenes: a few lines of script each, for what dice would bring about once in a thousand seeds.

Lives here: who does what when on a calm mesh of five, and what must come of it. Never here: faults
by chance (`faults`), the acts that end a seed (`acts`).
Invariant: a scene goes the same way every time, and every checker watches it.
"""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from typing import Final

from distributed_grid.kernel.mesh.events import MeshReady
from distributed_grid.kernel.mesh.trust import ends_ms
from distributed_grid.model.membership import DAY_MS, GRACE_MS, RENEW_MS
from distributed_grid.sim.mesh.checker import Violation
from distributed_grid.sim.mesh.checkers import all_checkers
from distributed_grid.sim.mesh.host import Host
from distributed_grid.sim.mesh.moods import Mood
from distributed_grid.sim.mesh.timeline import SECOND_US
from distributed_grid.sim.mesh.world import World

_SOON_US: Final = 10 * SECOND_US
_LONG_US: Final = 90 * SECOND_US  # A full comparison, and some room.


def played(name: str) -> tuple[str, list[str]]:
    """What went wrong in a scene, empty if nothing did; and its story."""
    world = World(Mood(seed=1, nodes=5, pace="lan", span_us=0), all_checkers())
    try:
        world.form()
        world.tell(f"scene: {name}")
        SCENES[name](world)
        for checker in world.checkers:
            checker.ended(world)
    except Exception as error:  # noqa: BLE001  (whatever the kernel raises is a finding)
        return f"{type(error).__name__}: {error}", world.trace
    return "", world.trace


def _old_words(world: World) -> None:
    """A machine gets its old disk back, and meets one that has slept through what it said since.

    The others, which the machine cannot reach, tell of that: late words of a start that is over, so
    it has to outbid them; and it is no clone, though its former start seems to be back.
    """
    founder, machine, sleepy, *others = world.hosts
    awake = [founder, *others]
    machine.disk.keep_copy()
    old = machine.kernel.hello(machine.now()).generation
    apart = _apart(world, [sleepy], [machine, *awake])
    for count in range(1, 6):  # Each name comes with a certificate, and that with a generation.
        _rename(machine, f"{machine}-{count}")
        _until(world, partial(_has_seen, founder, machine, old + count), "no other name")
    machine.crash()
    machine.disk.restore_copy()
    lonely = _apart(world, [machine], awake)
    world.network.unblock(_ways([sleepy], [machine]))
    machine.start()
    _until(world, lambda: _load(sleepy, machine) == machine.load, "the two do not meet")
    if _generation(sleepy, machine) >= _generation(founder, machine):
        raise Violation("the scene is badly written: nobody knows more than the sleepy one")
    world.network.unblock([way for way in apart if machine.address not in way])
    world.await_agreement(_LONG_US, f"{machine} is not believed")
    world.network.unblock(lonely)
    world.await_agreement(_LONG_US, "no agreement in the end")


def _back_after_a_week(world: World) -> None:
    """A machine leaves, and is forgotten; then it comes back with nothing but its key.

    Nobody holds anything of it that could come back as an echo. But what it says must not look as
    old as what was said before it left.
    """
    machine = world.hosts[2]
    for count in (1, 2):
        _rename(machine, f"{machine}-{count}")
        world.pass_time(SECOND_US)
    machine.is_gone = True
    machine.joining.give_up()
    machine.carry_out(machine.kernel.membership.leave(machine.now()))
    world.pass_time(SECOND_US)
    machine.carry_out(machine.kernel.membership.gone(machine.now()))
    machine.crash()
    machine.disk.erase()
    for host in world.hosts:
        host.clock.sleep(GRACE_MS + DAY_MS)
    rest = world.insiders()
    _until(world, lambda: not any(_counts(host, machine) for host in rest), "it is not forgotten")
    machine.is_gone = False
    world.people.come(machine)
    world.await_agreement(_LONG_US, f"{machine} does not come back")


def _deaf_for_a_moment(world: World) -> None:
    """One hears nobody for longer than the limit: it doubts its ears first, not all the others."""
    deaf, before = world.hosts[1], len(world.deaths)
    rest = [host for host in world.hosts if host is not deaf]
    ways = [(host.address, deaf.address) for host in rest]
    world.network.block(ways)
    world.pass_time(world.rules.liveness.dead_us * 3 // 2)
    world.network.unblock(ways)
    world.await_agreement(_SOON_US, "no agreement after it")
    if deaths := world.deaths_since(before):
        raise Violation(f"somebody died for a deaf one: {deaths}")


def _hearsay(world: World) -> None:
    """Who hears of a dead one's last words from others takes them for as old as they are."""
    rules = world.rules.liveness
    dead, late = world.hosts[2], world.hosts[1]
    ways = [(host.address, late.address) for host in world.hosts if host is not late]
    world.network.block(ways)
    world.pass_time(rules.period_us * 3 // 2)
    dead.crash()
    crashed_us = world.timeline.now_us
    world.pass_time(rules.suspect_us - 2 * rules.period_us)
    world.network.unblock(ways)
    limit_us = rules.dead_us + 3 * rules.period_us + 2 * world.tick_us
    world.pass_time(crashed_us + limit_us - world.timeline.now_us)
    health = late.kernel.liveness.health(dead.id).health
    if health != "dead":
        raise Violation(f"{late} sees {dead} as {health} {limit_us // 1_000} ms after")
    dead.start()
    world.await_agreement(_SOON_US, f"{dead} does not come back")


def _nap(world: World) -> None:
    """Shorter than a connection lasts, longer than silence is suspicious: nobody is suspected."""
    sleeper, before = world.hosts[1], len(world.suspicions)
    sleeper.pause()
    world.pass_time(world.rules.liveness.suspect_us * 2)
    sleeper.wake(is_clock_first=True)
    world.pass_time(world.rules.liveness.suspect_us)
    if seen := [pair for pair in world.suspicions[before:] if pair[0] is sleeper]:
        raise Violation(f"{sleeper} naps, and suspects others: {seen}")
    world.await_agreement(_SOON_US, f"{sleeper} naps on")


def _kick_and_crash(world: World) -> None:
    """An admin throws somebody out, and crashes before anybody has heard: it stays thrown out."""
    founder, victim, *others = world.hosts
    ways = _apart(world, [founder], [victim, *others])
    ready = founder.kernel.membership.kick(victim.id, founder.now())
    founder.carry_out(ready, lambda: world.kicked.add(victim.id))
    founder.crash()
    founder.start()
    world.network.unblock(ways)
    world.await_agreement(_LONG_US, f"{victim} is still in")


def _answers_lost(world: World) -> None:
    """A newcomer with a ticket for one is let in, and asks again, because it never hears of it."""
    machine = world.hosts[2]
    machine.crash()
    machine.disk.erase()
    world.network.answers_lost = 2
    machine.start()
    world.people.invite(machine, uses=1)
    world.await_agreement(_LONG_US, f"{machine} does not get in")


def _founder_gone(world: World) -> None:
    """The founder's machine is lost, and another admin has a copy of its key: 400 days pass.

    Everybody has certificates that last, and nobody but the founder drops out.
    """
    founder, heir, *_ = world.hosts
    heir.kernel.membership.hold_authority(world.authority)
    _until(world, lambda: _hangs_on_nobody(heir), f"{heir} still hangs on {founder}")
    founder.is_gone = True
    founder.crash()
    before = len(world.deaths)
    for _ in range(400 // 20):
        for host in world.hosts:
            host.clock.sleep(20 * DAY_MS)
        end_us = world.timeline.now_us + _LONG_US
        while late := next((host for host in world.insiders() if _ends_soon(host)), None):
            if world.timeline.now_us > end_us:
                raise Violation(f"the certificate of {late} was not renewed")
            world.pass_time(SECOND_US)
        world.await_agreement(_LONG_US, "no agreement without the founder")
    if deaths := [pair for pair in world.deaths_since(before) if pair[1] is not founder]:
        raise Violation(f"somebody died for no reason: {deaths}")


# What scripts are written in


def _ways(left: Sequence[Host], right: Sequence[Host]) -> list[tuple[str, str]]:
    """Between these and those, in both directions."""
    there = [(one.address, other.address) for one, other in product(left, right)]
    return there + [(target, source) for source, target in there]


def _apart(world: World, left: Sequence[Host], right: Sequence[Host]) -> list[tuple[str, str]]:
    ways = _ways(left, right)
    world.network.block(ways)
    return ways


def _until(world: World, is_so: Callable[[], bool], complaint: str) -> None:
    end_us = world.timeline.now_us + _SOON_US
    while not is_so():
        if world.timeline.now_us >= end_us:
            raise Violation(complaint)
        world.pass_time(world.tick_us)


def _rename(host: Host, name: str) -> None:
    ready = MeshReady()
    host.kernel.membership.rename(name, host.now(), ready)
    host.carry_out(ready)


def _generation(host: Host, of: Host) -> int:
    replica = host.kernel.replica
    return replica.generation_of(of.id) if replica else 0


def _has_seen(host: Host, of: Host, generation: int) -> bool:
    return _generation(host, of) >= generation


def _load(host: Host, of: Host) -> int | None:
    load = host.kernel.said.load(of.id)
    return load.cpu_milli_free if load else None


def _hangs_on_nobody(host: Host) -> bool:
    return host.kernel.membership.chain[0].issuer == host.world.mesh_id


def _ends_soon(host: Host) -> bool:
    return ends_ms(host.kernel.membership.chain) - host.now().wall_ms <= RENEW_MS


def _counts(host: Host, other: Host) -> bool:
    roster = host.kernel.roster
    return roster is not None and roster.is_member(other.id)


SCENES: Final[dict[str, Callable[[World], None]]] = {
    "old words": _old_words,
    "back after a week": _back_after_a_week,
    "deaf for a moment": _deaf_for_a_moment,
    "hearsay": _hearsay,
    "nap": _nap,
    "answers lost": _answers_lost,
    "kick and crash": _kick_and_crash,
    "founder gone": _founder_gone,
}
