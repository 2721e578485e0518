"""What the owner uses, measured: Grid's own jobs are not in it, and pretended hardware is idle."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from distributed_grid.config.pretend import read_pretend
from distributed_grid.edges.probe.job_load import JobLoad, job_load, used_by
from distributed_grid.edges.probe.load import Sampler
from distributed_grid.edges.probe.machine import profile
from distributed_grid.edges.probe.tree import Tree
from distributed_grid.errors import BadValue
from distributed_grid.model.bytesize import GIB
from distributed_grid.model.hardware import HardwareProfile
from distributed_grid.model.hardware_parts import Cpu, Limits, Memory, Storage
from distributed_grid.model.lending import Sample
from distributed_grid.model.pretend import PretendLoad
from tests.trees.growing import grown

MONDAY_NOON = time.struct_time((2026, 1, 5, 12, 34, 0, 0, 5, 0))
KEEPER = 100
JUNKED = (
    *("/proc/stat", "/proc/meminfo", "/proc/loadavg", "/proc/interrupts"),
    *(f"/proc/{KEEPER}/stat", f"/proc/{KEEPER}/statm", f"/proc/{KEEPER}/task/1/children"),
)


def stat(*, user: int = 0, idle: int = 0, iowait: int = 0, steal: int = 0, cores: int = 4) -> str:
    lines = [f"cpu  {user} 0 0 {idle} {iowait} 0 0 {steal} 0 0"]
    lines += [f"cpu{core} 0 0 0 0 0 0 0 0 0 0" for core in range(cores)]
    return "\n".join([*lines, "intr 5", "ctxt 9"])


def meminfo(available: int) -> str:
    return f"MemTotal: {16 << 20} kB\nMemAvailable: {available << 20} kB\n"


def process(pid: int, *, ticks=(0, 0, 0, 0), pages=(0, 0), children=()) -> dict[str, str]:
    times = " ".join(map(str, ticks))
    return {
        f"/proc/{pid}/stat": f"{pid} (a (b) c) S 1 1 1 0 -1 0 0 0 0 0 {times} 20 0 1 0 5 0 0",
        f"/proc/{pid}/statm": f"999 {pages[0]} {pages[1]} 1 0 1 0",
        f"/proc/{pid}/task/{pid}/children": " ".join(map(str, children)),
    }


class Machine:
    """Four cores and 16 GiB below a directory, and a sampler of it."""

    def __init__(self, root: Path, *, limit_milli: int | None = None, **how) -> None:
        self.root = root
        self.write({"/proc/stat": stat(), "/proc/meminfo": meminfo(16), "/proc/loadavg": "0.00 x"})
        self.profile = HardwareProfile(
            cpu=Cpu(logical_cores=4),
            memory=Memory(total_bytes=16 * GIB),
            limits=Limits(cpu_milli=limit_milli),
            storage=Storage(free_bytes=100 * GIB),
        )
        self.sampler = Sampler(
            self.profile, root=str(root), local=lambda _: MONDAY_NOON, own_pid=KEEPER, **how
        )

    def write(self, files: dict[str, str]) -> None:
        grown(self.root, files)

    def sample(self, at_ms: int = 0) -> Sample:
        found = self.sampler.sample(at_ms)
        assert found is not None
        return found


@pytest.mark.rows("S3-11")
def test_between_two_looks_the_use_of_all_cores_is_counted(tmp_path):
    machine = Machine(tmp_path)
    machine.write({"/proc/stat": stat(user=100, idle=250, iowait=40, steal=10)})
    machine.write({"/proc/meminfo": meminfo(12)})
    found = machine.sample(5_000)

    assert (found.cpu_used_milli, found.cpu_total_milli) == (1_000, 4_000)
    assert (found.memory_used_bytes, found.memory_total_bytes) == (4 * GIB, 16 * GIB)
    assert found.storage_free_bytes == 100 * GIB
    assert (found.at_ms, found.local_minute) == (5_000, 12 * 60 + 34)
    assert found.idle_ms is None


def test_the_use_of_grids_own_processes_does_not_count(tmp_path):
    machine = Machine(tmp_path)
    machine.write({"/proc/stat": stat(user=300, idle=100), "/proc/meminfo": meminfo(10)})
    machine.write(process(KEEPER, ticks=(5, 5, 20, 20), children=[101]))
    machine.write(process(101, ticks=(100, 50, 0, 0), pages=(3 << 18, 1 << 18)))
    found = machine.sample()

    assert found.cpu_used_milli == 1_000  # 300 ticks, 200 of them Grid's, of 400.
    assert found.memory_used_bytes == 4 * GIB  # 6 GiB, 2 of them Grid's.


def test_more_of_grids_than_there_is_at_all_is_nothing_of_the_owners(tmp_path):
    machine = Machine(tmp_path)
    machine.write({"/proc/stat": stat(user=100, idle=300), "/proc/meminfo": meminfo(15)})
    machine.write(process(KEEPER, ticks=(900, 0, 0, 0), pages=(1 << 19, 0)))

    assert (machine.sample().cpu_used_milli, machine.sample().memory_used_bytes) == (0, 0)


def test_the_first_look_takes_the_average_of_the_kernel(tmp_path):
    machine = Machine(tmp_path)
    machine.write({"/proc/loadavg": "1.25 0.5 0.1 1/9 9"})

    assert machine.sample().cpu_used_milli == 1_250
    machine.write({"/proc/loadavg": "99.0 0.5 0.1 1/9 9"})
    assert machine.sample().cpu_used_milli == 4_000


def test_two_looks_at_nearly_the_same_moment_say_the_same(tmp_path):
    machine = Machine(tmp_path)
    machine.write({"/proc/stat": stat(user=200, idle=200)})
    assert machine.sample().cpu_used_milli == 2_000
    machine.write({"/proc/stat": stat(user=219, idle=200)})
    assert machine.sample().cpu_used_milli == 2_000
    machine.write({"/proc/stat": stat(user=220, idle=200)})

    assert machine.sample().cpu_used_milli == 4_000


def test_counters_that_went_back_begin_anew(tmp_path):
    machine = Machine(tmp_path)
    machine.write({"/proc/stat": stat(user=200, idle=200)})
    machine.sample()
    machine.write({"/proc/stat": stat(user=1, idle=1)})
    assert machine.sample().cpu_used_milli == 2_000
    machine.write({"/proc/stat": stat(user=1, idle=401)})

    assert machine.sample().cpu_used_milli == 0


def test_in_a_container_others_count_only_when_they_take_our_cores(tmp_path):
    machine = Machine(tmp_path, limit_milli=2_000)
    machine.write({"/proc/stat": stat(user=200, idle=200)})
    assert machine.sample().cpu_used_milli == 0
    machine.write({"/proc/stat": stat(user=500, idle=300)})

    assert machine.sample().cpu_used_milli == 1_000


@pytest.mark.parametrize(
    "files", [{"/proc/stat": "junk"}, {"/proc/stat": ""}, {"/proc/meminfo": ""}]
)
def test_who_sees_nothing_makes_no_sample(tmp_path, files):
    machine = Machine(tmp_path)
    machine.write(files)

    assert machine.sampler.sample(0) is None


@given(st.dictionaries(st.sampled_from(JUNKED), st.text(max_size=60), max_size=6))
@settings(
    max_examples=30,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_junk_in_files_is_a_sample_or_none_and_never_an_error(tmp_path, files):
    machine = Machine(tmp_path)
    machine.write(files | {"/proc/interrupts": files.get("/proc/interrupts", "") + " ²: i8042 ²"})
    found = machine.sampler.sample(0)

    assert found is None or 0 <= found.cpu_used_milli <= 4_000


def test_heat_and_battery_are_looked_at_every_ten_seconds(tmp_path):
    machine = Machine(tmp_path)
    zone, battery = "/sys/class/thermal/thermal_zone0", "/sys/class/power_supply/BAT0"
    machine.write({f"{zone}/type": "cpu", f"{zone}/temp": "61000"})
    machine.write(
        {f"{battery}/type": "Battery", f"{battery}/status": "Discharging"}
        | {f"{battery}/capacity": "46"}
    )
    first = machine.sample(0)
    assert (first.temperature_centi, first.battery_percent, first.is_on_battery) == (
        6_100,
        46,
        True,
    )
    machine.write({f"{zone}/temp": "90000", f"{battery}/status": "Charging"})

    assert machine.sample(9_999).temperature_centi == 6_100
    last = machine.sample(10_000)
    assert (last.temperature_centi, last.is_on_battery) == (9_000, False)


def test_disk_space_is_that_of_the_place_where_jobs_write(tmp_path):
    here = os.statvfs(tmp_path)
    found = Machine(tmp_path, work_path=str(tmp_path)).sample().storage_free_bytes

    assert abs(found - here.f_bavail * here.f_frsize) < GIB
    assert Machine(tmp_path, work_path=str(tmp_path / "gone")).sample().storage_free_bytes == 0


# --- Trees of processes --------------------------------------------------------------------------


def test_a_tree_of_processes_is_added_up_once_each(tmp_path):
    tree = Tree(str(tmp_path))
    grown(tmp_path, process(1, ticks=(1, 2, 3, 4), pages=(30, 10), children=[2, 3, 2]))
    grown(tmp_path, process(2, ticks=(10, 0, 0, 0), pages=(1, 5), children=[1]))
    grown(tmp_path, {"/proc/2/task/9/children": "4 junk"})
    grown(tmp_path, process(4, ticks=(0, 100, 0, 0), pages=(7, 0)))

    assert job_load(tree, 1) == JobLoad(cpu_ticks=120, memory_bytes=27 * 4_096)
    assert job_load(tree, 77) == JobLoad()


def test_what_a_process_of_this_machine_uses_is_told_in_microseconds_and_bytes():
    while time.process_time() < 0.05:
        pass
    cpu_us, memory = used_by(os.getpid())

    assert cpu_us >= 40_000
    assert memory > 1 << 20
    assert used_by(1 << 30) == (0, 0)


def test_what_a_child_used_counts_after_its_end_too():
    burn = "import time\nwhile time.process_time() < 0.3: pass"
    parent = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {burn!r}])\n"
    parent += "print('done', flush=True)\nsys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", parent], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as running:
        assert running.stdout.readline() == b"done\n"
        found = job_load(Tree(), running.pid)
        running.stdin.close()

    assert found.cpu_ticks >= 0.25 * os.sysconf("SC_CLK_TCK")
    assert found.memory_bytes > 1 << 20


def test_this_machine_can_be_measured():
    found = Sampler(profile(), own_pid=os.getpid()).sample(int(time.time() * 1_000))

    assert found is not None
    assert 0 <= found.cpu_used_milli <= found.cpu_total_milli
    assert 0 < found.memory_used_bytes < found.memory_total_bytes


# --- Pretended -----------------------------------------------------------------------------------


def pretending(root: Path, **mapping: object) -> Sample:
    grown(root, {"/proc/stat": stat(), "/proc/meminfo": meminfo(1), "/proc/loadavg": "4.00 x"})
    pretend = read_pretend(mapping)
    machine = profile(str(root), pretend=pretend)
    found = Sampler(machine, pretend=pretend, root=str(root)).sample(0)
    assert found is not None
    return found


def test_pretended_hardware_is_idle(tmp_path):
    found = pretending(
        tmp_path, cpus=16, memory="64GiB", storage="1TiB", gpus=[{"model": "H100", "count": 2}]
    )

    assert (found.cpu_used_milli, found.cpu_total_milli) == (0, 16_000)
    assert (found.memory_used_bytes, found.memory_total_bytes) == (0, 64 * GIB)
    assert found.storage_free_bytes == 1_024 * GIB
    assert [(gpu.device, gpu.utilization_milli) for gpu in found.gpus] == [
        ("H100#0000", 0),
        ("H100#0001", 0),
    ]


def test_a_pretended_load_is_what_is_measured(tmp_path):
    found = pretending(
        tmp_path,
        cpus=16,
        memory="10GiB",
        gpus=["H100"],
        battery_percent=40,
        load={"cpu_percent": 90, "gpu_percent": 50, "memory_percent": 10, "idle_seconds": 5},
    )

    assert found.cpu_used_milli == 14_400
    assert found.memory_used_bytes == GIB
    assert found.gpus[0].utilization_milli == 500
    assert found.idle_ms == 5_000
    assert (found.is_on_battery, found.battery_percent) == (True, 40)


def test_a_load_can_be_pretended_alone(tmp_path):
    found = pretending(tmp_path, load={"cpu_percent": 25, "memory_percent": 0})

    assert found.cpu_used_milli == found.cpu_total_milli // 4
    assert found.memory_used_bytes == 0


@pytest.mark.parametrize(
    ("load", "words"),
    [
        (5, "load as a mapping"),
        ({"cpu_percents": 5}, "Did you mean cpu_percent"),
        ({"cpu_percent": 101}, "from 0 to 100"),
        ({"idle_seconds": -1}, "from 0"),
    ],
)
def test_a_pretended_load_that_makes_no_sense_is_refused(load, words):
    with pytest.raises(BadValue) as error:
        read_pretend({"load": load})

    assert words in str(error.value) + error.value.remedy


def test_without_a_word_no_load_is_pretended():
    assert read_pretend({"cpus": 4}).load is None
    assert read_pretend({"load": {}}).load == PretendLoad()
