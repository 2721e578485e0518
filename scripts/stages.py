"""Runs the stages of `make check` and `make test` in turn, and tells how long each took.

Lives here: the list of stages, their order, the closing summary. Never here: what a stage checks.
Invariant: every stage runs, a failed one makes the whole fail, and none leaves a process behind.
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import FrameType
from typing import IO, Final
from xml.etree import ElementTree as ET

import msgspec
import psutil

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
# Cheap and telling first; a folder that is not named here runs last, but it runs.
KINDS = ("tidy", "unit", "property", "words", "sim", "contract", "docs", "mesh", "e2e", "speed")
# What runs at once, by two cores: a phase begins when the one before is over, and each of its lanes
# runs its stages in turn. Agents wait for each other more than they compute: half of the meshes run
# beside what computes all the time, the other half beside what starts agents one by one.
PHASES: Final = (
    (("tidy", "unit", "words"), ("property", "sim", "contract", "docs"), ("mesh 1/2",)),
    (("e2e 1/2",), ("e2e 2/2",), ("mesh 2/2",)),
)
SHARES: Final = {"e2e": 2, "mesh": 2}  # Folders whose files are dealt out to so many stages.
# Coverage doubles what an agent costs, and thirty of them run at once; others cover the same code.
# What measures speed wants to be measured alone; `tidy` runs nothing of the product; and of the
# ways that `words` goes each is tested by others, too.
UNMEASURED = frozenset({"tidy", "words", "mesh", "speed"})


GRACE_S: Final = 10.0  # For what a stage started in a session of its own, and let go, to end.
GUARDS_S: Final = 15.0  # For all guards to end theirs; whoever limits us gives us twenty seconds.

_guards: "set[subprocess.Popen[bytes]]" = set()
_is_leaving = threading.Event()
# Nobody leaves while a guard is being started, and would not be told. The thread that leaves may be
# the one that starts it: then it goes on.
_starting = threading.RLock()


class Stage(msgspec.Struct, frozen=True):
    """One command; `junit` is where pytest writes its counts."""

    name: str
    command: list[str]
    junit: Path | None = None


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """How a stage went."""

    name: str
    seconds: float
    problem: str = ""
    passed: int = 0
    failed: int = 0
    skipped: int = 0


def checks() -> list[Stage]:
    """What needs no test run."""
    tool = {name: str(BIN / name) for name in ("ruff", "mypy", "lint-imports")}
    contracts = [tool["lint-imports"], "--no-logo"]
    if cache := os.environ.get("IMPORT_LINTER_CACHE_DIR"):
        contracts += ["--cache-dir", cache]
    return [
        Stage("format", [tool["ruff"], "format", "--check", "--quiet", "."]),
        Stage("lint", [tool["ruff"], "check", "--quiet", "."]),
        Stage("types", [tool["mypy"], "--no-error-summary"]),
        Stage("imports", contracts),
    ]


def kinds(tests: Path) -> list[str]:
    """Every folder of tests, in the order of KINDS, then any other that holds a test."""
    found = sorted({file.relative_to(tests).parts[0] for file in tests.glob("*/**/test_*.py")})
    return [kind for kind in KINDS if kind in found] + [kind for kind in found if kind not in KINDS]


def pytest_stages(kind: str, folder: Path) -> list[Stage]:
    """The tests of one folder, or of each share of its files."""
    shares = SHARES.get(kind, 1)
    if shares == 1:
        return [pytest_stage(kind, folder, [f"tests/{kind}"])]
    files = sorted(
        (ROOT / "tests" / kind).glob("**/test_*.py"), key=lambda file: file.stat().st_size
    )
    names = [str(file.relative_to(ROOT)) for file in files]
    return [
        pytest_stage(f"{kind} {share + 1}/{shares}", folder, names[share::shares])
        for share in range(shares)
    ]


def pytest_stage(name: str, folder: Path, paths: list[str]) -> Stage:
    """Some tests, under coverage if that harms nothing."""
    measured = name.split(maxsplit=1)[0] not in UNMEASURED  # Of a share, that of the whole.
    runner = ["-m", "coverage", "run", "-m", "pytest"] if measured else ["-m", "pytest"]
    junit = folder / f"{name.replace('/', ' of ')}.xml"
    # Of its own: stages that run at once would tidy up the same place. Short: a socket's path is.
    place = folder / "".join(filter(str.isalnum, name))[:5]
    command = [sys.executable, *runner, "-q", f"--basetemp={place}", f"--junitxml={junit}", *paths]
    return Stage(f"tests/{name}", command, junit)


def coverage_stages(folder: Path) -> list[Stage]:
    """From raw data to the verdict."""
    report = str(folder / "coverage.json")
    coverage = [sys.executable, "-m", "coverage"]
    return [
        Stage("combine", [*coverage, "combine", "--quiet"]),
        Stage("measure", [*coverage, "json", "--quiet", "-o", report]),
        Stage("coverage", [sys.executable, "-m", "scripts.coverage_gate", report]),
    ]


def run_all(stages: Sequence[Stage]) -> list[Result]:
    """Every stage: those of the phases at once, the others in turn, where they stand.

    Results are in the order given.
    """
    known = {stage.name: stage for stage in stages}
    phased = {name: phase for phase in PHASES for lane in phase for name in _names(lane)}
    results: dict[str, Result] = {}
    for stage in stages:
        if stage.name in results:
            continue
        if (phase := phased.get(stage.name)) is None:
            results[stage.name] = run(stage)
            continue
        lanes = [[known[name] for name in _names(lane) if name in known] for lane in phase]
        with ThreadPoolExecutor(len(lanes)) as pool:
            for done in pool.map(run_lane, lanes):
                results |= {result.name: result for result in done}
    return [results[stage.name] for stage in stages]


def _names(lane: tuple[str, ...]) -> list[str]:
    return [f"tests/{kind}" for kind in lane]


def run_lane(stages: Sequence[Stage]) -> list[Result]:
    """These in turn, while others run."""
    return [run_quietly(stage) for stage in stages]


def run_quietly(stage: Stage) -> Result:
    """Run one stage, and print what it said when it is over."""
    with tempfile.TemporaryFile("w+") as said:
        result = run(stage, output=said)
        said.seek(0)
        print(f"\n--- {stage.name}\n{said.read()}", flush=True)
    return result


def run(stage: Stage, *, output: IO[str] | None = None, grace_s: float = GRACE_S) -> Result:
    """Run one stage to its end, in a session of its own, and see that nothing outlives it."""
    if output is None:
        print(f"\n--- {stage.name}", flush=True)
    began = time.monotonic()
    with tempfile.NamedTemporaryFile("r", encoding="utf-8") as told:
        guard = [sys.executable, "-m", "scripts.guard", told.name, str(grace_s)]
        with _starting:
            if _is_leaving.is_set():
                return Result(name=stage.name, seconds=0, problem="not run")
            process = subprocess.Popen(
                [*guard, *stage.command],
                cwd=ROOT,
                start_new_session=True,
                stdout=output,
                stderr=output,
            )
            _guards.add(process)
        try:
            code = process.wait()
        finally:
            process.terminate()  # If it still runs; what it guards ends with it.
            process.wait()
            _guards.discard(process)
        left = told.read().splitlines()
    counts = _counts(stage.junit)
    problem = f"exit {code}" if code else ""
    if left:
        problem = f"{problem} left behind: {'; '.join(left)}".strip()
    seconds = time.monotonic() - began
    return Result(name=stage.name, seconds=seconds, problem=problem, **counts)


def _counts(junit: Path | None) -> dict[str, int]:
    """What pytest counted; nothing at all if it did not get that far."""
    if junit is None or not junit.exists():
        return {}
    suite = ET.parse(junit).getroot().find("testsuite")  # noqa: S314  (written by our own pytest)
    assert suite is not None
    total, failed, errors, skipped = (
        int(suite.get(name, "0")) for name in ("tests", "failures", "errors", "skipped")
    )
    failed += errors
    return {"passed": total - failed - skipped, "failed": failed, "skipped": skipped}


def summary(results: Sequence[Result], seconds: float) -> str:
    """A table of stages; the last line counts tests, for people and for CI."""
    lines = ["", f"{'stage':<16} {'seconds':>8}  result"]
    for result in results:
        counted = f"{result.passed} passed" if result.passed else ""
        counted += f", {result.failed} failed" if result.failed else ""
        counted += f", {result.skipped} skipped" if result.skipped else ""
        words = f"FAILED ({result.problem}) {counted}" if result.problem else f"ok {counted}"
        lines.append(f"{result.name:<16} {result.seconds:>8.1f}  {words}".rstrip())
    lines.append(f"{'all':<16} {seconds:>8.1f}")
    bad = [result.name for result in results if result.problem]
    if bad:
        lines.append(f"failed: {', '.join(bad)}")
    passed, failed = sum(r.passed for r in results), sum(r.failed for r in results)
    skipped = sum(r.skipped for r in results)
    lines.append(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
    return "\n".join(lines)


def verdict(results: Sequence[Result], *, no_skips: bool) -> int:
    """0 only if every stage passed, and nothing was skipped where skips are not allowed."""
    if any(result.problem for result in results):
        return 1
    if no_skips and any(result.skipped for result in results):
        print("skipped tests are not allowed here: make what they need available")
        return 1
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `check` or `test`."""
    parser = argparse.ArgumentParser(prog="stages", description="Run the checks and the tests.")
    parser.add_argument("which", choices=["check", "test"])
    parser.add_argument("--no-skips", action="store_true", help="a skipped test is a failure")
    options = parser.parse_args(arguments)
    # A limit from outside ends us politely; the stage that runs must end with us.
    signal.signal(signal.SIGTERM, _leave)
    with tempfile.TemporaryDirectory(prefix="grid-stages-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        os.environ["COVERAGE_FILE"] = str(folder / "coverage")
        # Thousands of interpreters start: none of them shall compile what others have compiled.
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        if options.which == "check":
            stages = [*checks(), pytest_stage("tidy", folder, ["tests/tidy"])]
        else:
            tests = [stage for k in kinds(ROOT / "tests") for stage in pytest_stages(k, folder)]
            stages = [*checks(), *tests, *coverage_stages(folder)]
        began = time.monotonic()
        results = run_all(stages)
    print(summary(results, time.monotonic() - began), flush=True)
    return verdict(results, no_skips=options.no_skips)


def _leave(_signal: int, _frame: FrameType | None) -> None:
    _is_leaving.set()  # A lane would go on with its next stage.
    with _starting:
        guards = list(_guards)
    for guard in guards:
        guard.terminate()
    deadline = time.monotonic() + GUARDS_S
    while any(map(_runs, guards)) and time.monotonic() < deadline:
        time.sleep(0.05)
    raise SystemExit(143)


def _runs(guard: "subprocess.Popen[bytes]") -> bool:
    """Whoever waits for it may be the one that was interrupted: not asked by waiting."""
    try:
        return psutil.Process(guard.pid).status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


if __name__ == "__main__":
    sys.exit(main())
