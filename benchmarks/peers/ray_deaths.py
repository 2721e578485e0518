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
    # A home and a token for this cluster alone: nothing of the user's is read or written.
    home = tempfile.mkdtemp(prefix="grid-ray-")
    os.environ |= {"HOME": home, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    import ray

    before = _raylets()
    try:
        _start("--head", "--port=6379", "--include-dashboard=false")
        ray.init(address=ADDRESS, logging_level="ERROR", log_to_driver=False)

        def until_dead(number: int) -> float | None:
            known = _raylets()
            _start(f"--address={ADDRESS}")
            [raylet] = _raylets() - known
            _until(lambda: _alive(ray) == 2, 60)
            time.sleep(10)  # Beyond the first delay of its health checks.
            begin = time.monotonic()
            os.kill(raylet, number)
            if _until(lambda: _alive(ray) == 1, bound_s):
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
    finally:
        for pid in _raylets() - before:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        shutil.rmtree(home, ignore_errors=True)


def _start(*words: str) -> None:
    argv = [str(Path(sys.executable).with_name("ray")), "start", *words, "--num-cpus=1"]
    argv += ["--node-ip-address=127.0.0.1", "--object-store-memory=100000000"]
    subprocess.run(argv, check=True, capture_output=True, timeout=120)


def _alive(ray: Any) -> int:
    return sum(node["Alive"] for node in ray.nodes())


def _until(question: Any, bound_s: float) -> bool:
    deadline = time.monotonic() + bound_s
    while time.monotonic() < deadline:
        if question():
            return True
        time.sleep(0.05)
    return False


def _raylets() -> set[int]:
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
