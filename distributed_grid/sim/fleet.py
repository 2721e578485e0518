"""A fleet of unlike machines, and a mixed batch of jobs for it.

Lives here: realistic made-up nodes and jobs. They are marked as pretended, as all hardware that
nobody has seen.
"""

import random

from distributed_grid.model import milli
from distributed_grid.model.bytesize import GIB, TIB
from distributed_grid.model.gpus import ANY, GpuRequest
from distributed_grid.model.ids import JobId, NodeId
from distributed_grid.model.job import JobSpec, Where
from distributed_grid.model.node import Network, NodeRecord, Power, unnamed_gpus
from distributed_grid.model.node_class import AnyNodeClass, DataCenter, Edge, Laptop, Workstation
from distributed_grid.model.resources import Request, Resources

# class: (of a hundred, cores, GiB a core, GPU models, GPU counts, W idle, W max, latency us)
_MACHINES = {
    "datacenter": (25, (32, 64, 128), 8, ("H100", "A100", "L40S"), (0, 4, 8), 250, 6_000, 400),
    "workstation": (35, (8, 16, 32), 4, ("RTX4090", "RTX3090"), (0, 1, 1, 2), 60, 700, 2_000),
    "laptop": (25, (4, 8, 12), 4, ("RTX4070LAPTOP",), (0, 0, 0, 1), 10, 90, 15_000),
    "edge": (15, (4, 6), 2, ("ORIN",), (0, 0, 1), 4, 25, 30_000),
}
_GPU_GIB = {
    "H100": 80,
    "A100": 40,
    "L40S": 48,
    "RTX4090": 24,
    "RTX3090": 24,
    "RTX4070LAPTOP": 8,
    "ORIN": 8,
}
_ZONES = ("attic", "cellar", "lab", "office", "rack-1", "rack-2")


def random_fleet(count: int, *, seed: int) -> list[NodeRecord]:
    """Nodes of all four classes, partly busy, some on battery, some far away, a few silent."""
    rng = random.Random(f"{seed}/fleet")
    kinds = rng.choices(list(_MACHINES), [facts[0] for facts in _MACHINES.values()], k=count)
    return [_machine(rng, kind, index) for index, kind in enumerate(kinds)]


def random_jobs(count: int, *, seed: int) -> list[JobSpec]:
    """A mixed batch: mostly small CPU jobs, some GPU training, a few large or picky ones."""
    rng = random.Random(f"{seed}/jobs")
    makers = rng.choices((_small, _training, _large, _picky), (60, 25, 10, 5), k=count)
    return [make(rng, index) for index, make in enumerate(makers)]


def _machine(rng: random.Random, kind: str, index: int) -> NodeRecord:
    _, cores, gib_a_core, gpu_models, gpu_counts, idle_w, max_w, latency_us = _MACHINES[kind]
    cpu_milli = rng.choice(cores) * milli.WHOLE
    memory_bytes = cpu_milli // milli.WHOLE * gib_a_core * GIB
    storage_bytes = rng.choice((1, 2, 4)) * TIB
    model = rng.choice(gpu_models)
    memory_each = _GPU_GIB[model] * GIB
    gpus = unnamed_gpus(model, rng.choice(gpu_counts), memory_bytes=memory_each)
    total = Resources(
        cpu_milli=cpu_milli, memory_bytes=memory_bytes, storage_bytes=storage_bytes, gpus=gpus
    )
    busy_percent = rng.randrange(0, 90)
    free = Resources(
        cpu_milli=cpu_milli * (100 - busy_percent) // 100,
        memory_bytes=memory_bytes * (100 - busy_percent) // 100,
        storage_bytes=storage_bytes // 2,
        gpus=gpus[: len(gpus) - len(gpus) * busy_percent // 100],
    )
    on_battery = kind == "laptop" and rng.random() < 0.5
    battery = rng.randrange(5, 101) if kind == "laptop" else None
    return NodeRecord(
        id=NodeId(f"{rng.getrandbits(256):064x}"),
        name=f"{kind}-{index}",
        total=total,
        free=free,
        node_class=_class(kind, len(gpus), battery),
        labels={"zone": rng.choice(_ZONES), "ssd": rng.choice(("true", "false"))},
        arch="aarch64" if kind == "edge" else "x86_64",
        power=Power(
            on_battery=on_battery,
            battery_percent=battery,
            temperature_centi=rng.randrange(3_000, 9_000),
            idle_mw=idle_w * 1_000,
            max_mw=max_w * 1_000,
        ),
        network=Network(
            latency_us=latency_us * rng.randrange(50, 300) // 100,
            reachability="relayed" if kind == "laptop" and rng.random() < 0.3 else "direct",
        ),
        price_micro_per_hour=len(gpus) * 1_900_000 if kind == "datacenter" else 0,
        age_ms=rng.choice((500, 2_000, 4_000, 4_000, 90_000)) if kind == "laptop" else 1_000,
        jobs=busy_percent // 10,
        pretended=True,
    )


def _class(kind: str, gpu_count: int, battery: int | None) -> AnyNodeClass:
    match kind:
        case "datacenter":
            return DataCenter(gpus=gpu_count, bandwidth=25_000)
        case "laptop":
            return Laptop(battery_level=battery)
        case "edge":
            return Edge(device_type="jetson-orin" if gpu_count else "raspberry-pi")
    return Workstation(gpu_capable=gpu_count > 0)


def _job(rng: random.Random, name: str, request: Request, require: Where | None = None) -> JobSpec:
    return JobSpec(
        id=JobId(f"{rng.getrandbits(256):064x}"),
        name=name,
        request=request,
        require=require or Where(),
    )


def _small(rng: random.Random, index: int) -> JobSpec:
    cores = rng.choice((1, 1, 2, 4))
    request = Request(cpu_milli=cores * milli.WHOLE, memory_bytes=cores * 2 * GIB)
    return _job(rng, f"sweep-{index}", request)


def _training(rng: random.Random, index: int) -> JobSpec:
    gpus = GpuRequest(
        milli=rng.choice((500, 1_000, 1_000, 2_000)), model=ANY, memory_bytes=20 * GIB
    )
    return _job(rng, f"train-{index}", Request(cpu_milli=4_000, memory_bytes=16 * GIB, gpus=gpus))


def _large(rng: random.Random, index: int) -> JobSpec:
    gpus = GpuRequest(milli=8_000, model="H100")
    request = Request(cpu_milli=32_000, memory_bytes=256 * GIB, gpus=gpus)
    return _job(rng, f"pretrain-{index}", request)


def _picky(rng: random.Random, index: int) -> JobSpec:
    where = Where(
        classes=("workstation",), labels=(("zone", rng.choice(_ZONES)),), latency_us_max=3_000
    )
    return _job(rng, f"render-{index}", Request(cpu_milli=8_000, memory_bytes=16 * GIB), where)
