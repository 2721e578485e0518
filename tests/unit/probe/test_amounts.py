"""Cores, memory, storage and the limits of containers, each from the few files that tell it."""

from pathlib import Path

import pytest

from distributed_grid.edges.probe import cgroup, cpu, memory, storage
from distributed_grid.edges.probe.tree import Tree
from distributed_grid.model.hardware_parts import Cpu, Limits, Memory
from tests.trees.growing import grown


def limits_of(root: Path, files: dict[str, str], *, cores: int = 64, gib: int = 256) -> Limits:
    tree = grown(root, files)
    return cgroup.limits(tree, Cpu(logical_cores=cores), Memory(total_bytes=gib << 30), {})


class TestCgroup:
    def test_the_tightest_limit_of_all_ancestors_counts(self, tmp_path: Path) -> None:
        found = limits_of(
            tmp_path,
            {
                "/proc/self/cgroup": "0::/kubepods/pod1/main",
                "/sys/fs/cgroup/kubepods/cpu.max": "3200000 100000",
                "/sys/fs/cgroup/kubepods/pod1/cpu.max": "50000 100000",
                "/sys/fs/cgroup/kubepods/pod1/memory.max": "1073741824",
                "/sys/fs/cgroup/kubepods/pod1/main/cpu.max": "max 100000",
                "/sys/fs/cgroup/kubepods/pod1/main/memory.max": "max",
                "/sys/fs/cgroup/kubepods/pod1/main/cpuset.cpus.effective": "0-15",
            },
        )

        assert (found.cpu_milli, found.cpu_limit) == (500, "/sys/fs/cgroup/kubepods/pod1/cpu.max")
        assert found.memory_bytes == 1 << 30
        assert found.memory_limit == "/sys/fs/cgroup/kubepods/pod1/memory.max"
        assert found.memory_used_bytes is None

    def test_the_huge_number_of_v1_is_no_limit(self, tmp_path: Path) -> None:
        found = limits_of(
            tmp_path,
            {
                "/proc/self/cgroup": "4:memory:/\n3:cpu:/\n2:cpuset:/",
                "/sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712",
                "/sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1",
                "/sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000",
                "/sys/fs/cgroup/cpuset/cpuset.cpus": "0-63",
            },
        )

        assert found == Limits(cgroup_version=1)

    def test_v1_quota_and_v2_memory_may_stand_side_by_side(self, tmp_path: Path) -> None:
        """Hybrid hosts: the v2 hierarchy is mounted beside the v1 controllers."""
        found = limits_of(
            tmp_path,
            {
                "/proc/self/cgroup": "1:cpu,cpuacct:/job\n0::/job\nnonsense\n",
                "/proc/self/mountinfo": (
                    "short - line\n30 20 0:1 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
                ),
                "/sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us": "200000",
                "/sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us": "100000",
                "/sys/fs/cgroup/unified/job/memory.max": "4294967296",
                "/sys/fs/cgroup/unified/job/memory.current": "1",
            },
        )

        assert (found.cpu_milli, found.memory_bytes) == (2_000, 4 << 30)
        assert found.memory_used_bytes == 1
        assert found.cgroup_version == 2

    @pytest.mark.parametrize("path", ["/gone", "/../../etc", "/" + "x/" * 100])
    def test_a_path_that_is_not_here_means_the_mount_itself(
        self, tmp_path: Path, path: str
    ) -> None:
        found = limits_of(
            tmp_path,
            {"/proc/self/cgroup": f"0::{path}", "/sys/fs/cgroup/cpu.max": "100000 100000"},
        )

        assert found.cpu_milli == 1_000

    def test_a_limit_above_the_machine_is_none(self, tmp_path: Path) -> None:
        files = {
            "/proc/self/cgroup": "0::/",
            "/sys/fs/cgroup/cpu.max": "800000 100000",
            "/sys/fs/cgroup/memory.max": str(16 << 30),
        }

        assert limits_of(tmp_path, files, cores=4, gib=8) == Limits(cgroup_version=2)

    def test_without_cgroups_there_is_a_reason(self, tmp_path: Path) -> None:
        absent: dict[str, str] = {}

        assert cgroup.limits(Tree(str(tmp_path)), Cpu(), Memory(), absent) == Limits()
        assert "limits.cgroup" in absent


class TestCpu:
    @pytest.mark.parametrize(
        ("cpuinfo", "arch", "model"),
        [
            ("processor: 0\nflags: fpu\nmodel name: 486", "i686", "486"),
            (
                "processor: 0\nCPU architecture: 7\nCPU implementer: 0x41\nCPU part: 0xc07",
                "armv7l",
                "Cortex-A7",
            ),
            ("processor: 0\nisa: rv64imafdc\nuarch: sifive,u74-mc", "riscv64", "sifive,u74-mc"),
            ("processor: 0\ncpu: POWER9, altivec supported", None, "POWER9, altivec supported"),
            ("processor: 0\nCPU implementer: junk\nCPU part: 0xfff", None, None),
        ],
    )
    def test_other_processors(
        self, tmp_path: Path, cpuinfo: str, arch: str | None, model: str | None
    ) -> None:
        absent: dict[str, str] = {}
        found = cpu.cpu(grown(tmp_path, {"/proc/cpuinfo": cpuinfo}), absent)

        assert (found.arch, found.model, found.logical_cores) == (arch, model, 1)
        assert ("cpu.arch" in absent) == (arch is None)
        assert ("cpu.model" in absent) == (model is None)

    @pytest.mark.parametrize(
        ("mhz", "khz"), [("2445.424", 2_445_424), ("800", 800_000), ("0.000", None), ("fast", None)]
    )
    def test_the_frequency_of_proc_is_the_fallback(
        self, tmp_path: Path, mhz: str, khz: int | None
    ) -> None:
        tree = grown(tmp_path, {"/proc/cpuinfo": f"processor: 0\ncpu MHz: {mhz}"})
        absent: dict[str, str] = {}

        assert cpu.cpu(tree, absent).frequency_khz == khz
        assert ("cpu.frequency" in absent) == (khz is None)


class TestMemory:
    @pytest.mark.parametrize(
        "text", ["", "MemTotal: lots", "MemTotal: 0 kB", "MemTotal: 9999999999999999 kB"]
    )
    def test_nonsense_is_absent(self, tmp_path: Path, text: str) -> None:
        absent: dict[str, str] = {}

        assert memory.memory(grown(tmp_path, {"/proc/meminfo": text}), absent).total_bytes is None
        assert set(absent) == {"memory.total", "memory.available"}

    def test_more_available_than_there_is_is_not_believed(self, tmp_path: Path) -> None:
        absent: dict[str, str] = {}
        text = "MemTotal: 100 kB\nMemAvailable: 101 kB\n"

        assert (
            memory.memory(grown(tmp_path, {"/proc/meminfo": text}), absent).available_bytes is None
        )
        assert "more is available" in absent["memory.available"]


class TestStorage:
    @pytest.mark.parametrize(
        ("name", "files", "kind"),
        [
            ("vda", {"queue/rotational": "1"}, "virtual"),
            ("sda", {"queue/rotational": "1", "device/vendor": "QEMU    "}, "virtual"),
            ("sda", {"queue/rotational": "0"}, "ssd"),
            ("sda", {"queue/rotational": "1"}, "hdd"),
            ("sda", {}, "unknown"),
            ("nvme0n1", {}, "nvme"),
            ("mmcblk0", {}, "flash"),
        ],
    )
    def test_kinds(self, tmp_path: Path, name: str, files: dict[str, str], kind: str) -> None:
        tree = grown(
            tmp_path,
            {f"/sys/block/{name}/{path}": text for path, text in files.items()}
            | {f"/sys/block/{name}/size": "8"},
        )
        absent: dict[str, str] = {}

        (disk,) = storage.storage(tree, absent).disks

        assert (disk.kind, disk.capacity_bytes) == (kind, 4_096)
        assert (f"storage.{name}.type" in absent) == (kind == "virtual")

    def test_an_empty_drive_is_absent_with_a_reason(self, tmp_path: Path) -> None:
        absent: dict[str, str] = {}

        assert storage.storage(grown(tmp_path, {"/sys/block/sdb/size": "0"}), absent).disks == ()
        assert "empty drive" in absent["storage.sdb"]
        assert "storage.disks" in absent

    def test_the_space_of_this_machine_is_real(self) -> None:
        found = storage.storage(Tree("/"), {}, work_path="/")

        assert found.file_system_bytes
        assert found.free_bytes is not None
        assert found.free_bytes <= found.file_system_bytes

    def test_a_file_system_that_does_not_answer_is_a_reason(self) -> None:
        absent: dict[str, str] = {}
        found = storage.storage(Tree("/"), absent, work_path="/nonexistent")

        assert found.free_bytes is None
        assert "does not answer" in absent["storage.free"]
