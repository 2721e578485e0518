"""Networks of one's own: nothing that a test sends leaves them, and ports cannot clash.

Lives here: a namespace around a command, hosts on one wire, their faults (loss, cuts, cable,
address). Never here: what runs inside. They need root and `ip`, `nsenter`, `iptables-nft`.
"""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from itertools import count
from types import TracebackType
from typing import Any, Self

import pytest

_LOOPBACK = ["sh", "-c", 'ip link set lo up && exec "$@"', "sh"]
_PROCESSES = ["--pid", "--fork", "--kill-child", "--mount-proc"]


def alone(argv: Sequence[str], *, with_processes: bool = False) -> list[str]:
    """The command in a network that is nothing but its loopback.

    With its processes: whatever it starts ends with it, and it sees no others.
    """
    if os.geteuid() != 0:
        pytest.skip("network namespaces need root")  # All other tests still run.
    more = _PROCESSES if with_processes else []
    return ["unshare", "--net", *more, "--", *_LOOPBACK, *argv]


def python(*arguments: str) -> list[str]:
    return [sys.executable, *arguments]


def _run(argv: Sequence[str]) -> None:
    done = subprocess.run(argv, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, f"{argv}: {done.stderr}"


class Namespace:
    """A network that lasts until it is closed, held by a process that reads its input."""

    def __init__(self) -> None:
        self._holder = subprocess.Popen(
            alone(["sh", "-c", "echo up; exec cat"]),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._holder.stdout is not None
        assert self._holder.stdout.readline() == b"up\n"
        self.pid = self._holder.pid

    def command(self, argv: Sequence[str]) -> list[str]:
        """The command inside."""
        return ["nsenter", f"--net=/proc/{self.pid}/ns/net", "--", *argv]

    def run(self, *argv: str) -> None:
        """Run it to its end; it must succeed."""
        _run(self.command(argv))

    def start(
        self, argv: Sequence[str], *, env: Mapping[str, str] | None = None, **options: Any
    ) -> "subprocess.Popen[bytes]":
        """Start it inside; whoever started it ends it."""
        return subprocess.Popen(self.command(argv), env=env, **options)

    def close(self) -> None:
        """The kernel takes the network away with its last process."""
        self._holder.communicate(timeout=10)

    # Faults

    def lose(self, percent: int) -> None:
        """From now on so much of what arrives by UDP is lost; 0: nothing."""
        self.run("iptables-nft", "-F", "INPUT")
        if percent:
            rule = f"-A INPUT -p udp -m statistic --mode random --probability {percent / 100}"
            self.run("iptables-nft", *rule.split(), "-j", "DROP")

    def deafen(self, address: str) -> None:
        """Nothing from this address is heard any more; the other direction still works."""
        self.run("iptables-nft", "-A", "INPUT", "-s", address, "-j", "DROP")

    def hear(self) -> None:
        """Undo loss and deafness."""
        self.run("iptables-nft", "-F", "INPUT")


class Host(Namespace):
    """A machine on the wire."""

    def __init__(self, address: str) -> None:
        super().__init__()
        self.address = address

    def unplug(self) -> None:
        self.run("ip", "link", "set", "eth0", "down")

    def plug_in(self) -> None:
        self.run("ip", "link", "set", "eth0", "up")

    def throttle(self, mbit_s: int) -> None:
        """From now on it sends no faster than this."""
        shape = f"rate {mbit_s}mbit burst 64kb latency 200ms"
        self.run("tc", "qdisc", "replace", "dev", "eth0", "root", "tbf", *shape.split())

    def move(self, address: str) -> None:
        """Another address, as after a new lease; the old one is gone."""
        self.run("ip", "address", "flush", "dev", "eth0")
        self.run("ip", "address", "add", f"{address}/24", "dev", "eth0")
        self.address = address


class Wire:
    """Hosts 10.77.0.1, 10.77.0.2, … on one bridge, each in a namespace of its own."""

    def __init__(self, hosts: int) -> None:
        self._switch = Namespace()
        self._switch.run("ip", "link", "add", "wire", "type", "bridge")
        self._switch.run("ip", "link", "set", "wire", "up")
        self._numbers = count(1)
        self.hosts = [self.add() for _ in range(hosts)]

    def add(self) -> Host:
        """One more machine."""
        number = next(self._numbers)
        host = Host(f"10.77.0.{number}")
        port = f"port{number}"
        self._switch.run(
            *f"ip link add {port} type veth peer name eth0 netns {host.pid}".split(),
        )
        self._switch.run("ip", "link", "set", port, "master", "wire", "up")
        host.run("ip", "address", "add", f"{host.address}/24", "dev", "eth0")
        host.plug_in()
        return host

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for host in self.hosts:
            host.close()
        self._switch.close()
