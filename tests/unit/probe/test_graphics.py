"""GPUs of AMD and Intel, from the files of their drivers."""

from pathlib import Path

from distributed_grid.edges.probe import gpu_sysfs
from distributed_grid.edges.probe.tree import Tree
from tests.trees.growing import grown


class TestGraphics:
    def card(self, root: Path, files: dict[str, str]) -> tuple[Tree, dict[str, str]]:
        where = "/sys/class/drm/card0/device"
        return grown(root, {f"{where}/{name}": text for name, text in files.items()}), {}

    def test_an_amd_card_tells_its_memory_load_heat_and_power(self, tmp_path: Path) -> None:
        tree, absent = self.card(
            tmp_path,
            {
                "vendor": "0x1002",
                "device": "0x74a1",
                "uevent": "PCI_SLOT_NAME=0000:05:00.0",
                "unique_id": "6b1c2d3e4f506172",
                "mem_info_vram_total": str(192 << 30),
                "mem_info_vram_used": str(2 << 30),
                "gpu_busy_percent": "37",
                "numa_node": "1",
                "hwmon/hwmon4/temp1_input": "45000",
                "hwmon/hwmon4/temp1_crit": "100000",
                "hwmon/hwmon4/power1_average": "140000000",
                "hwmon/hwmon4/power1_cap": "750000000",
            },
        )

        (gpu,) = gpu_sysfs.sysfs_gpus(tree, absent)

        assert (gpu.vendor, gpu.model, gpu.device) == ("amd", "MI300X", "6b1c2d3e4f506172")
        assert (gpu.memory_bytes, gpu.memory_free_bytes) == (192 << 30, 190 << 30)
        assert gpu.utilisation_milli == 370
        assert (gpu.temperature_centi, gpu.temperature_limit_centi) == (4_500, 10_000)
        assert (gpu.power_mw, gpu.power_limit_mw) == (140_000, 750_000)
        assert gpu.numa_node == 1
        assert gpu.grantable

    def test_an_intel_arc_is_a_card_and_not_integrated(self, tmp_path: Path) -> None:
        tree, absent = self.card(
            tmp_path,
            {
                "vendor": "0x8086",
                "device": "0x56a0",
                "uevent": "DRIVER=xe\nPCI_SLOT_NAME=0000:03:00.0",
                "tile0/physical_vram_size_bytes": str(16 << 30),
            },
        )

        (gpu,) = gpu_sysfs.sysfs_gpus(tree, absent, first_index=2)

        assert (gpu.index, gpu.model, gpu.memory_bytes) == (2, "ARCA770", 16 << 30)
        assert not gpu.integrated
        assert gpu.memory_free_bytes is None

    def test_a_card_nobody_knows_is_named_by_its_numbers(self, tmp_path: Path) -> None:
        tree, absent = self.card(tmp_path, {"vendor": "0x1002", "device": "0xffff"})

        (gpu,) = gpu_sysfs.sysfs_gpus(tree, absent)

        assert gpu.name == "AMD 1002:ffff"
        assert gpu.device == "amd#0"
        assert absent["gpus.card0.memory"] == "its driver tells none"
        assert "gpus.card0.utilisation" in absent
