"""Which promises are proven: `make rows` and `make rows-audit`.

Lives here: reading rows and accept files, joining them with the collected tests, the report.
Never here: collecting marks (tests/conftest.py does, through pytest itself).
Invariant: a row counts as proven only while a test that can pass names it.
"""

import argparse
import os
import random
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import msgspec
import pytest

ROOT = Path(__file__).resolve().parent.parent
ROWS_FILE = ROOT / "requirements" / "rows.toml"
ACCEPT_FOLDER = ROOT / "tests" / "accept"
AUDIT_ROWS = 10  # As many as a person reads in one sitting.


class Row(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One testable sentence of a seed; `answered_by` marks a plan, answered by a page."""

    id: str
    seed: int
    line: int
    kind: str
    section: str
    text: str
    answered_by: str | None = None


class Demand(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One demand of a part, with the tests that prove it."""

    id: str
    text: str
    tests: list[str] = []


class Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One accept file."""

    part: int
    title: str
    demand: list[Demand]


class Collected(msgspec.Struct, frozen=True):
    """One collected test, as tests/conftest.py writes it."""

    id: str
    rows: list[str]
    proves: bool
    source: str


def load_rows(file: Path = ROWS_FILE) -> list[Row]:
    """Every row, in the order of the seeds."""
    return msgspec.convert(_toml(file)["rows"], list[Row])


def load_parts(folder: Path = ACCEPT_FOLDER) -> list[Part]:
    """The accept files, by number."""
    parts = [msgspec.convert(_toml(file), Part) for file in sorted(folder.glob("part-*.toml"))]
    return sorted(parts, key=lambda part: part.part)


def collect(root: Path = ROOT) -> tuple[list[Collected], str]:
    """Every test pytest can see, and what went wrong while it looked ('' if nothing)."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "tests.json"
        command = [sys.executable, "-m", "pytest", "--collect-only", "-qq", "--color=no"]
        command += [
            "-p",
            "no:cacheprovider",
            "-p",
            "no:randomly",
            "--continue-on-collection-errors",
        ]
        done = subprocess.run(
            [*command, f"--rows-json={report}"],
            cwd=root,
            # What the caller wants of its own pytest is not for this one; to be imported proves
            # nothing, so that nothing is measured.
            env={
                name: value
                for name, value in os.environ.items()
                if name != "PYTEST_ADDOPTS" and not name.startswith("COVERAGE_")
            },
            capture_output=True,
            text=True,
            check=False,
        )
        tests = (
            msgspec.json.decode(report.read_bytes(), type=list[Collected])
            if report.exists()
            else []
        )
        fine = done.returncode in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)
        return tests, "" if fine else done.stdout + done.stderr


def proofs(tests: Iterable[Collected]) -> dict[str, list[Collected]]:
    """Row id -> the tests that prove it."""
    proven: dict[str, list[Collected]] = {}
    for test in tests:
        for row in test.rows if test.proves else ():
            proven.setdefault(row, []).append(test)
    return proven


def missing(demand: Demand, tests: Sequence[Collected]) -> list[str]:
    """What keeps this demand open: named tests that do not exist, or that none is named."""
    ids = [test.id for test in tests if test.proves]
    absent = [name for name in demand.tests if not any(_is_under(id_, name) for id_ in ids)]
    return absent if demand.tests else ["no test is named"]


def _is_under(test_id: str, name: str) -> bool:
    """Is this test the named one, or in the named function, file or folder?"""
    return test_id == name or test_id.startswith((f"{name}::", f"{name}/", f"{name}["))


def ranges(ids: Iterable[str]) -> str:
    """`S0-01…03 S0-07` for S0-01, S0-02, S0-03, S0-07: a long list on one line."""
    numbers = [(id_.split("-")[0], int(id_.split("-")[1]), id_) for id_ in ids]
    runs = []
    for _, run in groupby(enumerate(numbers), key=lambda pair: (pair[1][0], pair[1][1] - pair[0])):
        members = [number for _, number in run]
        first, last = members[0][2], members[-1][2]
        runs.append(first if first == last else f"{first}…{last.split('-')[1]}")
    return " ".join(runs)


def report(rows: Sequence[Row], parts: Sequence[Part], tests: Sequence[Collected]) -> str:
    """The whole page that `make rows` prints."""
    proven = proofs(tests)
    pages = [*_table(rows, proven), "", *_left(rows, proven), "", *_plans(rows)]
    for part in parts:
        pages += ["", *_part(part, tests)]
    return "\n".join(pages)


def _table(rows: Sequence[Row], proven: dict[str, list[Collected]]) -> list[str]:
    lines = ["seed      proven  total      plans apart"]
    seeds = sorted({row.seed for row in rows})
    for name, members in [*((f"S{seed}", {seed}) for seed in seeds), ("all", set(seeds))]:
        mine = [row for row in rows if row.seed in members]
        testable = [row for row in mine if row.answered_by is None]
        done = sum(row.id in proven for row in testable)
        plans = len(mine) - len(testable)
        lines.append(
            f"{name:<8} {done:>7} {len(testable):>6} {_percent(done, testable)} {plans:>8}"
        )
    return lines


def _percent(done: int, of: Sequence[Row]) -> str:
    return f"{100 * done // max(1, len(of)):>5} %"


def _left(rows: Sequence[Row], proven: dict[str, list[Collected]]) -> list[str]:
    left = [row for row in rows if row.answered_by is None and row.id not in proven]
    lines = [f"left: {len(left)} rows"]
    for (_, section), run in groupby(left, key=lambda row: (row.seed, row.section)):
        lines.append(f"  {ranges(row.id for row in run):<34} {section}")
    return lines


def _plans(rows: Sequence[Row]) -> list[str]:
    plans = [row for row in rows if row.answered_by]
    pages = sorted({row.answered_by for row in plans if row.answered_by})
    lines = [f"plans (phases and months; a page answers them): {len(plans)} rows"]
    by_page = {page: [row.id for row in plans if row.answered_by == page] for page in pages}
    return [*lines, *(f"  {page}: {ranges(ids)}" for page, ids in by_page.items())]


def _part(part: Part, tests: Sequence[Collected]) -> list[str]:
    gaps = {demand.id: missing(demand, tests) for demand in part.demand}
    done = sum(not gap for gap in gaps.values())
    state = "closed" if done == len(part.demand) else "OPEN"
    lines = [f"part {part.part}, {part.title}: {done} of {len(part.demand)} demands, {state}"]
    for demand in part.demand:
        gap = gaps[demand.id]
        lines.append(f"  {'MISSING' if gap else 'ok     '} {demand.id}: {demand.text}")
        lines += [f"            lacks {name}" for name in gap]
    return lines


def audit(
    rows: Sequence[Row], tests: Sequence[Collected], *, seed: int | None, rng: random.Random
) -> str:
    """Ten random proven rows with the source of their tests: do the two say the same?"""
    proven = proofs(tests)
    pool = [row for row in rows if row.id in proven and seed in (None, row.seed)]
    chosen = sorted(rng.sample(pool, min(AUDIT_ROWS, len(pool))), key=rows.index)
    if not chosen:
        return "no proven row to audit"
    pages = []
    for row in chosen:
        pages.append(f"{'=' * 100}\n{row.id} ({row.kind}, {row.section})\n{row.text}\n")
        sources = {test.id.split("[")[0]: test.source for test in proven[row.id]}
        pages += [f"--- {name}\n{source}" for name, source in sorted(sources.items())]
    return "\n".join(pages)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table, or the audit; 1 if the tests cannot be collected, 2 for bad words."""
    parser = argparse.ArgumentParser(prog="rows", description="Which promises are proven.")
    parser.add_argument("--audit", action="store_true", help="ten random rows with their tests")
    parser.add_argument("--seed", type=int, choices=range(5), help="only rows of this seed")
    parser.add_argument("--dice", type=int, help="audit the same ten rows again")
    options = parser.parse_args(arguments)
    rows = load_rows()
    tests, trouble = collect()
    if options.audit:
        dice = options.dice if options.dice is not None else random.SystemRandom().randrange(10**6)
        print(audit(rows, tests, seed=options.seed, rng=random.Random(dice)))  # noqa: S311
        print(f"the same rows again: make rows-audit DICE={dice}", file=sys.stderr)
    else:
        print(report(rows, load_parts(), tests))
    if trouble:
        print(f"\nthe tests cannot all be collected:\n{trouble}", file=sys.stderr)
        return 1
    return 0


def _toml(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise SystemExit(f"{file.relative_to(ROOT)}: {error}") from error


if __name__ == "__main__":
    sys.exit(main())
