"""What every test may ask for: the real `grid` command, and the marks that name rows.

Lives here: the `grid` and `clean_env` fixtures, hypothesis profiles, the collection of row marks,
what is not measured.
Never here: builders of nodes and jobs (beside the tests that use them), fakes, anything with state.
Invariant: a test sees a home of its own; nothing of the person who runs it leaks in.
"""

import asyncio
import inspect
import os
import subprocess
import sys
import warnings
from collections.abc import Callable, Generator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import hypothesis
import pytest

ROOT = Path(__file__).resolve().parent.parent
VENV_BIN = Path(sys.executable).parent

# The same examples on every run: a red test is about the change, not about luck.
# `HYPOTHESIS_PROFILE=thorough` looks further, with new examples each time.
# A machine that others use too may be slow at any moment: that is no finding.
hypothesis.settings.register_profile(
    "stable",
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.register_profile("thorough", deadline=None, max_examples=2_000, database=None)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "stable"))


class Grid(Protocol):
    """The type of the `grid` fixture."""

    def __call__(
        self,
        *args: str | Path,
        cwd: Path | None = None,
        env: Mapping[str, str | None] | None = None,
        stdin: str | bytes | None = None,
        timeout_s: float = 60,
        coverage: bool = True,
    ) -> subprocess.CompletedProcess[str]: ...


@pytest.fixture
def clean_env(tmp_path: Path) -> dict[str, str]:
    """An environment as on a fresh machine: an own HOME, the venv first, no colour, 120 columns.

    Variables of the coverage measurement pass through, so that child processes count.
    """
    home = tmp_path / "home"
    home.mkdir(exist_ok=True)
    kept = {name: os.environ[name] for name in os.environ if name.startswith("COVERAGE_")}
    return kept | {
        "PATH": f"{VENV_BIN}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
        "HOME": str(home),
        "XDG_CACHE_HOME": str(home / ".cache"),
        "XDG_CONFIG_HOME": str(home / ".config"),
        "XDG_DATA_HOME": str(home / ".local/share"),
        "XDG_STATE_HOME": str(home / ".local/state"),
        "COLUMNS": "120",
        "LC_ALL": "C.UTF-8",
        "NO_COLOR": "1",
        "TERM": "xterm-256color",
        "TZ": "UTC",
    }


@pytest.fixture
def grid(tmp_path: Path, clean_env: dict[str, str]) -> Grid:
    """Run the installed `grid` as a user would, and hand back the finished process.

        done = grid("place", "--nodes", nodes_file, "--json")
        assert done.returncode == 0, done.stderr

    It never raises for an exit code: the test says which one it expects. `cwd` is `tmp_path` unless
    told; `env` adds variables (None removes one); `stdin` is text or raw bytes, nothing at all by
    default; `coverage=False` is for tests that measure time. Output that is not UTF-8 is replaced,
    so a test can assert on it all the same.
    """

    def run(
        *args: str | Path,
        cwd: Path | None = None,
        env: Mapping[str, str | None] | None = None,
        stdin: str | bytes | None = None,
        timeout_s: float = 60,
        coverage: bool = True,
    ) -> subprocess.CompletedProcess[str]:
        wanted: dict[str, str | None] = {**clean_env, **(env or {})}
        environment = {
            name: value
            for name, value in wanted.items()
            if value is not None and (coverage or not name.startswith("COVERAGE_"))
        }
        given = stdin.encode() if isinstance(stdin, str) else stdin
        command = [str(VENV_BIN / "grid"), *map(str, args)]
        done = subprocess.run(
            command,
            cwd=cwd or tmp_path,
            env=environment,
            input=given if given is not None else b"",
            capture_output=True,
            timeout=timeout_s,
            check=False,
        )
        return subprocess.CompletedProcess(
            command,
            done.returncode,
            done.stdout.decode(errors="replace"),
            done.stderr.decode(errors="replace"),
        )

    return run


# --- Rows: which promise is proven by which test -------------------------------------------------


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rows-json", help="write every collected test with its rows to this file")


def pytest_collection_modifyitems(config: pytest.Config, items: Sequence[pytest.Item]) -> None:
    """Refuse marks that name no row, and write down who proves what when asked."""
    marked = [(item, ids) for item in items if (ids := _rows(item))]
    if marked:
        known = _known_rows()
        unknown = {
            f"{item.nodeid}: {row}" for item, ids in marked for row in ids if row not in known
        }
        if unknown:
            lines = "\n  ".join(sorted(unknown))
            raise pytest.UsageError(
                f"marks name rows that requirements/rows.toml lacks:\n  {lines}"
            )
    target = config.getoption("--rows-json")
    if target:
        _write_report(Path(target), items)


def _rows(item: pytest.Item) -> list[str]:
    return sorted({row for mark in item.iter_markers("rows") for row in mark.args})


def _known_rows() -> frozenset[str]:
    from scripts import rows  # Only a run with marks pays for reading the rows.

    return frozenset(row.id for row in rows.load_rows())


def _write_report(target: Path, items: Sequence[pytest.Item]) -> None:
    import inspect
    import json

    tests: list[dict[str, Any]] = []
    for item in items:
        rows = _rows(item)
        function = getattr(item, "function", None)
        tests.append(
            {
                "id": item.nodeid,
                "rows": rows,
                # A test that is skipped or expected to fail proves nothing.
                "proves": not any(item.get_closest_marker(mark) for mark in ("skip", "xfail")),
                "source": inspect.getsource(function) if rows and function else "",
            }
        )
    target.write_text(json.dumps(tests), encoding="utf-8")


# --- Coverage: whom it would only hold up --------------------------------------------------------


_PAUSED = pytest.StashKey[Callable[[], None]]()  # What takes the measurement up again.


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(
    item: pytest.Item, nextitem: pytest.Item | None
) -> Generator[None, object, object]:
    """Neither a test that is marked `unmeasured` nor a process that it starts is measured."""
    if not _is_unmeasured(item):
        return (yield)
    if _PAUSED not in item.session.stash:
        item.session.stash[_PAUSED] = _paused_measurement()
    try:
        return (yield)
    finally:
        if nextitem is None or not _is_unmeasured(nextitem):  # Each start costs some time.
            item.session.stash[_PAUSED]()
            del item.session.stash[_PAUSED]


def _is_unmeasured(item: pytest.Item) -> bool:
    return item.get_closest_marker("unmeasured") is not None


def _paused_measurement() -> Callable[[], None]:
    import coverage

    measurement = coverage.Coverage.current()
    if measurement is None:
        return lambda: None
    variables = {name: os.environ.pop(name) for name in list(os.environ) if "COVERAGE" in name}
    measurement.stop()

    def resume() -> None:
        with warnings.catch_warnings():  # It would tell that our modules were imported before.
            warnings.simplefilter("ignore", coverage.exceptions.CoverageWarning)
            measurement.start()
        os.environ.update(variables)

    return resume


ASYNC_TEST_S_MAX = 30


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """A test that is a coroutine gets an event loop of its own, for a bounded time."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = pyfuncitem._fixtureinfo.argnames
    call = pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names})
    asyncio.run(asyncio.wait_for(call, ASYNC_TEST_S_MAX))
    return True
