"""Whatever a member says on the mesh lane, with a valid key: nothing raises, nothing takes long.

Each world has its seed: `MeshTalk(seed).run(n)` shows it again.
"""

import msgspec
import pytest

from distributed_grid.agent.peers import peers_of
from distributed_grid.wire.mesh_records import GpuProfile, NodeProfile
from tests.unit.mesh.machine_lab import Lab
from tests.words.mesh_stage import MeshTalk

MESSAGES = 1_000  # Of one world.


@pytest.mark.parametrize("seed", range(40))
def test_no_word_of_a_member_on_the_mesh_lane_breaks_anything(seed):
    talk = MeshTalk(seed)

    try:
        talk.run(MESSAGES)
    except Exception:
        print(f"seed {seed}, a {talk.role}, the last words:", *talk.last, sep="\n  ")
        raise


ABSURD = {
    "more cores than there can be": NodeProfile(
        node_class="x", version="1", jobs=1, cpu_milli=2**62
    ),
    "the same device twice": NodeProfile(
        node_class="x", version="1", jobs=1, gpus=(GpuProfile("0", "a"), GpuProfile("0", "b"))
    ),
}


@pytest.mark.parametrize("what", ABSURD)
def test_a_member_that_claims_what_cannot_be_is_a_member_without_a_record(what):
    one, two, _ = Lab().mesh_of("one", "two", "three")
    two.say(profile=msgspec.msgpack.encode(ABSURD[what]))
    one.lab.run(1)

    peers, own = peers_of(one.mesh, one.now)

    assert peers[two.id].record is None
    assert own is not None
