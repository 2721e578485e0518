"""How a hardware profile looks on a terminal.

Lives here: units and words for people. Never here: facts, decisions, consoles (`render`).
Invariant: a pretended group says so on its own line; what is absent stands at the end, with why.
"""

from collections.abc import Iterator

from rich.console import Console
from rich.markup import escape

from distributed_grid.cli.probe import ProbeReport
from distributed_grid.model import bytesize, milli
from distributed_grid.model.hardware import HardwareProfile
from distributed_grid.model.hardware_gpu import LINK_KINDS, GpuDevice
from distributed_grid.model.hardware_parts import Cpu, Nic, Power
from distributed_grid.model.node_class import AnyNodeClass, DataCenter, Edge, Laptop, Workstation
from distributed_grid.model.resources import Resources

_LABEL_WIDTH = 13
_THERMALS_SHOWN = 6  # The hottest tell enough; `--json` has them all.
_FEATURES_SHOWN = ("avx512f", "avx2", "avx", "amx_tile", "asimd", "sve", "neon", "aes", "sha_ni")


def show(console: Console, hardware: HardwareProfile, report: ProbeReport) -> None:
    """Print the profile in groups."""
    mark = dict.fromkeys(hardware.pretended, " [yellow](pretended)[/yellow]")
    _line(console, "class", f"[bold]{class_text(report.node_class)}[/bold]{mark.get('class', '')}")
    _line(console, "", f"[dim]because {escape(report.class_reason)}[/dim]")
    for group, label, lines in _groups(hardware):
        for number, line in enumerate(lines):
            suffix = mark.get(group, "") if number == 0 else ""
            _line(console, label if number == 0 else "", escape(line) + suffix)
    _line(
        console, "for jobs", escape(f"{_amounts(report.total)}; free now: {_amounts(report.free)}")
    )
    if hardware.absent:
        console.print("\n[dim]not known:[/dim]")
        for fact in sorted(hardware.absent):
            text = f"  {fact:<26} {hardware.absent[fact]}"
            console.print(f"[dim]{escape(text)}[/dim]", soft_wrap=True)
    console.print(f"[dim]read in {report.elapsed_ms} ms[/dim]")


def class_text(node_class: AnyNodeClass) -> str:
    """The class in a few words."""
    match node_class:
        case DataCenter(gpus=gpus, bandwidth=bandwidth):
            speed = f", {_speed(bandwidth)}" if bandwidth else ""
            return f"data centre, {gpus} GPUs{speed}"
        case Workstation(gpu_capable=gpu_capable):
            return f"workstation {'with GPU' if gpu_capable else 'without GPU'}"
        case Laptop(battery_level=level):
            return "laptop" if level is None else f"laptop, battery at {level} %"
        case Edge(device_type=device_type):
            return f"edge device: {device_type}"


def _line(console: Console, label: str, text: str) -> None:
    console.print(f"[cyan]{label:<{_LABEL_WIDTH}}[/cyan]{text}", soft_wrap=True)


def _groups(hardware: HardwareProfile) -> Iterator[tuple[str, str, list[str]]]:
    board, os = hardware.board, hardware.os
    machine = [board.device_tree_model or " ".join(w for w in (board.vendor, board.product) if w)]
    yield "board", "machine", [m for m in machine if m]
    yield "os", "system", [_joined(os.pretty_name or os.name, os.kernel and f"Linux {os.kernel}")]
    around = hardware.virtualisation
    kinds = {None: None, "none": "bare metal", "unknown": "a VM of unknown kind"}
    words = (
        kinds.get(around.kind, f"{around.kind} VM"),
        around.cloud,
        around.container and f"inside {around.container}",
    )
    yield "virtualisation", "runs on", [_joined(*words)] if any(words) else []
    yield "cpu", "cpu", _cpu(hardware.cpu)
    yield "memory", "memory", [_memory(hardware)] if hardware.memory.total_bytes else []
    yield "limits", "limits", _limits(hardware)
    yield "storage", "storage", _storage(hardware)
    yield "gpus", "gpu", [line for gpu in hardware.gpus for line in _gpu(gpu, hardware.gpus)]
    yield "network", "network", [_nic(nic) for nic in hardware.nics]
    yield "power", "power", _power(hardware.power)
    yield "thermals", "thermals", _thermals(hardware)
    yield "security", "security", _security(hardware)
    yield "runtimes", "containers", [_runtimes(hardware)] if hardware.runtimes else []
    score = hardware.compute
    if score:
        gflops = f"{score.mega_flops / 1_000:.2f} GFLOPS"
        how = f"{score.method}; {_count(score.cores, 'core')}, {score.milliseconds} ms"
        yield "compute", "compute", [f"{gflops} measured ({how})"]


def _cpu(cpu: Cpu) -> list[str]:
    cores = (
        None
        if cpu.logical_cores is None
        else f"{cpu.physical_cores or '?'} cores, {cpu.logical_cores} threads"
    )
    now = cpu.frequency_khz and f"{cpu.frequency_khz / 1e6:.2f} GHz"
    most = cpu.frequency_max_khz and f"up to {cpu.frequency_max_khz / 1e6:.2f} GHz"
    lines = [_joined(cpu.model, cpu.arch, cores, now, most)]
    caches = [
        f"L{c.level}{c.kind[0] if c.kind != 'unified' else ''} {bytesize.text(c.size_bytes)}"
        for c in cpu.caches
    ]
    numa = len(cpu.numa_nodes) and _count(len(cpu.numa_nodes), "NUMA node")
    known = [word for word in _FEATURES_SHOWN if word in cpu.features]
    more = _joined(" ".join(caches), numa, " ".join(known))
    return [line for line in (*lines, more) if line]


def _memory(hardware: HardwareProfile) -> str:
    memory = hardware.memory
    available = memory.available_bytes
    return _joined(
        bytesize.text(memory.total_bytes or 0),
        None if available is None else f"{bytesize.text(available)} available",
        memory.swap_bytes and f"{bytesize.text(memory.swap_bytes)} swap",
    )


def _limits(hardware: HardwareProfile) -> list[str]:
    limits = hardware.limits
    lines = []
    if limits.cpu_milli is not None and limits.cpu_limit != "pretended":
        lines.append(f"{milli.text(limits.cpu_milli)} cores ({limits.cpu_limit})")
    if limits.memory_bytes is not None:
        lines.append(f"{bytesize.text(limits.memory_bytes)} memory ({limits.memory_limit})")
    return lines


def _storage(hardware: HardwareProfile) -> list[str]:
    names = {"nvme": "NVMe", "ssd": "SSD", "hdd": "HDD"}
    lines = [
        _joined(
            f"{disk.name} {names.get(disk.kind, disk.kind)} {bytesize.text(disk.capacity_bytes)}",
            disk.model,
            disk.removable and "removable",
        )
        for disk in hardware.storage.disks
    ]
    storage = hardware.storage
    if storage.free_bytes is not None and storage.file_system_bytes is not None:
        space = f"{bytesize.text(storage.free_bytes)} free of {bytesize.text(storage.file_system_bytes)}"
        lines.append(f"{space} at {storage.path}" if storage.path else space)
    return lines


def _gpu(gpu: GpuDevice, others: tuple[GpuDevice, ...]) -> Iterator[str]:
    capability = gpu.compute_capability
    yield _joined(
        f"{gpu.index}: {gpu.name}",
        gpu.memory_bytes and bytesize.text(gpu.memory_bytes),
        capability and f"compute {capability // 10}.{capability % 10}",
        None if gpu.utilisation_milli is None else f"{gpu.utilisation_milli / 10:g} % busy",
        None if gpu.temperature_centi is None else _degrees(gpu.temperature_centi),
        gpu.integrated and "integrated, not granted",
        gpu.driver and f"driver {gpu.driver}",
        gpu.pci_id,
    )
    if gpu.healthy is False:
        yield f"   unhealthy, not granted: {'; '.join(gpu.health)}"
    for piece in gpu.mig:
        yield _joined(f"   MIG {piece.name}", bytesize.text(piece.memory_bytes or 0), piece.uuid)
    index = {other.device: other.index for other in others}
    for kind in LINK_KINDS:
        ends = [link for link in gpu.links if link.kind == kind]
        if ends:
            lanes = f" x{ends[0].lanes}" if ends[0].lanes else ""
            yield f"   {kind}{lanes} to {', '.join(str(index.get(end.to, '?')) for end in ends)}"


def _nic(nic: Nic) -> str:
    return _joined(
        f"{nic.name} {nic.kind}",
        nic.speed_mbps and _speed(nic.speed_mbps),
        {True: "up", False: "down"}.get(bool(nic.up)) if nic.up is not None else None,
        ", ".join(nic.addresses),
        nic.container_bridge and "container bridge",
    )


def _power(power: Power) -> list[str]:
    battery = power.battery
    words = _joined(
        power.source and {"ac": "AC"}.get(power.source, power.source),
        battery and battery.percent is not None and f"battery at {battery.percent} %",
        battery and battery.state,
        battery and battery.runtime_minutes and f"{battery.runtime_minutes} min left",
        power.plan and f"plan {power.plan}",
        power.source is None and battery is None and "no battery",
    )
    return [words] if words else []


def _thermals(hardware: HardwareProfile) -> list[str]:
    known = [sensor for sensor in hardware.thermals if sensor.temperature_centi is not None]
    known.sort(key=lambda sensor: (-(sensor.temperature_centi or 0), sensor.name))
    lines = []
    for sensor in known[:_THERMALS_SHOWN]:
        limit = sensor.limit_centi and f"throttles at {_degrees(sensor.limit_centi)}"
        critical = sensor.critical_centi and f"off at {_degrees(sensor.critical_centi)}"
        lines.append(
            _joined(f"{sensor.name} {_degrees(sensor.temperature_centi or 0)}", limit, critical)
        )
    return lines


def _security(hardware: HardwareProfile) -> list[str]:
    security = hardware.security
    words = _joined(
        security.tpm_version and f"TPM {security.tpm_version}",
        (security.sev or security.sev_usable)
        and f"SEV{' usable' if security.sev_usable else ' in the CPU'}",
        (security.sgx or security.sgx_usable)
        and f"SGX{' usable' if security.sgx_usable else ' in the CPU'}",
    )
    return [words] if words else []


def _runtimes(hardware: HardwareProfile) -> str:
    return ", ".join(
        f"{runtime.name} ({'socket ' + runtime.socket if runtime.socket else runtime.path})"
        for runtime in hardware.runtimes
    )


def _amounts(resources: Resources) -> str:
    gpus = len(resources.gpus)
    return _joined(
        f"{milli.text(resources.cpu_milli)} cores",
        f"{bytesize.text(resources.memory_bytes)} memory",
        resources.storage_bytes and f"{bytesize.text(resources.storage_bytes)} storage",
        gpus and _count(gpus, "GPU"),
    )


def _speed(mbps: int) -> str:
    return f"{mbps / 1_000:g} Gbit/s" if mbps >= 1_000 else f"{mbps} Mbit/s"


def _degrees(centi: int) -> str:
    return f"{centi / 100:.0f} °C"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _joined(*parts: object) -> str:
    return ", ".join(str(part) for part in parts if part)
