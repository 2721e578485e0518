"""A node as people see it from another one: what it said, what was measured, what was judged."""

import msgspec
import pytest

from distributed_grid.kernel.mesh.views import DRAINED, FULL, KEYLESS, everyone, view
from distributed_grid.wire.mesh_records import (
    GpuProfile,
    NodeLoad,
    NodeProfile,
    Offered,
    Position,
    Verdicts,
)
from tests.unit.mesh.machine_lab import WALL_MS, Lab

ENCODE = msgspec.msgpack.encode
PROFILE = NodeProfile(
    node_class="datacenter",
    version="0.3",
    cpu_milli=64_000,
    memory_bytes=1 << 38,
    storage_bytes=1 << 40,
    gpus=(GpuProfile("GPU-1", "H100", 80 << 30), GpuProfile("GPU-2", "A100")),
    labels={"rack": "4"},
    mega_flops=2_500_000,
)
LOAD = NodeLoad(
    cpu_milli_free=1,
    memory_bytes_free=2,
    storage_bytes_free=3,
    gpus_free_milli=4,
    load_milli=5,
    jobs_running=6,
    jobs_waiting=7,
)


@pytest.fixture
def lab() -> Lab:
    return Lab()


def test_everything_that_a_node_said_is_in_its_view(lab):
    founder, member = lab.mesh_of("founder", "member")
    member.say(profile=ENCODE(PROFILE), load=ENCODE(LOAD), offers=ENCODE(Offered(lines=("all",))))
    lab.run(1)

    seen = founder.sees(member)
    assert (seen.node_class, seen.version, seen.labels) == ("datacenter", "0.3", {"rack": "4"})
    assert (seen.cpu_milli_total, seen.cpu_milli_free) == (64_000, 1)
    assert (seen.memory_bytes_total, seen.memory_bytes_free) == (1 << 38, 2)
    assert (seen.storage_bytes_total, seen.storage_bytes_free) == (1 << 40, 3)
    assert (seen.gpus_total, seen.gpus_free_milli) == (2, 4)
    assert seen.gpu_models == ("H100", "A100")
    assert (seen.load_milli, seen.jobs_running, seen.jobs_waiting) == (5, 6, 7)
    assert (seen.offers, seen.scores_tflops_milli) == (("all",), 2_500 + 67_000 + 19_500)


@pytest.mark.parametrize(("fact", "note"), [("is_draining", DRAINED), ("is_disk_full", FULL)])
def test_a_node_that_takes_no_work_is_alive_and_noted(lab, fact, note):
    founder, member = lab.mesh_of("founder", "member")
    member.say(load=ENCODE(msgspec.structs.replace(LOAD, **{fact: True})))
    lab.run(1)

    for host in (founder, member):
        assert (host.sees(member).health, host.sees(member).note) == ("alive", note)
    assert member.sees(founder).note == ""


@pytest.mark.parametrize(("is_down", "health"), [(True, "down"), (False, "dead")])
def test_who_was_told_to_stop_reads_down_also_where_its_goodbye_was_not_heard(lab, is_down, health):
    founder, member, _ = lab.mesh_of("founder", "member", "third")
    member.say(load=ENCODE(msgspec.structs.replace(LOAD, is_down=is_down)))
    lab.run(1)

    assert founder.sees(member).health == "alive", "it still speaks"
    member.down()
    lab.run(5)
    assert founder.sees(member).health == health


def test_this_node_comes_first_then_the_others_by_name(lab):
    hosts = lab.mesh_of("m", "z", "a")

    assert [each.name for each in hosts[0].views()] == ["m", "a", "z"]
    assert [each.is_self for each in hosts[0].views()] == [True, False, False]
    (alone,) = lab.add("alone")
    assert everyone(alone.mesh, lab.now) == ()


def test_a_node_of_which_nothing_is_known_has_a_view_too(lab):
    (alone,) = lab.add("alone")
    seen = view(alone.mesh, "5" * 64, lab.now)

    assert (seen.name, seen.health, seen.path, seen.verification) == (
        "55555555",
        "left",
        "none",
        "claimed",
    )


def test_oneself_is_alive_since_the_start(lab):
    (founder,) = lab.mesh_of("founder")
    own = founder.views()[0]

    assert (own.health, own.since_ms, own.seen_age_ms) == ("alive", WALL_MS, 0)


def test_ages_grow_while_nothing_comes(lab):
    founder, member = lab.mesh_of("founder", "member")
    member.say(load=ENCODE(LOAD))
    lab.run(0.5)
    founder.mesh.changed_us[member.id] = lab.mono_us - 7_000_000

    assert founder.sees(member).record_age_ms == 7_000
    assert founder.sees(member).seen_age_ms < 1_000


def test_the_bandwidth_of_a_link_comes_before_what_the_other_measured(lab):
    founder, member = lab.mesh_of("founder", "member")
    member.say(coordinate=ENCODE(Position(bandwidth_kbps=77)))
    lab.run(1)
    assert founder.sees(member).bandwidth_kbps == 77

    founder.mesh.links[member.id].bandwidth_kbps = 99
    assert founder.sees(member).bandwidth_kbps == 99


def test_latency_is_measured_only_over_a_link(lab):
    founder, member = lab.mesh_of("founder", "member")
    assert founder.sees(member).latency_us is not None

    lab.unreachable.add(frozenset(("founder", "member")))
    lab.cut(founder, member, "test")
    seen = founder.sees(member)
    assert (seen.latency_us, seen.path, seen.address) == (None, "none", "")


@pytest.mark.rows("S2-142")
def test_what_others_found_of_a_node_is_in_its_view_but_not_what_it_says_of_itself(lab):
    founder, member, third = lab.mesh_of("founder", "member", "third")
    member.say(verdicts=ENCODE(Verdicts(of={member.id: ("verified", "")})))
    lab.run(1)
    assert founder.sees(member).verification == "claimed"
    founder.say(verdicts=ENCODE(Verdicts(of={member.id: ("claimed", "it is busy")})))
    assert founder.sees(member).verification_why == "it is busy"

    third.say(verdicts=ENCODE(Verdicts(of={member.id: ("failed", "half the cores")})))
    lab.run(1)
    for host in (founder, member, third):
        seen = host.sees(member)
        assert (seen.verification, seen.verification_why) == ("failed", "half the cores")
    founder.say(verdicts=ENCODE(Verdicts(of={member.id: ("verified", "")})))
    seen = founder.sees(member)
    assert (seen.verification, seen.verification_why) == ("claimed", "")


def test_a_founder_without_the_key_of_its_mesh_says_so_and_nobody_else_does(lab):
    founder, member = lab.mesh_of("founder", "member")
    assert founder.views()[0].note == member.views()[0].note == ""

    founder.down()
    founder.up()
    lab.run(1)
    assert founder.views()[0].note == KEYLESS
    assert member.sees(founder).note == ""
    founder.mesh.membership.hold_authority(lab.keys.make("authority of founder"))
    assert founder.views()[0].note == ""


def test_a_pretended_profile_says_so(lab):
    founder, member = lab.mesh_of("founder", "member")
    member.say(profile=ENCODE(msgspec.structs.replace(PROFILE, is_pretended=True)))
    lab.run(1)

    assert founder.sees(member).verification == "pretended"
