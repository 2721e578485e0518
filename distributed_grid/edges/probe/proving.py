"""Showing that this machine has what it claims: all cores at once, memory, devices.

Lives here: the work of a challenge, in threads. Never here: what is asked and what is right
(`kernel.mesh.proving`).
Invariant: a call blocks, for a tenth of a second on an idle machine and longer on a busy one, and
takes every core meanwhile; it is never made on the event loop.
"""

import hashlib
import threading
import time
from collections.abc import Callable
from typing import Final

import psutil

from distributed_grid.edges.probe.machine import gpu_devices
from distributed_grid.kernel.mesh.proving import (
    BLOCK_BYTES,
    STAMP_BYTES,
    is_fair,
    memory_stamp,
    round_digest,
    round_material,
)
from distributed_grid.wire.mesh import Challenge, Proof

Devices = tuple[tuple[str, int], ...]
DEVICES_S: Final = 600  # A driver may take long to answer; cards are not swapped that fast.


class Prover:
    """Answers challenges, one at a time: two at once would each find half a machine."""

    def __init__(self, read_devices: Callable[[], Devices] | None = None) -> None:
        self._read_devices = read_devices or named_devices
        self._devices: Devices = ()
        self._read_s: float | None = None
        self._lock = threading.Lock()

    def __call__(self, challenge: Challenge) -> Proof | None:
        """The answer; None if the challenge is none of ours."""
        if not is_fair(challenge):
            return None
        with self._lock:
            now_s = time.monotonic()
            if self._read_s is None or now_s - self._read_s > DEVICES_S:
                # The first answer is late by this, and asked for again.
                self._devices, self._read_s = self._read_devices(), now_s
            return _worked(challenge, self._devices)


def named_devices() -> Devices:
    """The GPUs of this machine as their drivers name them now."""
    return tuple((gpu.device, gpu.memory_bytes or 0) for gpu in gpu_devices())


def _worked(challenge: Challenge, devices: Devices) -> Proof:
    material = round_material(challenge.seed)
    cores = [_Core(challenge, number, material) for number in range(challenge.cores)]
    start_ns, own_ns, busy_ns = time.perf_counter_ns(), time.process_time_ns(), _busy_ns()
    for core in cores:
        core.start()
    for core in cores:
        core.join()
    worked_us = (time.perf_counter_ns() - start_ns) // 1_000
    others_ns = _busy_ns() - busy_ns - (time.process_time_ns() - own_ns)
    start_ns = time.perf_counter_ns()
    memory = _memory_digest(challenge)
    return Proof(
        number=challenge.number,
        digests=tuple(core.digests for core in cores),
        elapsed_us=tuple(core.elapsed_us for core in cores),
        memory_digest=memory,
        memory_us=(time.perf_counter_ns() - start_ns) // 1_000,
        worked_us=worked_us,
        others_us=max(others_ns, 0) // 1_000,
        devices=devices,
    )


def _busy_ns() -> int:
    """What all cores of the machine have worked so far, in steps of 10 ms; and waited for a host's.

    In a container this is the host's: others that are busy there are in its way, too.
    """
    spent = psutil.cpu_times()
    idle_s = spent.idle + getattr(spent, "iowait", 0.0) + getattr(spent, "guest", 0.0)
    return int((sum(spent) - idle_s) * 1_000_000_000)


class _Core(threading.Thread):
    """The rounds of one core. A long hash lets go of the interpreter, so all run at once."""

    def __init__(self, challenge: Challenge, number: int, material: bytes) -> None:
        super().__init__(name=f"prove-{number}", daemon=True)
        self.digests = b""
        self.elapsed_us = 1
        self._challenge, self._number, self._material = challenge, number, material

    def run(self) -> None:
        # The thread's own time: what it waited for a core that is not there does not count.
        start_ns = time.thread_time_ns()
        seed = self._challenge.seed
        self.digests = b"".join(
            round_digest(seed, self._number, each, self._material)
            for each in range(self._challenge.rounds)
        )
        self.elapsed_us = max((time.thread_time_ns() - start_ns) // 1_000, 1)


def _memory_digest(challenge: Challenge) -> bytes:
    """Touch every page, and read back what was written."""
    try:
        memory = bytearray(b"\x5a") * challenge.memory_bytes
    except MemoryError:
        return b""
    starts = range(0, challenge.memory_bytes, BLOCK_BYTES)
    for block, start in enumerate(starts):
        memory[start : start + STAMP_BYTES] = memory_stamp(challenge.seed, block)
    kept = b"".join(memory[start : start + STAMP_BYTES] for start in starts)
    return hashlib.sha256(kept).digest()
