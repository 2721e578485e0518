"""Are amounts added, taken and compared exactly?"""

import msgspec
import pytest

from distributed_grid.errors import BadValue, NotEnough
from distributed_grid.model.bytesize import BYTES_MAX, GIB
from distributed_grid.model.gpus import GpuRequest
from distributed_grid.model.node import unnamed_gpus
from distributed_grid.model.resources import (
    Request,
    Resources,
    custom_kind,
    sorted_amounts,
)

ROOM = Resources(
    cpu_milli=4_000,
    memory_bytes=8 * GIB,
    storage_bytes=GIB,
    gpus=unnamed_gpus("H100", 2, memory_bytes=80 * GIB),
    custom=(("fpga", 1_000), ("tpu", 4_000)),
)


@pytest.mark.rows("S1-47", "S1-49")
@pytest.mark.parametrize(
    ("wanted", "short"),
    [
        (Request(cpu_milli=4_000), []),
        (Request(cpu_milli=4_001), [("cpu_milli", 4_001, 4_000)]),
        (Request(memory_bytes=8 * GIB), []),
        (Request(memory_bytes=8 * GIB + 1), [("memory_bytes", 8 * GIB + 1, 8 * GIB)]),
        (Request(storage_bytes=GIB), []),
        (Request(storage_bytes=GIB + 1), [("storage_bytes", GIB + 1, GIB)]),
        (Request(gpus=GpuRequest(milli=2_000)), []),
        (Request(gpus=GpuRequest(milli=3_000)), [("gpu_milli", 3_000, 2_000)]),
        (Request(custom=(("tpu", 4_000),)), []),
        (Request(custom=(("tpu", 4_001),)), [("custom.tpu", 4_001, 4_000)]),
        (Request(custom=(("npu", 1),)), [("custom.npu", 1, 0)]),
        (
            Request(cpu_milli=5_000, storage_bytes=2 * GIB),
            [("cpu_milli", 5_000, 4_000), ("storage_bytes", 2 * GIB, GIB)],
        ),
    ],
)
def test_equal_is_enough_and_one_more_is_too_much(wanted, short):
    assert ROOM.shortfall(wanted) == short
    assert ROOM.fits(wanted) == (not short)


def test_a_grant_names_its_devices_and_can_be_taken_and_given_back():
    granted = ROOM.grant(
        Request(cpu_milli=1_000, gpus=GpuRequest(milli=500), custom=(("tpu", 1_000),))
    )

    left = ROOM - granted

    assert [(g.device, g.share_milli) for g in granted.gpus] == [("H100#000", 500)]
    assert [(g.device, g.share_milli) for g in left.gpus] == [("H100#000", 500), ("H100#001", 1000)]
    assert dict(left.custom) == {"fpga": 1_000, "tpu": 3_000}
    assert left + granted == ROOM


def test_what_is_used_up_is_no_longer_listed():
    everything = ROOM - ROOM

    assert everything == Resources()


@pytest.mark.parametrize(
    ("taken", "what"),
    [
        (Resources(cpu_milli=4_001), "cpu_milli"),
        (Resources(memory_bytes=9 * GIB), "memory_bytes"),
        (Resources(storage_bytes=2 * GIB), "storage_bytes"),
        (Resources(gpus=unnamed_gpus("A100", 1)), "thousandths of A100#000"),
        (Resources(custom=(("npu", 1),)), "custom.npu"),
    ],
)
def test_more_than_there_is_cannot_be_taken(taken, what):
    assert not ROOM.covers(taken)
    with pytest.raises(NotEnough) as caught:
        ROOM - taken

    assert caught.value.what == what


def test_a_device_cannot_be_given_back_twice():
    with pytest.raises(NotEnough, match="H100#000"):
        ROOM + Resources(gpus=unnamed_gpus("H100", 1))


def test_a_grant_of_too_much_says_what_is_missing():
    with pytest.raises(NotEnough) as caught:
        ROOM.grant(Request(cpu_milli=9_000))

    assert (caught.value.what, caught.value.wanted, caught.value.has) == ("cpu_milli", 9_000, 4_000)


@pytest.mark.rows("S1-36")
@pytest.mark.parametrize("kind", [Request, Resources])
@pytest.mark.parametrize(
    "amounts",
    [
        {"cpu_milli": -1},
        {"cpu_milli": 10**9 + 1},
        {"memory_bytes": -1},
        {"memory_bytes": BYTES_MAX + 1},
        {"storage_bytes": 10**30},
        {"custom": (("tpu", -1),)},
        {"custom": (("tpu", 10**9 + 1),)},
        {"custom": (("tpu", 0),)},
        {"custom": (("tpu", 1), ("fpga", 1))},
        {"custom": (("tpu", 1), ("tpu", 1))},
        {"custom": tuple((f"kind{n:02d}", 1) for n in range(65))},
    ],
)
def test_no_amount_is_negative_or_beyond_all_measure(kind, amounts):
    with pytest.raises(BadValue):
        kind(**amounts)


def test_devices_are_sorted_each_once_and_not_thousands():
    one, other = unnamed_gpus("H100", 2)
    with pytest.raises(BadValue, match="each once"):
        Resources(gpus=(one, one))
    with pytest.raises(BadValue, match="each once"):
        Resources(gpus=(other, one))
    many = [msgspec.structs.replace(one, device=f"H100#{n:04d}") for n in range(1_025)]
    with pytest.raises(BadValue, match="at most 1024 GPUs"):
        Resources(gpus=tuple(many))


@pytest.mark.rows("S3-101", "S3-102", "S3-103", "S1-33")
@pytest.mark.parametrize("name", ["tpu", "fpga", "licence:matlab", "my.kind_2", "a" * 63])
def test_a_kind_of_ones_own_has_a_plain_name(name):
    assert custom_kind(name) == name


@pytest.mark.parametrize(
    "wrong", ["", "TPU", "2tpu", "tpu cores", "a:b:c", "tpu:", "cpu", "gpus", "memory", None, 5]
)
def test_a_kind_that_could_be_misread_is_refused(wrong):
    with pytest.raises(BadValue):
        custom_kind(wrong)


def test_custom_amounts_have_one_order_and_no_zeros():
    assert sorted_amounts({"tpu": 1, "fpga": 2, "npu": 0}) == (("fpga", 2), ("tpu", 1))
