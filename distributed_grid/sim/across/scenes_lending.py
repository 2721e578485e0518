"""Scenes of machines that lend nothing: they hold records and look after jobs, and run none.

Lives here: what becomes of a job whose home is dead when hardly anybody lends. Never here: other
deaths (`scenes`).
"""

from collections.abc import Callable
from typing import Final

import msgspec

from distributed_grid.kernel.node import Lend
from distributed_grid.sim.across.checker import Violation
from distributed_grid.sim.across.machine import Machine
from distributed_grid.sim.across.script import Scene
from distributed_grid.sim.mesh.timeline import SECOND_US

MINUTE_US: Final = 60 * SECOND_US


def _lend(machine: Machine, *, is_enabled: bool) -> None:
    terms = msgspec.structs.replace(machine.kernel.host.lending.terms, is_enabled=is_enabled)
    machine.step(Lend(now_ms=machine.now_ms(), terms=terms))


def _nobody_lends(scene: Scene) -> None:
    """The submitter burns down, and nobody lends: its job waits, and runs where somebody does."""
    home, *others = scene.machines
    for machine in others:
        _lend(machine, is_enabled=False)
    first = scene.submit("first", at=home, takes_s=20, cpu_milli=4_000)
    job = scene.submit("job", at=home, takes_s=5)
    mine = scene.submit("mine", at=others[0], takes_s=5)  # Whoever lends nothing runs its own.
    scene.until(lambda: scene.is_taken(first, job, mine) and bool(scene.runs_on(mine)), "taken")
    scene.lose(home)
    scene.until_ended(mine, within_us=MINUTE_US)
    scene.pass_time(MINUTE_US // 2)
    if scene.starts(job):
        raise Violation("what nobody lends was taken")
    _lend(others[2], is_enabled=True)
    scene.until(lambda: scene.runs_on(job) == [others[2]], "running", within_us=MINUTE_US)
    scene.until_ended(first, job, within_us=2 * MINUTE_US)


LENDING: Final[dict[str, Callable[[Scene], None]]] = {
    "nobody lends": _nobody_lends,
}
