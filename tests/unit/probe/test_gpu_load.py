"""What GPUs do now: NVML through its stand-in, sysfs for the others."""

from pathlib import Path

import pytest

from distributed_grid.edges.probe.gpu_load import GpuLoad
from distributed_grid.edges.probe.machine import profile
from distributed_grid.edges.probe.tree import Tree
from distributed_grid.model.lending import GpuUse
from tests.trees.growing import grown
from tests.trees.nvml import fleet, h100

MIB = 1 << 20


class Lab:
    """A machine that has only the GPUs of a fleet."""

    def __init__(self, library: str, monkeypatch: pytest.MonkeyPatch, root: Path) -> None:
        self.library, self.monkeypatch, self.root = library, monkeypatch, root

    def load(self, *devices: dict[str, object], then=None, deadline_ms: int = 10_000) -> GpuLoad:
        self.monkeypatch.setenv("FAKE_NVML_FLEET", fleet(*devices))
        gpus = profile(str(self.root), nvml_library=self.library).gpus
        self.monkeypatch.setenv("FAKE_NVML_FLEET", fleet(*(devices if then is None else then)))
        return GpuLoad(Tree(str(self.root)), gpus, library=self.library, deadline_ms=deadline_ms)


@pytest.fixture
def lab(fake_nvml: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Lab:
    return Lab(fake_nvml, monkeypatch, tmp_path)


@pytest.mark.rows("S3-69")
def test_a_device_tells_its_use_and_its_free_memory(lab):
    load = lab.load(h100(1), h100(2, busy=97, used=80_000))

    assert load.measure() == (
        GpuUse(
            device="GPU-00000001-0000-0000-0000-000000000000",
            utilization_milli=120,
            memory_free_bytes=81_000 * MIB,
            memory_total_bytes=81_559 * MIB,
        ),
        GpuUse(
            device="GPU-00000002-0000-0000-0000-000000000000",
            utilization_milli=970,
            memory_free_bytes=1_559 * MIB,
            memory_total_bytes=81_559 * MIB,
        ),
    )
    assert load.measure() == load.measure()
    load.close()
    load.close()


def test_what_runs_on_a_granted_device_is_not_the_owners(lab):
    load = lab.load(h100(1, busy=97, used=80_000))
    (use,) = load.measure(held={"GPU-00000001-0000-0000-0000-000000000000"})

    assert (use.utilization_milli, use.memory_free_bytes) == (0, 81_559 * MIB)


def test_a_device_that_does_not_tell_its_use_or_its_memory_is_left_out(lab):
    mute = h100(1, fail="UtilizationRates:3")
    blank = h100(2, fail="MemoryInfo:3")
    found = lab.load(mute, blank, h100(3)).measure()

    assert [use.device[-40:12] for use in found] == ["GPU-00000003"]


def test_a_device_that_fell_off_the_bus_is_left_out(lab):
    found = lab.load(h100(1), h100(2), then=(h100(1, lost=1), h100(2))).measure()

    assert [use.device[:12] for use in found] == ["GPU-00000002"]


def test_a_slice_tells_its_memory_and_not_its_use(lab):
    cut = h100(1, mig=1, slices="MIG-a/NVIDIA H100 80GB HBM3 MIG 1g.10gb/9728")
    cut["fail"] = "UtilizationRates:3"
    (use,) = lab.load(cut).measure()

    assert (use.device, use.utilization_milli) == ("MIG-a", 0)
    assert use.memory_total_bytes == 9_728 * MIB


def test_a_driver_that_hangs_costs_its_deadline_once(lab):
    load = lab.load(h100(1), then=(h100(1, hang="MemoryInfo"),), deadline_ms=50)

    assert load.measure() == ()
    assert load.measure() == ()
    load.close()


def test_a_driver_that_does_not_start_tells_nothing(lab):
    load = lab.load(h100(1))
    lab.monkeypatch.setenv("FAKE_NVML_INIT", "9")

    assert load.measure() == ()


def test_an_amd_card_is_measured_through_its_files(tmp_path):
    card = "/sys/class/drm/card0/device"
    tree = grown(
        tmp_path,
        {
            f"{card}/vendor": "0x1002",
            f"{card}/device": "0x744c",
            f"{card}/uevent": "PCI_SLOT_NAME=0000:03:00.0",
            f"{card}/mem_info_vram_total": str(24 << 30),
            f"{card}/mem_info_vram_used": str(4 << 30),
            f"{card}/gpu_busy_percent": "7",
        },
    )
    load = GpuLoad(tree, profile(str(tmp_path)).gpus)
    (use,) = load.measure()
    assert (use.utilization_milli, use.memory_free_bytes) == (70, 20 << 30)
    grown(tmp_path, {f"{card}/gpu_busy_percent": "junk"})

    assert load.measure() == ()
    load.close()
