"""NVML for real: nvidia-ml-py loads a compiled stand-in for libnvidia-ml.so."""

import ctypes
import inspect
from pathlib import Path

import pytest

from distributed_grid.edges.probe.machine import OUR_BUG, profile
from distributed_grid.model.hardware import HardwareProfile
from distributed_grid.model.hardware_gpu import GpuDevice
from tests.trees.nvml import fleet, h100


class Ask:
    """Profiles an empty machine that has only the GPUs of a fleet."""

    def __init__(self, library: str, monkeypatch: pytest.MonkeyPatch, root: Path) -> None:
        self.library, self.monkeypatch, self.root = library, monkeypatch, root

    def __call__(self, *devices: dict[str, object], deadline_ms: int = 10_000) -> HardwareProfile:
        self.monkeypatch.setenv("FAKE_NVML_FLEET", fleet(*devices))
        made = profile(str(self.root), nvml_library=self.library, nvml_deadline_ms=deadline_ms)
        assert not [why for why in made.absent.values() if OUR_BUG in why]
        return made


@pytest.fixture
def ask(fake_nvml: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Ask:
    return Ask(fake_nvml, monkeypatch, tmp_path)


def links_of(gpu: GpuDevice) -> dict[str, str]:
    return {link.to: link.kind for link in gpu.links}


@pytest.mark.rows("S2-63", "S2-64", "S2-65", "S4-13", "S4-14", "S4-15", "S4-68")
def test_a_device_tells_what_it_is_and_what_it_does(ask: Ask) -> None:
    (gpu,) = ask(h100(3)).gpus

    assert gpu.vendor == "nvidia"
    assert gpu.name == "NVIDIA H100 80GB HBM3"
    assert gpu.model == "H100"
    assert gpu.uuid == gpu.device == "GPU-00000003-0000-0000-0000-000000000000"
    assert gpu.pci_id == "0000:1e:00.0"
    assert gpu.memory_bytes == 81_559 << 20
    assert gpu.memory_free_bytes == 81_000 << 20
    assert gpu.utilisation_milli == 120
    assert gpu.compute_capability == 90
    assert gpu.driver == "550.54.14"
    assert gpu.temperature_centi == 4_100
    assert gpu.temperature_limit_centi == 9_000
    assert gpu.power_mw == 71_000
    assert gpu.power_limit_mw == 450_000
    assert gpu.mig_enabled is False
    assert gpu.healthy is True


def test_what_a_device_is_becomes_what_a_job_can_get(ask: Ask) -> None:
    machine = ask(h100(0), h100(1))

    (first, second) = machine.total().gpus

    assert (first.model, first.memory_bytes, first.compute_capability) == ("H100", 81_559 << 20, 90)
    assert [first.device, second.device] == [gpu.uuid for gpu in machine.gpus]
    assert machine.free().gpus == machine.total().gpus


@pytest.mark.parametrize(
    ("ill", "why"),
    [
        ({"ecc": 2}, "2 uncorrected memory errors"),
        ({"failed": 1}, "remapping a broken memory row failed"),
        ({"pending": 1}, "waits for a reset to be remapped"),
        ({"pages": 1}, "wait for a reset to be retired"),
        ({"fail": "MemoryInfo:15"}, "the driver has lost it"),
        ({"fail": "Temperature:16"}, "needs a reset"),
    ],
)
def test_an_unhealthy_device_is_shown_and_not_given_away(
    ask: Ask, ill: dict[str, object], why: str
) -> None:
    machine = ask(h100(0), h100(1, **ill))

    well, unwell = machine.gpus

    assert well.healthy is True
    assert unwell.healthy is False
    assert why in unwell.health[0]
    assert [gpu.device for gpu in machine.total().gpus] == [well.device, unwell.device]
    assert [gpu.device for gpu in machine.free().gpus] == [well.device]


def test_a_device_that_answers_no_question_on_health_is_not_called_healthy(ask: Ask) -> None:
    """GeForce cards have neither ECC counters nor row remapping."""
    (gpu,) = ask(
        {"name": "NVIDIA GeForce RTX 4090", "uuid": "GPU-1", "memory": 24_564, "cc": 89}
    ).gpus

    assert gpu.healthy is None
    assert gpu.grantable


def test_a_question_that_is_not_supported_costs_that_fact_alone(ask: Ask) -> None:
    machine = ask(h100(0, fail="UtilizationRates:3|PowerUsage:3"))

    (gpu,) = machine.gpus

    assert gpu.utilisation_milli is None
    assert gpu.power_mw is None
    assert gpu.memory_bytes == 81_559 << 20
    assert machine.absent["gpus.nvidia0.utilisation"] == "NVML says: Not Supported"
    assert machine.absent["gpus.nvidia0.power"] == "NVML says: Not Supported"


def test_a_device_that_fell_off_the_bus_is_named_among_the_missing(ask: Ask) -> None:
    machine = ask(h100(0), h100(1, lost=1), h100(2))

    assert [gpu.index for gpu in machine.gpus] == [0, 2]
    assert machine.absent["gpus.nvidia1"] == "NVML does not hand it out: GPU is lost"


def test_a_device_without_any_name_still_counts(ask: Ask) -> None:
    every = ["Name", "UUID", "PciInfo", "MemoryInfo", "CudaComputeCapability"]
    (gpu,) = ask(h100(0, fail="|".join(f"{name}:999" for name in every))).gpus

    assert gpu.device == "nvidia#0"
    assert gpu.name == "NVIDIA unknown"


def test_nvlink_between_two_cards_is_told_from_both_ends(ask: Ask) -> None:
    far = "00000000:1C:00.0"
    near = "00000000:1B:00.0"
    left, right, alone = ask(
        h100(0, nvlink=f"{far}|{far}|off|{far}"),
        h100(1, nvlink=f"{near}|{near}|off|{near}"),
        h100(2, node=1),
    ).gpus

    assert links_of(left) == {right.device: "nvlink", alone.device: "system"}
    assert links_of(right)[left.device] == "nvlink"
    assert left.links[0].lanes == 3
    assert left.nvlinks_active == 3
    assert not left.nvswitch
    assert alone.nvlinks_active is None


def test_cards_behind_an_nvswitch_reach_each_other(ask: Ask) -> None:
    machine = ask(*(h100(n, nvlink="|".join(["switch"] * 18)) for n in range(8)))

    for gpu in machine.gpus:
        assert gpu.nvswitch
        assert len(gpu.links) == 7
        assert {(link.kind, link.lanes) for link in gpu.links} == {("nvlink", 18)}


def test_a_link_whose_far_end_is_unknown_connects_nobody(ask: Ask) -> None:
    left, right = ask(
        h100(0, nvlink="switch", fail="NvLinkRemoteDeviceType:3|NvLinkRemotePciInfo:3"),
        h100(1, nvlink="switch"),
    ).gpus

    assert left.nvlinks_active == 1
    assert links_of(left) == {right.device: "numa-node"}


def test_cards_without_nvlink_are_told_apart_by_pcie(ask: Ask) -> None:
    first, neighbour, same_node, far = ask(
        h100(0, pcie=1, node=0), h100(1, pcie=1, node=0), h100(2, pcie=2, node=0), h100(3, node=1)
    ).gpus

    assert links_of(first) == {
        neighbour.device: "pcie-switch",
        same_node.device: "numa-node",
        far.device: "system",
    }


def test_a_topology_that_is_not_told_leaves_no_link(ask: Ask) -> None:
    first, _ = ask(h100(0, fail="TopologyCommonAncestor:3"), h100(1)).gpus

    assert first.links == ()


def test_a_card_cut_into_slices_is_granted_by_the_slice(ask: Ask) -> None:
    name = "NVIDIA A100-SXM4-40GB MIG 1g.5gb"
    machine = ask(
        h100(
            0,
            name="NVIDIA A100-SXM4-40GB",
            cc=80,
            mig=1,
            slices=f"MIG-a/{name}/4864|MIG-b/{name}/4864",
        )
    )

    (gpu,) = machine.gpus
    parts = machine.total().gpus

    assert gpu.mig_enabled is True
    assert [piece.uuid for piece in gpu.mig] == ["MIG-a", "MIG-b"]
    assert [part.device for part in parts] == ["MIG-a", "MIG-b"]
    assert {(part.model, part.memory_bytes) for part in parts} == {("A100-MIG-1G.5GB", 4_864 << 20)}


def test_a_slice_without_a_name_of_its_own_is_left_out(ask: Ask) -> None:
    machine = ask(h100(0, mig=1, slices="MIG-a/x/100", fail="UUID:999|Name:999|MemoryInfo:999"))

    assert machine.gpus[0].mig == ()
    assert machine.absent["gpus.nvidia0.mig0"] == "NVML tells no uuid"


@pytest.mark.parametrize("function", ["Name", "Temperature", "NvLinkState"])
def test_an_nvml_that_hangs_costs_its_deadline_and_keeps_what_was_told(
    fake_nvml: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, function: str
) -> None:
    """In a process of its own: the blocked thread stays for as long as the process does."""
    import subprocess
    import sys

    script = (
        "import sys; from distributed_grid.edges.probe.machine import profile\n"
        "made = profile(sys.argv[1], nvml_library=sys.argv[2], nvml_deadline_ms=1500)\n"
        "print(len(made.gpus), made.absent['gpus.nvml'])"
    )
    monkeypatch.setenv("FAKE_NVML_FLEET", fleet(h100(0), h100(1, hang=function)))
    done = subprocess.run(
        [sys.executable, "-c", script, tmp_path, fake_nvml],
        capture_output=True, text=True, timeout=30, check=True,
    )  # fmt: skip

    kept = 2 if function == "NvLinkState" else 1
    assert done.stdout == f"{kept} NVML did not answer within 1500 ms\n"
    assert done.stderr == ""


def test_an_nvml_that_does_not_start_is_a_reason(
    fake_nvml: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_NVML_INIT", "9")
    machine = profile(str(tmp_path), nvml_library=fake_nvml)

    assert machine.gpus == ()
    assert machine.absent["gpus.nvml"] == "NVML does not start: Driver Not Loaded"


def test_a_file_that_is_no_library_is_a_reason(tmp_path: Path) -> None:
    junk = tmp_path / "junk.so"
    junk.write_bytes(b"\x7fELF junk")

    machine = profile(str(tmp_path), nvml_library=str(junk))

    assert machine.absent["gpus.nvml"].startswith("the NVML library cannot be loaded: ")


def test_an_nvml_that_lacks_a_function_is_a_reason(tmp_path: Path) -> None:
    """The C library is a library, but not this one."""
    libc = ctypes.CDLL(None)
    path = next(
        line.split()[-1]
        for line in Path("/proc/self/maps").read_text().splitlines()
        if "libc" in line
    )
    assert libc

    machine = profile(str(tmp_path), nvml_library=path)

    assert machine.absent["gpus.nvml"] == "NVML does not start: Function Not Found"


def test_cards_without_a_driver_are_seen_and_never_granted(tmp_path: Path) -> None:
    where = tmp_path / "sys/bus/pci/devices/0000:01:00.0"
    where.mkdir(parents=True)
    for name, text in {"vendor": "0x10de", "class": "0x030000", "device": "0x2684"}.items():
        (where / name).write_text(text + "\n")
    sound = tmp_path / "sys/bus/pci/devices/0000:01:00.1"
    sound.mkdir()
    (sound / "vendor").write_text("0x10de\n")
    (sound / "class").write_text("0x040300\n")

    machine = profile(str(tmp_path))

    assert [gpu.name for gpu in machine.gpus] == ["NVIDIA 10de:2684"]
    assert machine.gpus[0].health == ("no NVIDIA driver is loaded",)
    assert machine.free().gpus == ()
    assert "gpus.nvidia" in machine.absent


def test_a_device_the_driver_never_opened_has_no_uuid_yet(tmp_path: Path) -> None:
    where = tmp_path / "proc/driver/nvidia/gpus/0000:01:00.0"
    where.mkdir(parents=True)
    (where / "information").write_text("Model: NVIDIA T4\nGPU UUID: GPU-????????-????\n")
    (tmp_path / "proc/driver/nvidia/gpus/0000:02:00.0").mkdir()

    machine = profile(str(tmp_path))

    assert [(gpu.uuid, gpu.device) for gpu in machine.gpus] == [(None, "0000:01:00.0")]
    assert machine.absent["gpus.nvidia1"] == "the driver names no model for 0000:02:00.0"


def test_the_shim_is_still_needed() -> None:
    """When pynvml takes a path by itself, `nvml_library` can go."""
    import pynvml

    assert "path" not in str(inspect.signature(pynvml.nvmlInit)).lower()
    assert 'CDLL("libnvidia-ml.so.1")' in inspect.getsource(pynvml._LoadNvmlLibrary)
