"""Does a file of nodes mean what it says?"""

import json

import msgspec
import pytest

from distributed_grid.config.fleet import fleet_of, read_fleet
from distributed_grid.errors import BadInput
from distributed_grid.model.bytesize import GIB, TIB
from distributed_grid.model.gpus import Gpu
from distributed_grid.model.node import Network, NodeRecord, Power
from distributed_grid.model.node_class import DataCenter, Edge, Laptop, Workstation
from distributed_grid.model.resources import Resources

ATTIC = """
- id: 5F0c000000000000000000000000000000000000000000000000000000000001
  name: attic
  class: workstation
  labels: {zone: home, ssd: "true"}
  capabilities: {cpu_cores: 16, memory: 64GiB, storage: 2TiB,
                 gpus: [{model: GeForce RTX 4090, memory: 24GiB, count: 2, compute_capability: 8.9}],
                 arch: x86_64, features: [avx2, aes], custom: {tpu: 4, "licence:matlab": 0.5}}
  capacity: {cpu_cores: 9.5, memory: 40GiB, storage: 1TiB,
             gpus: [{model: RTX4090, count: 1.25}], custom: {tpu: 3}}
  power: {on_battery: false, battery_percent: 100, temperature_c: 55.5, watts_idle: 60, watts_max: 450}
  network: {bandwidth_mbps: 1000, latency_ms: 4.25, reachability: direct}
  price_per_hour: 0.35
  age_seconds: 3
  running: [web, db]
  verification: verified
  pretended: true
"""
LEAST = {"id": "a" * 64, "name": "n", "capabilities": {}, "capacity": {}}


def test_every_fact_of_a_node_is_read(tmp_path):
    file = tmp_path / "nodes.yaml"
    file.write_text(ATTIC)
    gpus = [
        Gpu(
            device=f"RTX4090#00{n}",
            model="RTX4090",
            memory_bytes=24 * GIB,
            compute_capability=89,
            share_milli=share,
        )
        for n, share in ((0, 1_000), (1, 1_000), (1, 250))
    ]

    (node,) = read_fleet(str(file))

    assert node == NodeRecord(
        id="5f0c000000000000000000000000000000000000000000000000000000000001",
        name="attic",
        total=Resources(
            cpu_milli=16_000,
            memory_bytes=64 * GIB,
            storage_bytes=2 * TIB,
            gpus=tuple(gpus[:2]),
            custom=(("licence:matlab", 500), ("tpu", 4_000)),
        ),
        free=Resources(
            cpu_milli=9_500,
            memory_bytes=40 * GIB,
            storage_bytes=TIB,
            gpus=tuple(gpus[::2]),
            custom=(("tpu", 3_000),),
        ),
        node_class=Workstation(gpu_capable=True),
        labels={"zone": "home", "ssd": "true"},
        arch="x86_64",
        features=("aes", "avx2"),
        power=Power(battery_percent=100, temperature_centi=5_550, idle_mw=60_000, max_mw=450_000),
        network=Network(bandwidth_kbps=10**6, latency_us=4_250, reachability="direct"),
        price_micro_per_hour=350_000,
        age_ms=3_000,
        jobs=2,
        running=("db", "web"),
        verification="verified",
        pretended=True,
    )


def test_json_says_the_same(tmp_path):
    file, other = tmp_path / "nodes.yaml", tmp_path / "nodes.json"
    file.write_text(ATTIC)
    entry = {
        "id": "5f0c000000000000000000000000000000000000000000000000000000000001",
        "name": "attic",
        "class": "Workstation",
        "labels": {"zone": "home", "ssd": "true"},
        "capabilities": {
            "cpu_cores": 16,
            "memory": 64 * GIB,
            "storage": "2TiB",
            "gpus": [
                {"model": "4090 RTX", "count": 2, "memory": "24GiB", "compute_capability": 8.9}
            ],
            "arch": "x86_64",
            "features": ["avx2", "aes"],
            "custom": {"tpu": 4, "licence:matlab": 0.5},
        },
        "capacity": {
            "cpu_cores": 9.5,
            "memory": "40GiB",
            "storage": "1TiB",
            "gpus": [{"model": "4090 RTX", "count": 1.25}],
            "custom": {"tpu": 3},
        },
        "power": {
            "on_battery": False,
            "battery_percent": 100,
            "temperature_c": 55.5,
            "watts_idle": 60,
            "watts_max": 450,
        },
        "network": {"bandwidth_mbps": 1_000, "latency_ms": 4.25, "reachability": "direct"},
        "price_per_hour": 0.35,
        "age_seconds": 3,
        "running": ["web", "db"],
        "verification": "verified",
        "pretended": True,
    }
    other.write_text(json.dumps([entry]).replace("4090 RTX", "RTX4090"))

    assert read_fleet(str(other)) == read_fleet(str(file))


def test_only_id_name_capabilities_and_capacity_are_needed():
    (node,) = fleet_of("f", [LEAST])

    assert node == NodeRecord(id="a" * 64, name="n", total=Resources(), free=Resources())


@pytest.mark.parametrize(
    ("word", "facts", "node_class"),
    [
        ("datacenter", {"network": {"bandwidth_mbps": 400}}, DataCenter(gpus=0, bandwidth=400)),
        ("data-center", {}, DataCenter(gpus=0, bandwidth=None)),
        ("Workstation", {}, Workstation(gpu_capable=False)),
        ("LAPTOP", {"power": {"battery_percent": 40}}, Laptop(battery_level=40)),
        ("edge", {}, Edge()),
        (None, {"power": {"on_battery": True}}, Laptop(battery_level=None)),
        (None, {"capabilities": {"cpu_cores": 4, "arch": "aarch64"}}, Edge()),
        (None, {"capabilities": {"gpus": [{"model": "H100", "count": 8}]}}, DataCenter(gpus=8)),
        (None, {}, Workstation()),
    ],
)
def test_a_class_is_what_is_written_and_else_worked_out(word, facts, node_class):
    (node,) = fleet_of("f", [LEAST | facts | ({"class": word} if word else {})])

    assert node.node_class == node_class


def test_what_runs_is_counted_unless_a_count_is_given():
    counted, given = fleet_of(
        "f", [LEAST | {"running": "db"}, LEAST | {"id": "b" * 64, "running": ["db"], "jobs": 7}]
    )

    assert (counted.jobs, given.jobs) == (1, 7)


def broken(change, drop=()):
    entry = {**LEAST, **change}
    return {key: value for key, value in entry.items() if key not in drop}


H100S = {"gpus": [{"model": "H100", "count": 2}]}
CASES = [
    (broken({}, drop=["id"]), "$[0]", "the key 'id'"),
    (broken({"id": "5f0c"}), "$[0].id", "has 4 characters"),
    (broken({"id": int("1" * 64)}), "$[0].id", "as text"),
    (broken({"name": ""}), "$[0].name", "a name of printable characters"),
    (broken({"name": "a\x1b[31m"}), "$[0].name", "a name of printable characters"),
    (broken({"name": "x" * 254}), "$[0].name", "at most 253 characters"),
    (broken({"name": 5}), "$[0].name", "a name"),
    (broken({"class": "desktop"}), "$[0].class", "one of datacenter, workstation, laptop, edge"),
    (broken({"class": 5}), "$[0].class", "one of datacenter"),
    (broken({"labels": ["a"]}), "$[0].labels", "a mapping of names to text"),
    (broken({"labels": {"a": 5}}), "$[0].labels.a", "expected text"),
    (broken({"labels": {"a": "\n"}}), "$[0].labels.a", "expected text"),
    (broken({"labels": {"\n": "a"}}), "$[0].labels", "a name of printable"),
    (broken({"labels": {str(n): "" for n in range(65)}}), "$[0].labels", "at most 64 labels"),
    (broken({"capabilities": None}), "$[0].capabilities", "a mapping"),
    (broken({"capabilities": {"cpu_cores": -1}}), "$[0].capabilities.cpu_cores", "0 or more"),
    (broken({"capabilities": {"cpu_cores": 10**30}}), "$[0].capabilities.cpu_cores", "at most"),
    (broken({"capabilities": {"memory": "lots"}}), "$[0].capabilities.memory", "bytes"),
    (broken({"capabilities": {"gpus": [{}]}}), "$[0].capabilities.gpus[0]", "the key 'model'"),
    (
        broken({"capabilities": {"gpus": [{"model": "H100", "count": 1.5}]}}),
        "$[0].capabilities.gpus",
        "whole GPUs",
    ),
    (
        broken({"capabilities": {"gpus": [{"model": "H100", "count": 0}]}}),
        "$[0].capabilities.gpus",
        "whole GPUs",
    ),
    (
        broken({"capabilities": {"gpus": [{"model": "H100"}, {"model": "NVIDIA H100"}]}}),
        "$[0].capabilities.gpus",
        "each GPU model by its name, once",
    ),
    (
        broken({"capabilities": {"gpus": [{"model": "H100", "count": 1_025}]}}),
        "$[0].capabilities.gpus[0].count",
        "at most 1024 GPUs",
    ),
    (
        broken(
            {"capabilities": {"gpus": [{"model": m, "count": 1_000} for m in ("H100", "A100")]}}
        ),
        "$[0].capabilities",
        "at most 1024 GPUs",
    ),
    (
        broken({"capabilities": {"custom": {f"k{n}": 1 for n in range(65)}}}),
        "$[0].capabilities",
        "at most 64 kinds",
    ),
    (broken({"capabilities": {"custom": {"cpu": 1}}}), "$[0].capabilities.custom", "a kind such"),
    (broken({"capabilities": {"custom": [1]}}), "$[0].capabilities.custom", "a mapping of kinds"),
    (broken({"capacity": {"cpu_cores": 1}}), "$[0].capacity", "within the capabilities"),
    (broken({"capacity": {"gpus": [{"model": "H100"}]}}), "$[0].capacity.gpus", "at most the 0"),
    (
        broken({"capabilities": H100S, "capacity": {"gpus": [{"model": "H100", "count": 2.5}]}}),
        "$[0].capacity.gpus",
        "at most the 2 H100",
    ),
    (
        broken(
            {
                "capabilities": H100S,
                "capacity": {"gpus": [{"model": "H100"}, {"model": "H100"}]},
            }
        ),
        "$[0].capacity.gpus",
        "listed once",
    ),
    (broken({"power": {"battery_percent": 101}}), "$[0].power.battery_percent", "from 0 to 100"),
    (broken({"power": {"on_battery": "yes"}}), "$[0].power.on_battery", "true or false"),
    (broken({"power": {"temperature_c": 301}}), "$[0].power.temperature_c", "from -100 to 300"),
    (broken({"network": {"latency_ms": -1}}), "$[0].network.latency_ms", "from 0 to"),
    (broken({"network": {"latency_ms": "nan"}}), "$[0].network.latency_ms", "from 0 to"),
    (broken({"network": {"reachability": "near"}}), "$[0].network.reachability", "one of direct"),
    (broken({"price_per_hour": 10**30}), "$[0].price_per_hour", "a price from 0"),
    (broken({"age_seconds": "1e999999"}), "$[0].age_seconds", "seconds from 0"),
    (broken({"jobs": -1}), "$[0].jobs", "a count from 0"),
    (broken({"running": 5}), "$[0].running", "a name or a list"),
    (broken({"running": ["x"] * 10_001}), "$[0].running", "at most 10000"),
    (broken({"verification": "sure"}), "$[0].verification", "one of claimed"),
    (broken({"colour": "red"}), "$[0]", "has the unknown key 'colour'"),
]


@pytest.mark.parametrize(("entry", "path", "problem"), CASES, ids=[case[2] for case in CASES])
def test_a_node_that_makes_no_sense_is_refused_with_its_path(entry, path, problem):
    with pytest.raises(BadInput) as caught:
        fleet_of("nodes.yaml", [entry])

    assert (caught.value.file, caught.value.path) == ("nodes.yaml", path)
    assert problem in caught.value.problem
    assert str(caught.value).isprintable()


def test_an_id_may_stand_once_only():
    entries = [LEAST, LEAST | {"id": "b" * 64}, LEAST | {"id": "A" * 64}]
    with pytest.raises(BadInput) as caught:
        fleet_of("f", entries)

    assert (caught.value.path, caught.value.problem) == ("$[2].id", "is the id of $[0] too")


@pytest.mark.parametrize("document", [{}, "x", None, {"nodes": []}])
def test_a_fleet_is_a_list(document):
    with pytest.raises(BadInput, match="expected a list of nodes"):
        fleet_of("f", document)


def test_what_a_file_does_not_say_is_the_default_of_the_record():
    (node,) = fleet_of("f", [LEAST])
    defaults = {f.name: f.default for f in msgspec.structs.fields(NodeRecord) if not f.required}

    for name, default in defaults.items():
        if default is not msgspec.NODEFAULT:
            assert getattr(node, name) == default, name


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"jobs": "2.5"}, "$[0].jobs"),
        ({"power": {"battery_percent": "55.5"}}, "$[0].power.battery_percent"),
        (
            {"capabilities": {"gpus": [{"model": "any"}]}, "capacity": {}},
            "$[0].capabilities.gpus",
        ),
    ],
)
def test_what_would_have_to_be_guessed_is_refused(change, path):
    entry = {"id": "ab" * 32, "name": "x", "capabilities": {}, "capacity": {}} | change

    with pytest.raises(BadInput) as refused:
        fleet_of("nodes.json", [entry])

    assert refused.value.path == path
