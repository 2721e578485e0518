"""A Mac as `sysctl` and `system_profiler` describe it (samples written from their manuals)."""

import pytest

from distributed_grid.edges.probe import apple
from distributed_grid.kernel.classification import classify
from distributed_grid.model.node_class import Laptop, Workstation

SYSCTL = """\
hw.memsize: 17179869184
hw.model: MacBookPro17,1
hw.physicalcpu: 8
hw.logicalcpu: 8
machdep.cpu.brand_string: Apple M1
kern.osrelease: 23.5.0
kern.osproductversion: 14.5
kern.hostname: mac.local
kern.hv_vmm_present: 0
"""
MACBOOK = {
    "SPDisplaysDataType": [{"_name": "Apple M1", "sppci_model": "Apple M1", "sppci_cores": "8"}],
    "SPNVMeDataType": [
        {
            "_name": "Apple SSD Controller",
            "_items": [
                {
                    "bsd_name": "disk0",
                    "device_model": "APPLE SSD AP0512Q",
                    "size_in_bytes": 500277792768,
                },
                {"bsd_name": "disk1", "size_in_bytes": "a lot"},
            ],
        }
    ],
    "SPPowerDataType": [
        {
            "_name": "spbattery_information",
            "sppower_battery_charge_info": {
                "sppower_battery_is_charging": "FALSE",
                "sppower_battery_state_of_charge": 77,
            },
        },
        {"sppower_ac_charger_information": {"sppower_battery_charger_connected": "FALSE"}},
    ],
}


def test_a_macbook_is_a_laptop_with_an_apple_gpu() -> None:
    absent: dict[str, str] = {}
    made = apple.profile_from(apple.parse_sysctl(SYSCTL), MACBOOK, "arm64", absent)

    assert classify(made) == Laptop(battery_level=77)
    assert made.power.source == "battery"
    assert made.cpu.model == "Apple M1"
    assert made.cpu.physical_cores == 8
    assert made.memory.total_bytes == 16 << 30
    assert [(gpu.vendor, gpu.model) for gpu in made.gpus] == [("apple", "M1")]
    assert [(d.name, d.kind, d.capacity_bytes) for d in made.storage.disks] == [
        ("disk0", "nvme", 500277792768)
    ]
    assert made.os.version == "14.5"
    assert absent["cpu.frequency"] == "Apple processors tell none"


@pytest.mark.parametrize(
    ("charging", "plugged", "state", "source"),
    [("TRUE", "TRUE", "charging", "ac"), ("FALSE", "TRUE", "not charging", "ac")],
)
def test_a_plugged_in_macbook_is_on_ac(
    charging: str, plugged: str, state: str, source: str
) -> None:
    power = [
        {"sppower_battery_charge_info": {"sppower_battery_is_charging": charging}},
        {"sppower_ac_charger_information": {"sppower_battery_charger_connected": plugged}},
    ]
    made = apple.profile_from({}, {"SPPowerDataType": power}, "arm64", {})

    assert made.power.battery is not None
    assert (made.power.battery.state, made.power.source) == (state, source)
    assert made.power.battery.percent is None


def test_an_older_mac_pro_is_a_workstation_with_its_own_cards() -> None:
    absent: dict[str, str] = {}
    displays = [
        {"sppci_model": "AMD Radeon Pro 580X", "spdisplays_vram": "8 GB"},
        {"sppci_model": "Intel UHD Graphics 630", "spdisplays_vram": "lots"},
    ]
    sysctl = {"hw.cpufrequency_max": "3500000000", "kern.hv_vmm_present": "1", "hw.memsize": "junk"}
    made = apple.profile_from(sysctl, {"SPDisplaysDataType": displays}, "x86_64", absent)

    assert classify(made) == Workstation(gpu_capable=True)
    assert [gpu.memory_bytes for gpu in made.gpus] == [8 << 30, None]
    assert [gpu.integrated for gpu in made.gpus] == [False, True]
    assert made.cpu.frequency_max_khz == 3_500_000
    assert made.virtualisation.kind == "apple"
    assert made.memory.total_bytes is None
    assert absent["power.battery"] == "system_profiler lists no battery"


@pytest.mark.parametrize(
    "junk", [None, [], "x", {"SPDisplaysDataType": 5}, {"SPNVMeDataType": [1]}]
)
def test_junk_from_the_profiler_is_no_crash(junk: object) -> None:
    absent: dict[str, str] = {}

    assert apple.profile_from({"hw.memsize": "9" * 19}, junk, "arm64", absent).gpus == ()
    assert "gpus" in absent


def test_without_its_programs_everything_is_absent_with_a_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """This machine has neither program: what a Mac would do if they were gone."""
    monkeypatch.setenv("PATH", "/nonexistent")
    made = apple.profile(full=False)

    assert made.cpu.model is None
    assert made.absent["sysctl"] == "it cannot be asked: FileNotFoundError"
    assert made.absent["system_profiler"] == "it cannot be asked: FileNotFoundError"
    assert made.compute is not None
