"""What agents of the previous version say is understood; the bytes are what they really said.

`tests/golden/wire_1.json` was written by the last version that knew no jobs across machines.
"""

import json
from pathlib import Path

import msgspec
import pytest

from distributed_grid.wire import mesh
from distributed_grid.wire.mesh_records import NodeLoad, NodeProfile, Offered

GOLDEN = json.loads((Path(__file__).parents[1] / "golden/wire_1.json").read_text())


def bytes_of(name: str) -> bytes:
    return bytes.fromhex(GOLDEN[name])


def test_a_greeting_of_the_previous_version_says_nothing_of_jobs():
    hello = mesh.decode(bytes_of("hello"))

    assert (hello.mesh, hello.machine, hello.generation) == ("m" * 64, "box", 7)
    assert mesh.PREVIOUS in hello.speaks
    assert hello.jobs == 0


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("goodbye", mesh.Goodbye(reason="restarting")),
        ("remember", mesh.Remember(generation=9)),
    ],
)
def test_other_words_mean_what_they_meant(name, said):
    assert mesh.decode(bytes_of(name)) == said


def test_what_a_node_of_the_previous_version_tells_of_itself_can_be_read():
    profile = msgspec.msgpack.decode(bytes_of("profile"), type=NodeProfile)
    load = msgspec.msgpack.decode(bytes_of("load"), type=NodeLoad)
    offered = msgspec.msgpack.decode(bytes_of("offered"), type=Offered)

    assert (profile.node_class, profile.cpu_milli, profile.labels) == (
        "laptop", 4_000, {"room": "attic"},
    )  # fmt: skip
    assert [gpu.model for gpu in profile.gpus] == ["RTX4090"]
    assert profile.jobs == 0
    assert (load.cpu_milli_free, load.jobs_running, load.battery_percent) == (1_500, 2, 40)
    assert (offered.lines, offered.usage) == (("cpu 2",), ())


def test_what_is_new_is_added_at_the_end_and_may_be_left_out():
    """The previous version skips what it does not know: what it knows must still be there."""
    for name, kind in (("profile", NodeProfile), ("load", NodeLoad), ("offered", Offered)):
        before = msgspec.msgpack.decode(bytes_of(name))
        now = msgspec.msgpack.decode(
            msgspec.msgpack.encode(msgspec.msgpack.decode(bytes_of(name), type=kind))
        )
        assert before.items() <= now.items()
