"""`grid service`, with a systemctl that writes down what it was told."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from distributed_grid.cli import service
from distributed_grid.cli.service import command

SYSTEMCTL = """#!/bin/sh
echo "$@" >> {root}/told
case "$*" in
    *{fails}*) echo "Failed to connect to bus: No medium found" >&2; exit 1 ;;
    *show*) cat {root}/shown ;;
esac
"""
RUNS = "ActiveState=active\nSubState=running\nUnitFileState=enabled\nMainPID=41\n"
DISABLED = "--user disable --now grid.service"
RESTARTED = ["--user daemon-reload", "--user enable grid.service", "--user restart grid.service"]


class Systemd:
    """The stand-in, and the person whose it is."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.unit = root / "home/.config/systemd/user/grid.service"
        (root / "shown").write_text(RUNS)
        self.give("loginctl", "#!/bin/sh\necho Linger=yes\n")
        self.fail("nothing")

    def give(self, name: str, script: str) -> None:
        (self.root / name).write_text(script)
        (self.root / name).chmod(0o755)

    def fail(self, at: str) -> None:
        self.give("systemctl", SYSTEMCTL.format(root=self.root, fails=at))

    def told(self) -> list[str]:
        file = self.root / "told"
        lines = file.read_text().splitlines() if file.exists() else []
        file.unlink(missing_ok=True)
        return [line for line in lines if " show " not in f" {line} "]

    def __call__(self, *words: str):
        return CliRunner().invoke(command, list(words))


@pytest.fixture
def systemd(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("GRID_HOME", str(tmp_path / "data"))
    monkeypatch.delenv("SUDO_USER", raising=False)
    return Systemd(tmp_path)


def test_an_installed_service_is_notified_delegated_and_ends_no_jobs(systemd):
    done = systemd("install")
    text = systemd.unit.read_text()

    assert (done.exit_code, done.output) == (0, f"{systemd.unit} is installed, and runs\n")
    assert systemd.told() == RESTARTED
    for line in ("Type=notify", "Delegate=yes", "KillMode=process", "Restart=on-failure",
                 "WantedBy=default.target", f'Environment="GRID_HOME={systemd.root}/data"'):  # fmt: skip
        assert line in text.splitlines()
    assert "User=" not in text
    [start] = [line for line in text.splitlines() if line.startswith("ExecStart=")]
    assert start.startswith(f'ExecStart="{sys.executable}" "-P" "-m" "distributed_grid" "up"')
    assert start.endswith(f'"--data-dir" "{systemd.root}/data"')


def test_twice_changes_nothing_and_a_changed_one_is_written_anew(systemd):
    systemd("install")
    systemd.told()
    again = systemd("install")
    assert again.output == f"{systemd.unit} is as it was, and runs\n"
    assert systemd.told() == []

    wanted = systemd.unit.read_text()
    systemd.unit.write_text("[Service]\n")
    seen = systemd("status")
    systemd("install")
    assert "renew it: grid service install" in seen.output
    assert systemd.unit.read_text() == wanted
    assert systemd.told() == RESTARTED


def test_one_that_does_not_run_is_started(systemd):
    systemd("install")
    systemd.told()
    (systemd.root / "shown").write_text("ActiveState=failed\nSubState=failed\n")
    systemd("install")

    assert systemd.told() == RESTARTED


def test_the_status_is_the_truth(systemd):
    assert systemd("status").output == "not installed; to install it: grid service install\n"
    assert not json.loads(systemd("status", "--json").stdout)["is_installed"]
    systemd("install")
    words = f"{systemd.unit}: active (running), process 41; starts at boot\n"
    assert systemd("status").output == words
    (systemd.root / "shown").write_text("ActiveState=failed\nSubState=failed\nMainPID=0\n")
    seen = json.loads(systemd("status", "--json").stdout)

    assert (seen["is_installed"], seen["is_current"], seen["at_boot"]) == (True, True, False)
    assert (seen["active"], seen["state"], seen["pid"]) == ("failed", "failed", 0)


def test_uninstalled_it_is_gone(systemd):
    systemd("install")
    systemd.told()

    assert systemd("uninstall").output == f"{systemd.unit} is removed\n"
    assert systemd.told() == [DISABLED, "--user daemon-reload"]
    assert not systemd.unit.exists()
    assert systemd("uninstall").output == f"{systemd.unit} was not installed\n"
    assert not json.loads(systemd("uninstall", "--json").stdout)["was_installed"]


def test_who_may_not_linger_is_told_what_that_means(systemd):
    systemd.give("loginctl", "#!/bin/sh\nexit 1\n")
    done = systemd("install", "--json")

    assert "it starts when you log in; at boot after: loginctl enable-linger" in done.stderr
    assert not json.loads(done.stdout)["at_boot"]


@pytest.mark.parametrize("step", ["daemon-reload", "enable", "restart"])
@pytest.mark.parametrize("before", ["", "[Service]\n"])
def test_a_step_that_fails_leaves_what_was_there_and_names_another_way(systemd, step, before):
    systemd.unit.parent.mkdir(parents=True)
    if before:
        systemd.unit.write_text(before)
    systemd.fail(step)
    done = systemd("install")

    assert f"systemctl {step}: Failed to connect to bus" in str(done.exception)
    assert "crontab -e): @reboot" in str(done.exception)
    assert (systemd.unit.read_text() if systemd.unit.exists() else "") == before
    assert systemd.told()[-1] == ("--user daemon-reload" if before else DISABLED)


def test_a_systemd_that_hangs_is_given_up(systemd, monkeypatch):
    monkeypatch.setattr(service, "COMMAND_S", 0.2)
    systemd.give("systemctl", "#!/bin/sh\nexec sleep 60\n")

    assert "daemon-reload: it took longer than 0.2 s" in str(systemd("install").exception)
    assert not systemd.unit.exists()


def test_without_systemd_another_way_is_named(systemd, monkeypatch):
    monkeypatch.setenv("PATH", str(systemd.root / "nothing"))
    done = systemd("install")

    assert "there is no systemctl on this machine" in str(done.exception)
    assert f"--data-dir {systemd.root}/data --detach" in str(done.exception)
    assert not systemd.unit.exists()


def test_the_service_of_a_machine_runs_as_the_person_who_asked(systemd, monkeypatch):
    monkeypatch.setattr(service, "SYSTEM_UNITS", systemd.root / "etc")
    monkeypatch.setenv("SUDO_USER", "nobody")
    done = systemd("install", "--system")
    text = (systemd.root / "etc/grid.service").read_text()

    assert done.exit_code == 0, done.output
    assert systemd.told() == [line.removeprefix("--user ") for line in RESTARTED]
    assert "User=nobody" in text.splitlines()
    assert "GRID_HOME" not in text  # That is not the one of that person.
    assert "After=network-online.target" in text.splitlines()
    assert "WantedBy=multi-user.target" in text.splitlines()


def test_without_rights_the_one_of_the_machine_says_sudo(systemd, monkeypatch):
    monkeypatch.setattr(service.os, "geteuid", lambda: 65_534)
    systemd.fail("daemon-reload")
    monkeypatch.setattr(service, "SYSTEM_UNITS", systemd.root / "etc")
    done = systemd("install", "--system")

    assert "Run it with sudo" in str(done.exception)
    assert not (systemd.root / "etc/grid.service").exists()


def test_a_place_that_cannot_be_written_is_named(systemd):
    systemd.unit.parent.parent.mkdir(parents=True)
    systemd.unit.parent.write_text("a file in the way")
    for word in ("install", "status"):
        assert f"{systemd.unit}" in str(systemd(word).exception)


def test_one_that_bootstrap_installed_is_called_by_a_name_that_stays(systemd, monkeypatch):
    version = systemd.root / "versions/0.2.0-1"
    version.mkdir(parents=True)
    (systemd.root / "current").symlink_to(version)
    monkeypatch.setattr(sys, "prefix", str(version))
    systemd("install")

    assert f'ExecStart="{systemd.root}/current/bin/grid" "up"' in systemd.unit.read_text()


@pytest.mark.parametrize("folder", ["plain", 'a "b" 100% $HOME \\ d'])
def test_systemd_itself_takes_the_unit(systemd, folder, monkeypatch):
    if shutil.which("systemd-analyze") is None:
        pytest.skip("there is no systemd-analyze: run scripts/setup")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(systemd.root))
    data = systemd.root / folder
    assert systemd("install", "--data-dir", str(data)).exit_code == 0
    words = ["systemd-analyze", "verify", "--man=no", str(systemd.unit)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_what_no_unit_can_hold_is_refused(systemd):
    done = systemd("install", "--data-dir", "/tmp/a\nb")

    assert "a path that a unit can hold" in str(done.exception)
