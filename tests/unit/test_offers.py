"""Idleness becomes offers: six thresholds, the reserve, the policy's part, the largest number."""

import pytest

from distributed_grid.model.bytesize import GIB
from distributed_grid.model.gpus import Gpu
from distributed_grid.model.lending import GpuUse
from distributed_grid.model.resources import Resources
from tests.unit.lending_lab import MINUTE_MS, Lab, a_gpu, a_machine


@pytest.mark.rows("S3-09", "S3-12")
def test_an_idle_machine_offers_everything_but_the_reserve():
    lab = Lab().sample()

    assert lab.amounts() == {
        "cpu": 16_000,
        "memory": 63 * GIB,
        "gpu0": 1_000,
        "gpu1": 1_000,
        "storage": 500 * GIB,
        "licence:matlab": 2_000,
    }
    assert lab.reasons() == {}
    gpu = next(offer for offer in lab.survey().offers if offer.device == "gpu1")
    assert (gpu.kind, gpu.total) == ("gpu", 1_000)
    assert (gpu.memory_free_bytes, gpu.memory_total_bytes) == (24 * GIB, 24 * GIB)
    assert (gpu.made_ms, gpu.expires_ms) == (lab.now_ms, lab.now_ms + 5 * MINUTE_MS)


@pytest.mark.rows("S3-13", "S3-24", "S3-25", "S3-26", "S3-27", "S3-28", "S3-29", "S3-85")
@pytest.mark.parametrize(
    ("below", "at", "kind", "told"),
    [
        ({"cpu": 299}, {"cpu": 300}, "cpu", ("cpu_percent_max", "30 %", "30 %")),
        ({"memory": 499}, {"memory": 500}, "memory", ("memory_percent_max", "50 %", "50 %")),
        (
            {"gpus": (a_gpu(0), a_gpu(1, used=199))},
            {"gpus": (a_gpu(0), a_gpu(1, used=200))},
            "gpu1",
            ("gpu_utilization_max", "20 %", "20 %"),
        ),
        (
            {"gpus": (a_gpu(0, free=1), a_gpu(1))},
            {"gpus": (a_gpu(0, free=0), a_gpu(1))},
            "gpu0",
            ("gpu_memory_min_mb", "at least 1 GiB", "0 B free"),
        ),
        ({}, {"gpus": (a_gpu(1),)}, "gpu0", ("gpu_utilization_max", "20 %", "not measured")),
    ],
)
def test_use_must_be_strictly_below_its_threshold(below, at, kind, told):
    assert kind in Lab().sample(**below).amounts()
    busy = Lab().sample(**at)

    assert kind not in busy.amounts()
    assert busy.reasons() == {kind: told}


@pytest.mark.rows("S3-25", "S3-27", "S3-29")
def test_what_is_free_must_be_at_least_its_threshold():
    lab = Lab(reserved_memory_bytes=0).sample(gpus=(a_gpu(0, free=1), a_gpu(1)))
    lab.lease(Resources(cpu_milli=15_000, memory_bytes=62 * GIB), shared=False)
    assert lab.amounts()["cpu"] == 1_000
    assert lab.amounts()["memory"] == 2 * GIB
    assert lab.amounts()["gpu0"] == 1_000
    lab.lease(Resources(cpu_milli=1, memory_bytes=GIB), shared=False)

    assert lab.reasons() == {
        "cpu": ("cpu_min_cores", "at least 1 core", "0.999 cores free"),
        "memory": ("memory_min_gb", "at least 2 GiB", "1 GiB free"),
    }


@pytest.mark.rows("S3-29")
def test_a_machine_with_one_core_lends_it_while_it_is_nearly_still():
    lab = Lab(Resources(cpu_milli=1_000, memory_bytes=64 * GIB))

    assert lab.sample(cpu=249, gpus=()).amounts()["cpu"] == 1_000
    assert lab.sample(cpu=250, gpus=()).reasons()["cpu"] == (
        "cpu_min_cores",
        "at least 1 core",
        "0.75 cores free",
    )


def test_the_idle_cores_of_a_partly_busy_machine_are_lent_where_the_threshold_allows():
    lab = Lab(a_machine(cpus=8), cpu_used_max_milli=600).sample(cpu=450, cpu_total_milli=16_000)

    assert lab.amounts()["cpu"] == 4_400
    assert Lab(a_machine(cpus=8)).sample(cpu=450).reasons()["cpu"][1:] == ("30 %", "45 %")


def test_what_is_leased_and_what_the_owner_uses_are_both_taken_off():
    lab = Lab(reserved_cpu_milli=1_000).sample(cpu=250, memory=125)
    lab.lease(Resources(cpu_milli=4_000, memory_bytes=16 * GIB), shared=False)

    assert lab.amounts()["cpu"] == 16_000 - 4_000 - 4_000 - 1_000
    assert lab.amounts()["memory"] == (64 - 8 - 16 - 1) * GIB


def test_an_owner_who_uses_more_than_is_free_leaves_nothing():
    lab = Lab().sample(cpu=250, memory=250)
    lab.lease(Resources(cpu_milli=14_000, memory_bytes=60 * GIB), shared=False)

    assert lab.reasons()["cpu"][2] == "0 cores free"
    assert lab.reasons()["memory"][2] == "0 B free"


def test_the_reserve_of_the_owner_is_never_lent():
    lab = Lab(reserved_cpu_milli=16_000, reserved_memory_bytes=60 * GIB, reserved_gpus=1).sample()

    assert lab.amounts()["memory"] == 4 * GIB
    assert lab.reasons() == {
        "cpu": ("reserve.cpus", "16 cores reserved", "16 cores free"),
        "gpu0": ("reserve.gpus", "the first 1 of 2", "number 1"),
    }


@pytest.mark.rows("S3-22")
def test_of_more_offers_than_allowed_the_last_are_dropped_and_told():
    lab = Lab(a_machine(gpus=4), offers_max=5).sample(gpus=tuple(map(a_gpu, range(4))))

    assert list(lab.amounts()) == ["cpu", "memory", "gpu0", "gpu1", "gpu2"]
    assert lab.reasons() == dict.fromkeys(
        ["gpu3", "storage", "licence:matlab"], ("max_offers_per_node", "5", "8 offers")
    )
    assert lab.survey().lent.storage_bytes == 0


def test_a_device_in_use_is_not_offered_and_a_part_of_it_is_offered_as_that_part():
    lab = Lab().sample()
    lab.lease(Resources(gpus=(Gpu(device="gpu0", model="RTX4090"),)), shared=False)
    lab.lease(Resources(gpus=(Gpu(device="gpu1", model="RTX4090", share_milli=250),)), shared=False)

    assert lab.amounts()["gpu1"] == 750
    assert lab.reasons() == {"gpu0": ("free", "a free part", "all of it is in use")}


def test_where_nobody_tells_the_memory_of_a_device_its_use_decides():
    quiet = GpuUse(device="gpu0", utilization_milli=0, memory_free_bytes=0, memory_total_bytes=0)

    assert Lab().sample(gpus=(quiet, a_gpu(1))).amounts()["gpu0"] == 1_000


def test_custom_kinds_and_storage_run_out_too():
    lab = Lab().sample(storage_free_bytes=0)
    lab.lease(Resources(custom=(("licence:matlab", 2_000),)), shared=False)

    assert lab.reasons() == {
        "storage": ("reserve", "more than 0", "0 B free"),
        "licence:matlab": ("free", "more than 0", "0 free"),
    }


def test_a_machine_without_storage_and_gpus_says_nothing_about_them():
    lab = Lab(Resources(cpu_milli=4_000, memory_bytes=64 * GIB)).sample(gpus=())

    assert list(lab.amounts()) == ["cpu", "memory"]
    assert lab.reasons() == {}


# --- Policies ------------------------------------------------------------------------------------


def test_conservative_lends_half_and_not_half_again():
    lab = Lab(policy="conservative", reserved_memory_bytes=0).sample()
    assert lab.amounts()["cpu"] == 8_000
    assert lab.amounts()["memory"] == 32 * GIB
    lab.lease(Resources(cpu_milli=6_000, memory_bytes=32 * GIB), shared=True)

    assert lab.amounts()["cpu"] == 2_000
    assert lab.reasons()["memory"] == (
        "policy",
        "50 % of what is free (conservative)",
        "32 GiB lent already",
    )


@pytest.mark.parametrize(("devices", "offered"), [(1, ["gpu0"]), (2, ["gpu1"]), (3, 2), (4, 2)])
def test_conservative_lends_half_of_the_devices_and_one_of_one(devices, offered):
    lab = Lab(a_machine(gpus=devices), policy="conservative")
    lab.sample(gpus=tuple(map(a_gpu, range(devices))))
    found = [name for name in lab.amounts() if name.startswith("gpu")]

    assert found == offered or len(found) == offered
    if devices == 2:
        assert lab.reasons()["gpu0"] == (
            "policy",
            "50 % of the devices (conservative)",
            "2 idle, 0 lent",
        )


def test_conservative_lends_no_second_device_of_two():
    lab = Lab(policy="conservative").sample()
    lab.lease(Resources(gpus=(lab.total.gpus[1],)), shared=True)

    assert "gpu0" not in lab.amounts()
    four = Lab(a_machine(gpus=4), policy="conservative").sample(gpus=tuple(map(a_gpu, range(4))))
    four.lease(Resources(gpus=(four.total.gpus[3],)), shared=True)
    assert [name for name in four.amounts() if name.startswith("gpu")] == ["gpu2"]


def test_aggressive_lends_cores_that_the_owner_uses_a_little():
    assert Lab(policy="balanced").sample(cpu=250).amounts()["cpu"] == 12_000
    assert Lab(policy="aggressive").sample(cpu=250).amounts()["cpu"] == 16_000


# --- Admission -----------------------------------------------------------------------------------


def test_a_request_that_fits_the_offers_is_admitted_with_the_devices_it_may_use():
    lab = Lab(reserved_gpus=1).sample()

    admitted = lab.admits(gpus=1, cpu_milli=2_000, memory_bytes=GIB)
    assert (admitted.reasons, admitted.devices) == ((), frozenset({"gpu1"}))


def test_several_devices_serve_a_request_of_several():
    lab = Lab().sample()

    assert lab.admits(gpus=2).devices == {"gpu0", "gpu1"}
    (no,) = lab.admits(gpus=3).reasons
    assert (no.kind, no.threshold, no.limit, no.measured) == (
        "gpu",
        "offered",
        "2 GPUs",
        "3 GPUs asked for",
    )


def test_a_refusal_names_the_threshold_and_what_is_offered():
    lab = Lab().sample(cpu=400)

    reasons = lab.admits(cpu_milli=1_000, custom=(("licence:matlab", 3_000),)).reasons
    assert [(no.kind, no.threshold, no.limit, no.measured) for no in reasons] == [
        ("cpu", "cpu_percent_max", "30 %", "40 %"),
        ("cpu", "offered", "0 cores", "1 core asked for"),
        ("licence:matlab", "offered", "2 licence:matlab", "3 licence:matlab asked for"),
    ]


def test_a_closed_machine_says_only_why_it_is_closed():
    lab = Lab(is_enabled=False).sample()

    (no,) = lab.admits(cpu_milli=1_000, gpus=1).reasons
    assert (no.kind, no.threshold, no.limit, no.measured) == ("all", "enabled", "true", "false")
