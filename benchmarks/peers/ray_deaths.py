"""Ray with its defaults: a head and two more nodes; their raylets are killed, or hang.

A raylet is what agent and keeper are to Grid. kill -9 lets the head's connections fail; SIGSTOP
stands for a machine that hangs or is cut off.
"""

import contextlib
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ADDRESS = "127.0.0.1:6379"  # In a network of its own.
NAMES = (
    "health_check_initial_delay_ms",
    "health_check_period_ms",
    "health_check_timeout_ms",
    "health_check_failure_threshold",
)


def main(bound_s: int) -> None:
    """Measure and print."""
    with own_cluster():
        import ray

        start("--head", "--port=6379", "--include-dashboard=false")
        ray.init(address=ADDRESS, logging_level="ERROR", log_to_driver=False)

        def until_dead(number: int) -> float | None:
            known = raylets()
            start(f"--address={ADDRESS}")
            [raylet] = raylets() - known
            until(lambda: alive(ray) == 2, 60)
            time.sleep(10)  # Beyond the first delay of its health checks.
            begin = time.monotonic()
            os.kill(raylet, number)
            if until(lambda: alive(ray) == 1, bound_s):
                return round(time.monotonic() - begin, 2)
            return None

        found = {
            "killed_s": until_dead(signal.SIGKILL),
            "stopped_s": until_dead(signal.SIGSTOP),
            "bound_s": bound_s,
            "settings": _settings(),
        }
        print(json.dumps(found), flush=True)
        ray.shutdown()


@contextlib.contextmanager
def own_cluster() -> Iterator[str]:
    """A home and a token for this cluster alone: nothing of the user's is read or written."""
    home = tempfile.mkdtemp(prefix="grid-ray-")
    os.environ |= {"HOME": home, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    before = raylets()
    try:
        yield home
    finally:
        for pid in raylets() - before:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        shutil.rmtree(home, ignore_errors=True)


def start(*words: str, cpus: int = 1) -> None:
    """A node; the first is the head."""
    argv = [str(Path(sys.executable).with_name("ray")), "start", *words, f"--num-cpus={cpus}"]
    argv += ["--node-ip-address=127.0.0.1", "--object-store-memory=100000000"]
    subprocess.run(argv, check=True, capture_output=True, timeout=120)


def alive(ray: Any) -> int:
    """How many nodes the head takes for alive."""
    return sum(node["Alive"] for node in ray.nodes())


def until(question: Any, bound_s: float) -> bool:
    """Whether it became true in time."""
    deadline = time.monotonic() + bound_s
    while time.monotonic() < deadline:
        if question():
            return True
        time.sleep(0.05)
    return False


def raylets() -> set[int]:
    """Those of this network."""
    here = Path("/proc/self/ns/net").stat().st_ino
    found = set()
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            is_raylet = (entry / "comm").read_text().strip() == "raylet"
            if is_raylet and (entry / "ns/net").stat().st_ino == here:
                found.add(int(entry.name))
    return found


def _settings() -> dict[str, Any]:
    """As they come with this version."""
    with contextlib.suppress(ImportError, AttributeError):
        from ray._raylet import Config

        return {name: getattr(Config, name)() for name in NAMES if hasattr(Config, name)}
    return {}


if __name__ == "__main__":
    main(int(sys.argv[1]))
