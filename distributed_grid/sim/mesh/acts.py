"""The last act of a run: one fault on a calm mesh, with exact limits.

Lives here: what is done, what everybody must notice, and by when. Never here: faults of all kinds
at once (`faults`).
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from distributed_grid.kernel.mesh.trust import ends_ms
from distributed_grid.model.membership import CERTIFICATE_MS, DAY_MS, RENEW_MS
from distributed_grid.sim.mesh.checker import Violation
from distributed_grid.sim.mesh.host import Host
from distributed_grid.sim.mesh.moods import PAUSE_US, Act
from distributed_grid.sim.mesh.timeline import SECOND_US

if TYPE_CHECKING:
    from distributed_grid.sim.mesh.world import World

SUSPICIONS_MAX: Final = 2  # When one does not hear one other.
CLONE_US: Final = 30 * SECOND_US
_SMALL: Final = 5
YEARS_MS: Final = CERTIFICATE_MS - RENEW_MS + DAY_MS  # Not years, but as good as.
RENEWED_US: Final = 200 * SECOND_US  # Who is told to ask later asks again after a minute.


def perform(world: "World") -> None:
    """The act of this mood, on a machine that is not the first."""
    inside = world.insiders()
    if world.mood.act == "none" or len(inside) < 3:
        return
    host = world.rng.choice(inside[1:])
    world.tell(f"act: {world.mood.act} {host}")
    _ACTS[world.mood.act](world, host)


def _kill(world: "World", host: Host) -> None:
    """Dead for good: everyone notices in time. It comes back: everyone notices that too."""
    before, suspected = len(world.deaths), len(world.suspicions)
    host.crash()
    limit_us = _noticed_us(world)
    world.pass_time(limit_us)
    for other in world.insiders():
        if other is not host:
            health = other.kernel.liveness.health(host.id).health
            if health != "dead":
                raise Violation(f"{other} sees {host} as {health} {limit_us // 1_000} ms after")
    deaths = world.deaths_since(before)
    if any(dead is not host for _, dead in deaths):
        raise Violation(f"somebody else died too: {deaths}")
    if any(suspect is not host for _, suspect in world.suspicions_since(suspected)):
        raise Violation(f"others are suspected too: {world.suspicions_since(suspected)}")
    host.start()
    world.await_agreement(_back_us(world), f"{host} does not come back")


def _restart(world: "World", host: Host) -> None:
    """An agent that its keeper brings back at once is not dead."""
    before = len(world.deaths)
    host.crash()
    world.pass_time(world.rules.liveness.dead_us // 3)
    host.start()
    world.await_agreement(_back_us(world), f"{host} does not come back")
    _nobody_died(world, before)


def _pause(world: "World", host: Host) -> None:
    """Asleep for long: dead once for each of the others, who never die for the sleeper.

    For a minute in small meshes; in larger ones, which cost more, for three times the limit.
    """
    before, dead_us = len(world.deaths), world.rules.liveness.dead_us
    host.pause()
    world.pass_time(PAUSE_US if world.mood.nodes <= _SMALL else min(PAUSE_US, 3 * dead_us))
    host.wake()
    world.await_agreement(_back_us(world) + world.mood.backoff_most_us, f"{host} sleeps on")
    world.pass_time(2 * dead_us)
    deaths = world.deaths_since(before)
    for other in world.insiders():
        seen = [dead for observer, dead in deaths if observer is other]
        expected = [] if other is host else [host]
        if seen != expected:
            raise Violation(f"{other} saw {seen} die, not {expected}")
    if world.disagreement():
        raise Violation(f"after the sleep: {world.disagreement()}")


def _asymmetric(world: "World", host: Host) -> None:
    """Somebody no longer hears it, but all others do: nobody dies, and nobody flaps.

    Not even between alive and suspect: a doubt or two of the pair itself is all.
    """
    before, suspected = len(world.deaths), len(world.suspicions)
    deaf = world.rng.choice([other for other in world.insiders() if other is not host])
    world.tell(f"{deaf} no longer hears {host}")
    world.network.block([(host.address, deaf.address)])
    world.pass_time(6 * world.rules.liveness.dead_us)
    _nobody_died(world, before)
    world.network.heal()
    world.await_agreement(_back_us(world) + world.mood.backoff_most_us, "no agreement after it")
    _nobody_died(world, before)
    suspicions = world.suspicions_since(suspected)
    if len(suspicions) > SUSPICIONS_MAX or set(suspicions) - {(deaf, host), (host, deaf)}:
        raise Violation(f"they flap: {suspicions}")


def _clone(world: "World", host: Host) -> None:
    """Its disk and its key come up on another machine too: both ends are told."""
    clone = Host(world, f"{host}'", host.key, machine=f"another than {host}'s")
    clone.disk.kept = dict(host.disk.kept)
    world.network.doubles[clone.address] = clone
    clone.start()
    end_us = world.timeline.now_us + CLONE_US
    while missing := _untold(world, host, clone):
        if world.timeline.now_us > end_us:
            raise Violation(f"a clone of {host} goes on: {missing}")
        world.pass_time(SECOND_US)
    clone.is_gone = True
    clone.crash()
    del world.network.doubles[clone.address]


def _years(world: "World", host: Host) -> None:
    """Two months pass: whoever is there gets a certificate that lasts, and nobody drops out."""
    before = len(world.deaths)
    for each in (*world.hosts, host):
        each.clock.wall_off_ms = YEARS_MS
    end_us = world.timeline.now_us + RENEWED_US
    while late := _ending(world):
        if world.timeline.now_us > end_us:
            raise Violation(f"the certificate of {late} was not renewed")
        world.pass_time(SECOND_US)
    world.await_agreement(_back_us(world), "no agreement after two months")
    _nobody_died(world, before)


def _ending(world: "World") -> Host | None:
    for host in world.insiders():
        chain = host.kernel.membership.chain
        if ends_ms(chain) - host.now().wall_ms <= RENEW_MS:
            return host
    return None


def _untold(world: "World", host: Host, clone: Host) -> str:
    others = [other for other in world.insiders() if other is not host]
    if not any(host.id in other.kernel.quarantined for other in others):
        return "nobody has noticed"
    for end in (host, clone):
        if host.id not in end.kernel.quarantined:
            return f"{end} was not told"
    return ""


def _nobody_died(world: "World", since: int) -> None:
    if deaths := world.deaths_since(since):
        raise Violation(f"somebody died for no reason: {deaths}")


def _noticed_us(world: "World") -> int:
    """How long a death may take to be noticed on a calm network."""
    rules = world.rules.liveness
    return rules.dead_us + 3 * rules.period_us + 2 * world.tick_us


def _back_us(world: "World") -> int:
    """How long a machine may take to be seen again."""
    return 10 * SECOND_US + 10 * world.rules.gossip_us + 2 * world.mood.backoff_most_us


_ACTS: Final[dict[Act, Callable[["World", Host], None]]] = {
    "kill": _kill,
    "restart": _restart,
    "pause": _pause,
    "asymmetric": _asymmetric,
    "clone": _clone,
    "years": _years,
}
