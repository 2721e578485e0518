"""An attempt that was given up comes back with its end: that counts before its outputs are here."""

import msgspec

from distributed_grid.kernel.node import Told
from distributed_grid.model.job import Where
from distributed_grid.wire.across import Report
from distributed_grid.wire.keeper import Ended, Usage
from tests.node_world import a_job
from tests.unit.agent.luggage_lab import Lab

END = Ended(number=0, attempt="x", usage=Usage(), outputs="0" * 64, how="exited", code=0,
            started_ms=1, ended_ms=2)  # fmt: skip


async def test_no_other_begins_while_the_outputs_of_one_that_has_ended_come(tmp_path):
    lab = Lab(tmp_path)
    room, home, host = lab.room, lab.home, lab.host
    home.submit(spec := lab.a_spec(tmp_path, outputs=("**",), require=Where(nodes=(host.name,))))
    room.settle()
    (first,) = home.job(spec).live_attempts
    report = Report(job=spec.id, lease=first.lease, first=0, ends=(END,))
    assert lab.bringing.back(report) is None, "it is known to run"
    room.dead |= {(home.me, host.me), (host.me, home.me)}
    room.look()
    assert (first.state, home.job(spec).state) == ("lost", "waiting")

    begun = lab.bringing.back(report)
    assert begun is not None
    room.dead.clear()
    room.cut |= {(home.me, host.me), (host.me, home.me)}
    room.look()
    home.step(Told(now_ms=home.now_ms, peer=host.me, message=begun))
    assert (first.state, home.job(spec).live_attempts) == ("running", [first])

    other = msgspec.structs.replace(report, job=a_job("other").id)
    assert lab.bringing.back(other) is None
    await lab.link.close()
