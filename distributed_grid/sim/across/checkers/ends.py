"""How jobs end: once for whoever watches, and as their processes did.

Lives here: the books over ends.
"""

from distributed_grid.kernel.ready import Ready
from distributed_grid.model.ids import JobId
from distributed_grid.sim.across.checker import Checker, Violation
from distributed_grid.sim.across.machine import Machine
from distributed_grid.sim.across.settling import first_state
from distributed_grid.sim.across.world import World


class OneEnd(Checker):
    """Whoever watches a job on a machine sees one end; only `result_changed` may follow it."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, JobId], str] = {}

    def disk_lost(self, world: World, machine: Machine) -> None:
        """Who lost what was known learns it anew."""
        self._seen = {key: state for key, state in self._seen.items() if key[0] != machine.name}

    def carried_out(self, world: World, machine: Machine, ready: Ready) -> None:
        """Look at what is published."""
        for one in ready.happened:
            if one.job is None or one.job not in world.wishes:
                continue
            key, name = (machine.name, one.job), world.name_of(one.job)
            if one.name == "job.ended":
                if key in self._seen:
                    raise Violation(f"{machine} tells twice that {name} ended: {self._seen[key]}")
                self._seen[key] = one.fields["state"]
            elif one.name == "job.result_changed":
                if self._seen.get(key) == "succeeded":
                    raise Violation(f"{machine} takes back that {name} succeeded")
                self._seen[key] = one.fields["state"]

    def ended(self, world: World) -> None:
        """What was told last is what is so."""
        for (machine, job), state in self._seen.items():
            final = first_state(world, job)
            if job in world.forgotten:
                continue
            if final and state != final:
                name = world.name_of(job)
                raise Violation(f"{machine} told that {name} ended {state}, and it ended {final}")


class EndsAreTrue(Checker):
    """A job succeeded if its processes did, and is cancelled or skipped only for a reason."""

    def ended(self, world: World) -> None:
        """Compare with what really happened."""
        for job, wish in world.wishes.items():
            spec, state = wish.spec, first_state(world, job)
            indices = spec.array.indices if spec.array else (-1,)
            if state == "succeeded":
                bad = [index for index in indices if 0 not in world.codes.get((job, index), ())]
                if bad:
                    raise Violation(f"{spec.name} succeeded, and its processes never did: {bad}")
                good = world.codes[job, indices[0]].count(0)
                if good < spec.gang:
                    raise Violation(f"{spec.name} succeeded, and {good} of its ranks did")
            if state == "lost":
                raise Violation(f"{spec.name} is given up")
            if state == "cancelled" and not wish.is_cancel_wanted:
                raise Violation(f"{spec.name} is cancelled, and nobody wanted that")
            if state == "skipped" and not spec.after:
                raise Violation(f"{spec.name} is skipped, and comes after nothing")
            if state == "failed" and not wish.arrival.life.fails_first:
                raise Violation(f"{spec.name} failed, and its processes never did")
