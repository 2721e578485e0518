"""`grid service`: let systemd start the agent, at boot and after a crash.

Lives here: the unit, the commands around it, its state in words. Never here: the agent itself
(`up`), what it tells systemd (`notifying`).
Invariant: an installation that fails leaves no unit behind, and the same one twice changes nothing.
"""

import contextlib
import os
import pwd
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import click
import msgspec

from distributed_grid.cli.agent import json_option, print_json
from distributed_grid.cli.tell import tell
from distributed_grid.client import door
from distributed_grid.errors import BadValue, GridError
from distributed_grid.model.home import locate

UNIT: Final = "grid.service"
SYSTEM_UNITS: Final = Path("/etc/systemd/system")
COMMAND_S: Final = 120.0  # A start waits for the agent, which may take 30 s on a crowded machine.
KEPT: Final = ("GRID_HOME", "GRID_CONFIG", "PATH", "XDG_CONFIG_HOME", "XDG_DATA_HOME")
_SHOWN: Final = ("ActiveState", "SubState", "UnitFileState", "MainPID")
TEXT: Final = """\
# Written by: grid service install
[Unit]
Description=Grid, the agent of this machine
{after}
[Service]
Type=notify
{environment}
ExecStart={program}
# A stop or a restart is for the agent; jobs go on under their keeper.
KillMode=process
# Below this unit the keeper may make a control group for each job.
Delegate=yes
Restart=on-failure
RestartSec=2
TimeoutStartSec=90
TimeoutStopSec=90

[Install]
WantedBy={target}
"""


class NoService(GridError):
    """systemd does not run the agent."""

    def __init__(self, why: str, *, remedy: str) -> None:
        self.why = why
        super().__init__(f"systemd does not start Grid here: {why}", remedy=remedy)


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """What systemd says of the service."""

    unit: str
    is_installed: bool
    is_current: bool = False  # As an installation now would write it.
    at_boot: bool = False
    active: str = "inactive"
    state: str = "dead"
    pid: int = 0


class Service:
    """The unit of one person, or of the machine."""

    def __init__(self, *, is_system: bool, data_dir: str | None) -> None:
        self.is_system = is_system
        me = pwd.getpwuid(os.geteuid()).pw_name
        self.user = (is_system and os.environ.get("SUDO_USER")) or me
        home, environ = door.home_of(data_dir), {key: os.environ.get(key) for key in KEPT}
        if self.user != me:
            person = pwd.getpwnam(self.user)
            home = locate({}, user_home=person.pw_dir, data_dir=data_dir and home.data)
            environ = {"PATH": os.environ.get("PATH")}
        self._environ = [f"{key}={value}" for key, value in environ.items() if value]
        folder = SYSTEM_UNITS if is_system else Path.home() / ".config/systemd/user"
        self.path = folder / UNIT
        self.words = [*_program(), "up", "--replace", "--data-dir", home.data]

    def text(self) -> str:
        """The unit."""
        told = [f"Environment={_quoted(each)}" for each in self._environ]
        told += [f"User={self.user}"] if self.is_system else []
        program, *words = self.words  # Variables are looked for in what follows the program.
        after = "Wants=network-online.target\nAfter=network-online.target\n"
        return TEXT.format(
            after=after if self.is_system else "",
            environment="\n".join(told),
            program=" ".join([_quoted(program), *(_quoted(w.replace("$", "$$")) for w in words)]),
            target="multi-user.target" if self.is_system else "default.target",
        )

    def installed_text(self) -> str:
        """The unit that is there; empty if there is none."""
        try:
            return self.path.read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return ""
        except OSError as error:
            raise self._failed(f"{self.path}: {error.strerror}") from None

    def install(self) -> bool:
        """See to it that it is there, enabled and runs; whether that changed anything."""
        before, text = self.installed_text(), self.text()
        if before == text and self.status().active == "active":
            return False
        try:
            self._write(text)
            for words in (("daemon-reload",), ("enable", UNIT), ("restart", UNIT)):
                self._told(*words)
        except GridError:
            with contextlib.suppress(GridError):
                self._told(*(("daemon-reload",) if before else ("disable", "--now", UNIT)))
            self._write(before)
            raise
        return True

    def uninstall(self) -> bool:
        """Stop it and take it away; whether it was there."""
        if not self.installed_text():
            return False
        self._told("disable", "--now", UNIT)
        self._write("")
        self._told("daemon-reload")
        return True

    def status(self) -> Status:
        """As systemd sees it."""
        text = self.installed_text()
        if not text:
            return Status(unit=str(self.path), is_installed=False)
        shown = self._told("show", UNIT, *(f"--property={name}" for name in _SHOWN))
        said = dict(line.split("=", 1) for line in shown.splitlines() if "=" in line)
        return Status(
            unit=str(self.path),
            is_installed=True,
            is_current=text == self.text(),
            at_boot=said.get("UnitFileState") == "enabled" and (self.is_system or self.lingers()),
            active=said.get("ActiveState") or "unknown",
            state=said.get("SubState") or "unknown",
            pid=int(said.get("MainPID") or 0),
        )

    def lingers(self) -> bool:
        """Whether the services of this person begin without a login."""
        return _ran("loginctl", "show-user", self.user, "--property=Linger") == (0, "Linger=yes")

    def _told(self, *words: str) -> str:
        code, said = _ran("systemctl", *([] if self.is_system else ["--user"]), *words)
        if code:
            raise self._failed(f"systemctl {words[0]}: {said}")
        return said

    def _write(self, text: str) -> None:
        try:
            if not text:
                self.path.unlink(missing_ok=True)
                return
            self.path.parent.mkdir(parents=True, exist_ok=True)
            draft = self.path.with_suffix(".new")
            draft.write_text(text, encoding="utf-8")
            draft.replace(self.path)
        except OSError as error:
            raise self._failed(f"{self.path}: {error.strerror}") from None

    def _failed(self, why: str) -> NoService:
        line = f"Without it cron does (crontab -e): @reboot {' '.join(self.words)} --detach"
        is_lacking = self.is_system and os.geteuid() != 0
        return NoService(why, remedy="Run it with sudo" if is_lacking else line)


def _program() -> list[str]:
    """Grid by a path that outlives its next version, where bootstrap installed it."""
    current = Path(sys.prefix).parent.parent / "current"
    if current.is_symlink() and current.resolve() == Path(sys.prefix).resolve():
        return [str(current / "bin/grid")]
    return [sys.executable, "-P", "-m", "distributed_grid"]


def _quoted(word: str) -> str:
    if not word.isprintable():
        raise BadValue(word, expected="a path that a unit can hold", remedy="Use plain letters")
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{escaped}"'


def _ran(name: str, *words: str) -> tuple[int, str]:
    program = shutil.which(name)
    if program is None:
        return 127, f"there is no {name} on this machine"
    try:
        done = subprocess.run(  # noqa: S603  (found just now, our own words)
            [program, *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=COMMAND_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return 1, f"it took longer than {COMMAND_S:g} s"
    said = done.stderr if done.returncode else done.stdout
    return done.returncode, said.strip()


@click.group("service")
def command() -> None:
    """Let systemd start the agent: at boot, and again after a crash. Jobs outlive its restarts."""


def _options(function: "click.decorators.FC") -> "click.decorators.FC":
    for decorate in (
        click.option("--data-dir", metavar="DIR", help="Of the agent; else GRID_HOME or XDG."),
        click.option(
            "--system", "is_system", is_flag=True, help="Of the machine, run as you: with sudo."
        ),
        json_option,
    ):
        function = decorate(function)
    return function


@command.command("install")
@_options
def install(*, is_system: bool, data_dir: str | None, as_json: bool) -> None:
    """Write the unit, enable it and start it; an agent that runs goes over to it."""
    service = Service(is_system=is_system, data_dir=data_dir)
    is_changed = service.install()
    lingers = (
        is_system or service.lingers() or _ran("loginctl", "enable-linger", service.user)[0] == 0
    )
    if not lingers:
        tell(
            f"grid: it starts when you log in; at boot after: loginctl enable-linger {service.user}"
        )
    if as_json:
        print_json(service.status())
    else:
        click.echo(f"{service.path} is {'installed' if is_changed else 'as it was'}, and runs")


@command.command("status")
@_options
def status(*, is_system: bool, data_dir: str | None, as_json: bool) -> None:
    """Whether the service is installed, runs, and starts at boot."""
    seen = Service(is_system=is_system, data_dir=data_dir).status()
    if as_json:
        print_json(seen)
    elif not seen.is_installed:
        click.echo("not installed; to install it: grid service install")
    else:
        pid = f", process {seen.pid}" if seen.pid else ""
        starts = "starts at boot" if seen.at_boot else "does not start at boot"
        click.echo(f"{seen.unit}: {seen.active} ({seen.state}){pid}; {starts}")
        if not seen.is_current:
            tell("grid: the unit is not what this Grid would write; renew it: grid service install")


@command.command("uninstall")
@_options
def uninstall(*, is_system: bool, data_dir: str | None, as_json: bool) -> None:
    """Stop the service and remove its unit; jobs that run go on."""
    service = Service(is_system=is_system, data_dir=data_dir)
    was_there = service.uninstall()
    if as_json:
        print_json({"unit": str(service.path), "was_installed": was_there})
    else:
        click.echo(f"{service.path} {'is removed' if was_there else 'was not installed'}")
