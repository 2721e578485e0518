"""Compiles the stand-in for libnvidia-ml.so and describes fleets to it.

Lives here: the `fake_nvml` fixture and `fleet`, for unit and end-to-end tests. Never here: the
library itself (`tests/unit/probe/fake_nvml.c`).
"""

import shutil
import subprocess
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "unit" / "probe" / "fake_nvml.c"


@pytest.fixture(scope="session")
def fake_nvml(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The path of the compiled library."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    assert compiler, "no C compiler: install gcc or clang (Debian: apt install gcc)"
    library = tmp_path_factory.mktemp("nvml") / "libnvidia-ml.so.1"
    subprocess.run(
        [compiler, "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o", library, SOURCE],
        check=True,
    )
    return str(library)


def fleet(*devices: dict[str, object]) -> str:
    """Devices as the fake reads them from FAKE_NVML_FLEET."""
    return ";".join(",".join(f"{key}={value}" for key, value in d.items()) for d in devices)


def h100(number: int, **more: object) -> dict[str, object]:
    """A healthy H100 in slot `number`."""
    return {
        "name": "NVIDIA H100 80GB HBM3",
        "uuid": f"GPU-{number:08d}-0000-0000-0000-000000000000",
        "bus": f"00000000:{0x1B + number:02X}:00.0",
        "memory": 81_559,
        "used": 559,
        "busy": 12,
        "cc": 90,
        "temp": 41,
        "power": 71_000,
        "ecc": 0,
        "pending": 0,
        "failed": 0,
        "mig": 0,
        **more,
    }
