"""Network, power, heat and what stands around a machine, from the few files that tell it."""

from pathlib import Path

import pytest

from distributed_grid.edges.probe import (
    network,
    operating_system,
    power,
    runtimes,
    security,
    thermal,
)
from distributed_grid.edges.probe.tree import Tree
from distributed_grid.model.hardware_parts import Board, Cpu, Power, Virtualisation
from tests.trees.growing import grown


class TestNetwork:
    @pytest.mark.parametrize(
        "name",
        [
            "docker0",
            "veth12ab",
            "cni0",
            "podman1",
            "virbr0",
            "flannel.1",
            "cali123",
            "br-0123456789ab",
        ],
    )
    def test_bridges_of_container_engines_are_marked(self, tmp_path: Path, name: str) -> None:
        (nic,) = network.nics(grown(tmp_path, {f"/sys/class/net/{name}/type": "1"}), {})

        assert nic.container_bridge

    @pytest.mark.parametrize("name", ["eth0", "br0", "br-lan", "wlan0", "enp3s0", "tailscale0"])
    def test_others_are_not(self, tmp_path: Path, name: str) -> None:
        (nic,) = network.nics(grown(tmp_path, {f"/sys/class/net/{name}/type": "1"}), {})

        assert not nic.container_bridge

    @pytest.mark.parametrize(
        ("files", "up"),
        [
            ({"operstate": "up"}, True),
            ({"operstate": "dormant"}, False),
            ({"operstate": "unknown", "carrier": "1"}, True),
            ({"operstate": "unknown", "carrier": "0"}, False),
            ({"operstate": "unknown"}, None),
        ],
    )
    def test_whether_it_has_a_link(
        self, tmp_path: Path, files: dict[str, str], up: bool | None
    ) -> None:
        tree = grown(
            tmp_path,
            {"/sys/class/net/tun0/type": "65534", "/sys/class/net/tun0/tun_flags": "0x1"}
            | {f"/sys/class/net/tun0/{name}": text for name, text in files.items()},
        )

        (nic,) = network.nics(tree, {})

        assert (nic.up, nic.kind) == (up, "tunnel")

    def test_an_address_whose_interface_is_not_told_is_named(self, tmp_path: Path) -> None:
        trie = "  |-- 10.9.8.7\n     /32 host LOCAL\n  |-- 999.1.1.1\n     /32 host LOCAL\n"
        route = "head\neth0 junk\neth0 0000000A 00000000 1 0 0 0 FF00FF00 0 0 0\n"
        absent: dict[str, str] = {}
        tree = grown(tmp_path, {"/proc/net/fib_trie": trie, "/proc/net/route": route})

        assert network.nics(tree, absent) == ()
        assert "10.9.8.7" in absent["network.addresses"]
        assert "network" in absent

    def test_latency_and_nat_are_promised_for_later_with_a_reason(self, tmp_path: Path) -> None:
        absent: dict[str, str] = {}
        network.nics(Tree(str(tmp_path)), absent)

        assert "mesh" in absent["network.latency"]
        assert "mesh" in absent["network.nat"]


class TestPower:
    def found(self, root: Path, files: dict[str, str]) -> tuple[Power, dict[str, str]]:
        absent: dict[str, str] = {}
        tree = grown(
            root, {f"/sys/class/power_supply/{path}": text for path, text in files.items()}
        )
        return power.power(tree, absent), absent

    @pytest.mark.rows("S2-71")
    @pytest.mark.parametrize(
        ("mains", "status", "source"),
        [
            ("1", "Charging", "ac"),
            ("0", "Discharging", "battery"),
            ("0", "Unknown", "battery"),
            (None, "Discharging", "battery"),
            (None, "Full", "ac"),
            (None, "Unknown", None),
        ],
    )
    def test_mains_or_battery(
        self, tmp_path: Path, mains: str | None, status: str, source: str | None
    ) -> None:
        files = {"BAT0/type": "Battery", "BAT0/status": status, "BAT0/capacity": "50"}
        if mains is not None:
            files |= {"AC/type": "Mains", "AC/online": mains}
        found, absent = self.found(tmp_path, files)

        assert found.source == source
        assert found.on_battery == (None if source is None else source == "battery")
        assert ("power.source" in absent) == (source is None)

    def test_a_battery_slot_that_is_empty_is_no_battery(self, tmp_path: Path) -> None:
        found, absent = self.found(tmp_path, {"BAT1/type": "Battery", "BAT1/present": "0"})

        assert found.battery is None
        assert found.on_battery is False
        assert "power.battery" in absent

    def test_charge_in_ampere_hours_counts_too(self, tmp_path: Path) -> None:
        found, _ = self.found(
            tmp_path,
            {
                "macsmc/type": "Battery",
                "macsmc/status": "Discharging",
                "macsmc/charge_now": "2000000",
                "macsmc/charge_full": "4000000",
                "macsmc/current_now": "-1000000",
            },
        )

        assert found.battery is not None
        assert (found.battery.percent, found.battery.runtime_minutes) == (50, 120)

    def test_two_batteries_that_tell_only_percent_are_averaged(self, tmp_path: Path) -> None:
        found, _ = self.found(
            tmp_path,
            {
                "B0/type": "Battery", "B0/capacity": "100",
                "B1/type": "Battery", "B1/capacity": "50",
            },
        )  # fmt: skip

        assert found.battery is not None
        assert found.battery.percent == 75

    def test_a_battery_that_tells_nothing_is_still_a_battery(self, tmp_path: Path) -> None:
        found, absent = self.found(tmp_path, {"B0/type": "Battery", "AC/type": "Mains"})

        assert found.battery is not None
        assert found.battery.percent is None
        assert "power.battery.percent" in absent


class TestThermal:
    @pytest.mark.rows("S2-72")
    def test_limits_are_the_trip_points(self, tmp_path: Path) -> None:
        zone = "/sys/class/thermal/thermal_zone3"
        tree = grown(
            tmp_path,
            {
                f"{zone}/type": "cpu-thermal",
                f"{zone}/temp": "55123",
                f"{zone}/trip_point_0_type": "active",
                f"{zone}/trip_point_0_temp": "40000",
                f"{zone}/trip_point_1_type": "hot",
                f"{zone}/trip_point_1_temp": "85000",
                f"{zone}/trip_point_2_type": "critical",
                f"{zone}/trip_point_2_temp": "105000",
                "/sys/class/thermal/cooling_device0/type": "fan",
            },
        )

        (sensor,) = thermal.thermals(tree, {})

        assert sensor.temperature_centi == 5_512
        assert (sensor.limit_centi, sensor.critical_centi) == (8_500, 10_500)

    def test_a_sensor_without_limits_is_said_so(self, tmp_path: Path) -> None:
        absent: dict[str, str] = {}
        tree = grown(tmp_path, {"/sys/class/hwmon/hwmon0/temp1_input": "999999999"})

        (sensor,) = thermal.thermals(tree, absent)

        assert sensor.temperature_centi is None
        assert sensor.name == "hwmon0"
        assert "thermals.limits" in absent


class TestVirtualisation:
    def found(
        self, root: Path, files: dict[str, str], *features: str, arch: str = "x86_64"
    ) -> Virtualisation:
        tree = grown(root, files)
        absent: dict[str, str] = {}
        board = security.board(tree, absent)
        return security.virtualisation(tree, Cpu(arch=arch, features=features), board, absent)

    @pytest.mark.parametrize(
        ("dmi", "kind", "cloud"),
        [
            ({"sys_vendor": "QEMU"}, "qemu", None),
            ({"sys_vendor": "Amazon EC2"}, "kvm", "aws"),
            ({"sys_vendor": "Google", "product_name": "Google Compute Engine"}, "kvm", "google"),
            ({"sys_vendor": "Hetzner", "product_name": "vServer"}, "kvm", "hetzner"),
            ({"sys_vendor": "DigitalOcean", "product_name": "Droplet"}, "kvm", "digitalocean"),
            ({"sys_vendor": "OpenStack Foundation"}, "kvm", "openstack"),
            ({"sys_vendor": "VMware, Inc."}, "vmware", None),
            ({"sys_vendor": "innotek GmbH"}, "virtualbox", None),
            (
                {"sys_vendor": "Microsoft Corporation", "product_name": "Virtual Machine"},
                "hyperv",
                None,
            ),
            (
                {
                    "sys_vendor": "Microsoft Corporation",
                    "product_name": "Virtual Machine",
                    "chassis_asset_tag": "7783-7084-3265-9085-8269-3286-77",
                },
                "hyperv",
                "azure",
            ),
            ({}, "unknown", None),
        ],
    )
    def test_the_firmware_tells_hypervisor_and_cloud(
        self, tmp_path: Path, dmi: dict[str, str], kind: str, cloud: str | None
    ) -> None:
        files = {f"/sys/class/dmi/id/{name}": text for name, text in dmi.items()}

        assert self.found(tmp_path, files, "fpu", "hypervisor") == Virtualisation(
            kind=kind, cloud=cloud
        )

    def test_a_metal_machine_of_a_cloud_is_no_virtual_one(self, tmp_path: Path) -> None:
        files = {
            "/sys/class/dmi/id/sys_vendor": "Amazon EC2",
            "/sys/class/dmi/id/product_name": "m5.metal",
        }

        assert self.found(tmp_path, files, "fpu") == Virtualisation(kind="none", cloud="aws")

    @pytest.mark.parametrize(
        ("files", "kind"),
        [
            ({"/sys/hypervisor/type": "xen"}, "xen"),
            ({"/proc/device-tree/hypervisor/compatible": "linux,kvm"}, "kvm"),
            ({"/proc/device-tree/model": "Rock 5B"}, "none"),
            ({}, None),
        ],
    )
    def test_other_places_that_tell(
        self, tmp_path: Path, files: dict[str, str], kind: str | None
    ) -> None:
        assert self.found(tmp_path, files, arch="aarch64").kind == kind

    @pytest.mark.parametrize(
        ("files", "container"),
        [
            ({"/.dockerenv": ""}, "docker"),
            ({"/run/.containerenv": ""}, "podman"),
            ({"/run/systemd/container": "systemd-nspawn"}, "systemd-nspawn"),
            ({"/proc/self/cgroup": "0::/kubepods.slice/pod1"}, "kubernetes"),
            ({"/proc/self/cgroup": "1:cpu:/lxc/box"}, "lxc"),
            ({"/proc/self/cgroup": "0::/user.slice"}, None),
        ],
    )
    def test_the_inside_of_a_container(
        self, tmp_path: Path, files: dict[str, str], container: str | None
    ) -> None:
        assert self.found(tmp_path, files, "fpu").container == container


class TestSecurity:
    def test_an_old_and_an_unspoken_tpm(self, tmp_path: Path) -> None:
        absent: dict[str, str] = {}
        old = grown(tmp_path / "a", {"/sys/class/tpm/tpm0/tpm_version_major": "1"})
        unspoken = grown(tmp_path / "b", {"/sys/class/tpm/tpm0/dev": "10:224"})

        assert security.security(old, Cpu(), absent).tpm_version == "1.2"
        assert security.security(unspoken, Cpu(), absent).tpm_version == "unknown"
        assert "security.tpm" not in absent
        assert {"security.sev", "security.sgx"} <= set(absent)

    def test_a_machine_without_firmware_tables_is_said_so(self, tmp_path: Path) -> None:
        absent: dict[str, str] = {}

        assert security.board(Tree(str(tmp_path)), absent) == Board()
        assert "board" in absent


class TestSystem:
    def test_no_release_file_is_a_reason(self, tmp_path: Path) -> None:
        absent: dict[str, str] = {}
        found = operating_system.operating_system(Tree(str(tmp_path)), absent)

        assert found.name is None
        assert set(absent) == {"os.name", "os.kernel"}

    def test_runtimes_are_found_where_they_are_installed(self, tmp_path: Path) -> None:
        tree = grown(
            tmp_path,
            {"/usr/local/bin/podman": "", "/run/podman/podman.sock": "", "/usr/sbin/crio": ""},
        )

        found = [(r.name, r.path, r.socket) for r in runtimes.runtimes(tree, {})]

        assert found == [
            ("podman", "/usr/local/bin/podman", "/run/podman/podman.sock"),
            ("crio", "/usr/sbin/crio", None),
        ]

    def test_none_is_a_reason(self, tmp_path: Path) -> None:
        absent: dict[str, str] = {}

        assert runtimes.runtimes(Tree(str(tmp_path)), absent) == ()
        assert "podman" in absent["runtimes"]
