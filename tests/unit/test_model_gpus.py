"""Do GPUs answer to their names, and does a request get what it asked for?"""

import pytest

from distributed_grid.errors import BadValue
from distributed_grid.model.bytesize import GIB
from distributed_grid.model.gpus import (
    Gpu,
    GpuRequest,
    canonical_model,
    peak_tflops_milli,
    same_model,
)


@pytest.mark.parametrize(
    ("vendor_name", "model"),
    [
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("NVIDIA H100 PCIe", "H100"),
        ("NVIDIA A100-SXM4-40GB", "A100"),
        ("Tesla V100-SXM2-16GB", "V100"),
        ("Tesla T4", "T4"),
        ("NVIDIA GeForce RTX 4090", "RTX4090"),
        ("NVIDIA GeForce RTX 3080 Laptop GPU", "RTX3080LAPTOP"),
        ("NVIDIA GeForce RTX 4070 Ti SUPER", "RTX4070TISUPER"),
        ("NVIDIA RTX A6000", "RTXA6000"),
        ("NVIDIA RTX 6000 Ada Generation", "RTX6000ADA"),
        ("Quadro RTX 8000", "RTX8000"),
        ("AMD Instinct MI300X", "MI300X"),
        ("AMD Radeon RX 7900 XTX", "RX7900XTX"),
        ("Intel(R) Data Center GPU Max 1550", "MAX1550"),
        ("Apple M2 Max", "M2MAX"),
        ("rtx_4090", "RTX4090"),
        ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", "A100-MIG-1G.5GB"),
        ("A100-MIG-1G.5GB", "A100-MIG-1G.5GB"),
        ("NVIDIA", "NVIDIA"),
    ],
)
def test_the_long_name_of_a_vendor_has_a_canonical_model(vendor_name, model):
    assert canonical_model(vendor_name) == model
    assert canonical_model(model) == model


@pytest.mark.rows("S1-32")
@pytest.mark.parametrize(
    ("wanted", "has", "same"),
    [
        ("any", "H100", True),
        ("ANY", "H100", True),
        ("H100", "NVIDIA H100 80GB HBM3", True),
        ("4090", "NVIDIA GeForce RTX 4090", True),
        ("A6000", "NVIDIA RTX A6000", True),
        ("RTX 4090", "RTX4090", True),
        ("4090", "RTX4090D", False),
        ("H100", "H200", False),
        ("A100", "NVIDIA A100-SXM4-40GB MIG 1g.5gb", False),
        ("RTX4090", "4090", False),
    ],
)
def test_two_names_mean_one_model_or_they_do_not(wanted, has, same):
    assert same_model(wanted, has) is same


def gpu(device="g0", *, share=1_000, model="H100", memory=80 * GIB, capability=90):
    return Gpu(
        device=device,
        model=model,
        memory_bytes=memory,
        compute_capability=capability,
        share_milli=share,
    )


@pytest.mark.parametrize("share", [0, -1, 1_001])
def test_a_share_of_a_device_is_more_than_nothing_and_at_most_the_device(share):
    with pytest.raises(AssertionError):
        gpu(share=share)


@pytest.mark.parametrize("wrong", [0, -500, 1_001, 1_500, 2_500])
def test_a_request_is_a_share_of_one_device_or_whole_devices(wrong):
    with pytest.raises(BadValue, match="share of one GPU"):
        GpuRequest(milli=wrong)


@pytest.mark.parametrize("right", [1, 500, 1_000, 2_000, 8_000])
def test_shares_and_whole_devices_can_be_asked_for(right):
    assert GpuRequest(milli=right).milli == right


@pytest.mark.parametrize(
    ("request_", "accepted"),
    [
        (GpuRequest(), True),
        (GpuRequest(model="H100"), True),
        (GpuRequest(model="A100"), False),
        (GpuRequest(memory_bytes=80 * GIB), True),
        (GpuRequest(memory_bytes=80 * GIB + 1), False),
        (GpuRequest(compute_capability=90), True),
        (GpuRequest(compute_capability=91), False),
    ],
)
def test_a_device_is_of_the_wanted_kind_and_equal_is_enough(request_, accepted):
    assert request_.accepts(gpu()) is accepted


def test_a_device_of_unknown_memory_meets_no_demand_on_it():
    assert not GpuRequest(memory_bytes=1).accepts(gpu(memory=0))
    assert GpuRequest().accepts(gpu(memory=0))


def test_whole_devices_are_counted_whole_and_a_share_comes_from_one_device():
    some = [gpu("a", share=500), gpu("b"), gpu("c", share=750)]

    assert GpuRequest(milli=1_000).available_milli(some) == 1_000
    assert GpuRequest(milli=2_000).available_milli(some) == 1_000
    assert GpuRequest(milli=250).available_milli(some) == 1_000
    assert GpuRequest(milli=250).available_milli(some[::2]) == 750
    assert GpuRequest(milli=250).available_milli([]) == 0
    assert GpuRequest(milli=1_000).available_milli([]) == 0


def test_a_share_goes_to_the_fullest_device_that_has_room():
    some = [gpu("a"), gpu("b", share=250), gpu("c", share=500), gpu("d", share=500)]

    (chosen,) = GpuRequest(milli=400).choose(reversed(some))

    assert (chosen.device, chosen.share_milli) == ("c", 400)
    assert GpuRequest(milli=250).choose(some)[0].device == "b"
    assert GpuRequest(milli=900).choose(some)[0].device == "a"


def test_whole_devices_are_chosen_by_name_and_all_or_none():
    some = [gpu("c"), gpu("a"), gpu("b", share=500)]

    assert [g.device for g in GpuRequest(milli=2_000).choose(some)] == ["a", "c"]
    assert GpuRequest(milli=3_000).choose(some) == ()
    assert GpuRequest(milli=500, model="A100").choose(some) == ()


@pytest.mark.rows("S2-102")
@pytest.mark.parametrize(
    ("vendor_name", "peak"),
    [
        ("NVIDIA H100 80GB HBM3", 67_000),
        ("Tesla V100-SXM2-16GB", 15_700),
        ("RTX4090", 82_600),
        ("AMD Instinct MI300X", 163_400),
        ("NVIDIA GeForce RTX 4090 Laptop GPU", 0),  # Another device, with no sheet here.
        ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", 0),  # A part of one.
    ],
)
def test_what_a_gpu_computes_at_most_is_what_its_maker_states(vendor_name, peak):
    assert peak_tflops_milli(vendor_name) == peak
