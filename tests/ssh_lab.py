"""A machine with a real sshd in a network of its own, and an ssh that is configured for it.

Lives here: its keys, its home, what is on its PATH, its end. Never here: assertions about the
product.
Invariant: after `close` neither sshd nor an agent in its home runs, and the directory is gone.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.keeper_lab import wait_until
from tests.namespaces import Namespace

SSHD = Path("/usr/sbin/sshd")
PYTHON = Path(getattr(sys, "_base_executable", sys.executable)).resolve()
_PRESENT = (
    "sh",
    "uname",
    "env",
    "true",
    "echo",
    "cat",
    "sleep",
    "mkdir",
    "mv",
    "rm",
    "tar",
    "gzip",
    "id",
)
# As on Debian: what makes environments is a package of its own. $3 is what `-I -c` runs.
_PYTHON = """\
#!/bin/sh
[ "$1" = -I ] || exec {python} "$@"
exec {python} -I -c "import platform, sys; sys.modules |= dict(venv=None, ensurepip=None); {more}
$3"
"""
_MUSL = "platform.libc_ver = lambda *_, **__: ('', '')"
_SSHD_CONFIG = """\
ListenAddress {address}
HostKey {root}/host_key
AuthorizedKeysFile {root}/key.pub
StrictModes no
UsePAM no
PermitRootLogin yes
PasswordAuthentication no
KbdInteractiveAuthentication no
PidFile none
SetEnv HOME={home} PATH={bin} LC_ALL=C.UTF-8 PIP_INDEX_URL=http://127.0.0.1:9/ PIP_RETRIES=0
"""
_SSH_CONFIG = """\
Host attic
  HostName {address}
  User {user}
  IdentityFile {root}/key
Host bare
  HostName {address}
Host *
  IdentitiesOnly yes
  UserKnownHostsFile {root}/known_hosts
  GlobalKnownHostsFile none
"""


ADA = 4711  # The id of somebody without rights.
_WITH_ADA = 'mount --bind "$0" /etc/passwd && exec "$@"'


class SshLab:
    """The machine `attic`; with `user` ada it is somebody's who is not root, and has no Python."""

    def __init__(self, net: Namespace, *, user: str = "root", address: str = "127.0.0.1") -> None:
        if not SSHD.exists():
            pytest.skip("there is no sshd: run scripts/setup")
        self.net = net
        self.root = Path(tempfile.mkdtemp(prefix="grid-ssh-"))
        self.home, self.bin = self.root / "home", self.root / "bin"
        for folder in (self.home, self.bin, self.root / "here", Path("/run/sshd")):
            folder.mkdir(exist_ok=True)
        for name in _PRESENT:
            self.give(name)
        self.uid = ADA if user == "ada" else 0
        if user == "root":
            self.give_python()
        # It lends whatever else this machine does.
        config = self.home / ".config/grid/cluster_config.yaml"
        config.parent.mkdir(parents=True)
        config.write_text("pretend: {cpus: 4, memory: 8GiB}\n")
        for name in ("host_key", "key"):
            words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.root / name)]
            subprocess.run(words, check=True, timeout=30)
        host_key = (self.root / "host_key.pub").read_text()
        (self.root / "known_hosts").write_text(f"{address} {host_key}")
        words = {"root": self.root, "home": self.home, "bin": self.bin, "address": address}
        (self.root / "config").write_text(_SSH_CONFIG.format(user=user, **words))
        (self.root / "sshd_config").write_text(_SSHD_CONFIG.format(**words))
        people = Path("/etc/passwd").read_text() + f"ada:x:{ADA}:{ADA}::{self.home}:/bin/sh\n"
        (self.root / "passwd").write_text(people)
        for file in (self.root, *self.home.rglob("*"), self.home):
            os.chown(file, self.uid, self.uid)
        self.root.chmod(0o711)
        # ssh reads the configuration of the account, whatever HOME says.
        self.wrap_ssh("")
        words = ["unshare", "--mount", "--", "sh", "-c", _WITH_ADA, str(self.root / "passwd")]
        words += [str(SSHD), "-D", "-e", "-f", str(self.root / "sshd_config")]
        with (self.root / "log").open("wb") as log:
            self._sshd = net.start(words, stdin=subprocess.DEVNULL, stderr=log)
        wait_until(lambda: b"listening" in (self.root / "log").read_bytes())

    @property
    def path(self) -> str:
        """For who calls ssh."""
        return f"{self.root / 'here'}:{os.environ['PATH']}"

    def wrap_ssh(self, before: str) -> None:
        """What a person's shell does before it becomes ssh."""
        wrapped = self.root / "here/ssh"
        draft = wrapped.with_suffix(".new")
        draft.write_text(f'#!/bin/sh\n{before}\nexec /usr/bin/ssh -F {self.root}/config "$@"\n')
        draft.chmod(0o755)
        draft.replace(wrapped)

    def give_python(self, *, is_musl: bool = False) -> None:
        """One without what makes environments; if told, one of another C library."""
        file = self.bin / f"python{sys.version_info[0]}.{sys.version_info[1]}"
        file.write_text(_PYTHON.format(python=PYTHON, more=_MUSL if is_musl else "pass"))
        file.chmod(0o755)

    def take(self, name: str) -> None:
        """A programme that is not installed there."""
        (self.bin / name).unlink()

    def give(self, name: str) -> None:
        (self.bin / name).symlink_to(shutil.which(name) or name)

    def wipe(self) -> None:
        """As if Grid had never been installed; it remembers who it was."""
        self.grid("leave", "--force")
        self.grid("down", "--stop-jobs")
        for folder in (".local/opt", ".local/bin"):
            shutil.rmtree(self.home / folder)

    def take_python(self) -> None:
        for file in self.bin.glob("python*"):
            file.unlink()

    @property
    def opt(self) -> Path:
        return self.home / ".local/opt/grid"

    def grid(self, *words: str) -> "subprocess.CompletedProcess[str]":
        """`grid` as installed there."""
        told = [f"HOME={self.home}", f"PATH={self.bin}", "LC_ALL=C.UTF-8"]
        inside = ["nsenter", f"--target={self._sshd.pid}", "--net", "--mount", f"--wd={self.home}"]
        inside += [f"--setuid={self.uid}", f"--setgid={self.uid}", "--"]
        return subprocess.run(
            [*inside, "env", "-i", *told, str(self.opt / "current/bin/grid"), *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def close(self) -> None:
        try:
            if (self.opt / "current/bin/grid").exists():
                self.grid("down", "--stop-jobs")
        finally:
            self._sshd.send_signal(signal.SIGTERM)
            self._sshd.wait(timeout=30)
            shutil.rmtree(self.root, ignore_errors=True)
