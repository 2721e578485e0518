"""The whole machine: what holds for all its parts together."""

import subprocess
import sys
from pathlib import Path

import pytest

from distributed_grid.edges.probe import machine
from distributed_grid.edges.probe.machine import OUR_BUG, profile
from tests.trees.nvml import fleet, h100
from tests.trees.planting import plant


def test_a_bug_in_one_reader_costs_that_part_alone() -> None:
    absent: dict[str, str] = {}

    def broken() -> tuple[int, ...]:
        raise ZeroDivisionError("by zero")

    assert machine._part("thermals", broken, (), absent) == ()
    assert absent["thermals"] == f"{OUR_BUG}: ZeroDivisionError: by zero"


def run(script: str, *arguments: str | Path) -> str:
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "from distributed_grid.edges.probe.machine import profile\n" + script,
        ]
        + [str(argument) for argument in arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stderr == ""
    return done.stdout


def test_a_process_pinned_to_one_core_may_use_one() -> None:
    told = run(
        "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n"
        "made = profile(); print(made.cpu.logical_cores, made.cpu_milli, made.limits.cpu_limit)"
    ).split()

    assert int(told[1]) <= 1_000
    assert told[0] == "1" or told[1] != "1000" or told[2] == "affinity"


def test_a_working_directory_that_was_removed_is_no_crash(tmp_path: Path) -> None:
    told = run(
        "import os, sys; os.mkdir(sys.argv[1]); os.chdir(sys.argv[1]); os.rmdir(sys.argv[1])\n"
        "print(profile().storage.path)",
        tmp_path / "gone",
    )

    assert told == "/\n"


def test_a_jetson_whose_nvml_answers_has_one_gpu_and_not_two(
    tmp_path: Path, fake_nvml: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_NVML_FLEET", fleet(h100(0, name="Orin (nvgpu)")))
    root = str(plant("jetson-orin", tmp_path))

    assert len(profile(root).gpus) == 1
    assert [gpu.model for gpu in profile(root, nvml_library=fake_nvml).gpus] == ["ORIN"]


def test_two_profiles_of_the_same_files_are_equal(tmp_path: Path) -> None:
    root = str(plant("gpu-server-8", tmp_path))

    assert profile(root) == profile(root)
