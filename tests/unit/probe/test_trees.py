"""Every tree gets the class and the facts that its file promises."""

from pathlib import Path

import msgspec
import pytest

from distributed_grid.edges.probe.machine import OUR_BUG, profile
from distributed_grid.kernel.classification import classify
from distributed_grid.model.hardware import HardwareProfile
from tests.trees.planting import NAMES, description, plant


@pytest.fixture
def machine(request: pytest.FixtureRequest, tmp_path: Path) -> HardwareProfile:
    return profile(str(plant(request.param, tmp_path)))


def facts_of(hardware: HardwareProfile) -> dict[str, object]:
    whole = {"total": hardware.total(), "free": hardware.free()}
    # Through JSON, as `grid probe --json` shows it.
    return {
        **msgspec.json.decode(msgspec.json.encode(hardware)),
        **msgspec.json.decode(msgspec.json.encode(whole)),
    }


def fact(facts: object, dotted: str) -> object:
    for step in dotted.split("."):
        facts = facts[int(step)] if step.isdigit() else facts[step]  # type: ignore[index]
    return "none" if facts is None else facts


def test_the_ten_machines_of_the_demand_are_here() -> None:
    assert set(NAMES) >= {
        "raspberry-pi-4",
        "jetson-orin",
        "nuc",
        "laptop-battery",
        "laptop-ac",
        "desktop-gpu",
        "gpu-server-8",
        "cloud-vm",
        "container-cgroup-v1",
        "container-cgroup-v2",
    }


@pytest.mark.parametrize("name", NAMES)
def test_each_tree_names_the_documents_it_was_written_from(name: str) -> None:
    assert "Documentation/" in description(name)["source"]


@pytest.mark.rows("S2-02", "S2-03", "S2-04", "S2-05", "S2-07", "S2-11")
@pytest.mark.parametrize(("name", "machine"), [(n, n) for n in NAMES], indirect=["machine"])
def test_each_tree_gets_its_class(name: str, machine: HardwareProfile) -> None:
    expected = description(name)["class"]

    made = msgspec.to_builtins(classify(machine))

    assert {key: value for key, value in made.items() if value is not None} == expected


@pytest.mark.rows(
    "S1-04", "S1-05", "S1-06", "S1-07", "S1-08", "S1-09",
    "S2-58", "S2-59", "S2-60", "S2-61", "S2-62", "S2-66", "S2-67", "S2-68", "S2-71", "S2-72",
)  # fmt: skip
@pytest.mark.parametrize(("name", "machine"), [(n, n) for n in NAMES], indirect=["machine"])
def test_each_tree_shows_the_facts_it_promises(name: str, machine: HardwareProfile) -> None:
    facts = facts_of(machine)
    expected = description(name)["expect"]

    assert {dotted: fact(facts, dotted) for dotted in expected} == expected


@pytest.mark.parametrize("machine", NAMES, indirect=True)
def test_what_is_missing_has_a_reason_and_no_reader_broke(machine: HardwareProfile) -> None:
    assert not [why for why in machine.absent.values() if OUR_BUG in why]
    assert all(why and "\n" not in why for why in machine.absent.values())
    # Never measured on the machine that runs the test.
    assert machine.compute is None
    assert "compute" in machine.absent
    assert machine.storage.free_bytes is None
    assert "storage.free" in machine.absent


@pytest.mark.parametrize("machine", ["laptop-battery"], indirect=True)
def test_the_battery_of_a_mouse_is_not_the_machines(machine: HardwareProfile) -> None:
    assert machine.power.battery is not None
    assert machine.power.battery.percent == 46


@pytest.mark.parametrize("machine", ["desktop-gpu"], indirect=True)
def test_the_made_up_speed_of_a_cable_end_is_not_bandwidth(machine: HardwareProfile) -> None:
    assert max(nic.speed_mbps or 0 for nic in machine.nics) == 10_000
    assert machine.bandwidth_mbps == 1_000


@pytest.mark.parametrize("machine", ["container-cgroup-v1"], indirect=True)
def test_without_its_limits_the_container_would_be_a_data_centre(machine: HardwareProfile) -> None:
    unlimited = msgspec.structs.replace(machine, limits=HardwareProfile().limits)

    assert classify(unlimited).name == "datacenter"
    assert classify(machine).name == "workstation"
