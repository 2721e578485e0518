"""The coverage gate: reads the report of `coverage json` and says yes or no.

Lives here: the limits, and who must reach them. Never here: measuring (coverage does).
Invariant: a file that was never imported counts as uncovered, not as absent.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

TOTAL_PERCENT_MIN = 90
# Where a wrong branch is a wrong decision on every machine at once.
FULL = ("distributed_grid/kernel/", "distributed_grid/model/", "distributed_grid/wire/")


class Summary(msgspec.Struct, frozen=True):
    """The counts of one file, or of all."""

    num_statements: int
    covered_lines: int
    num_branches: int = 0
    covered_branches: int = 0

    @property
    def wanted(self) -> int:
        """Lines and branches together."""
        return self.num_statements + self.num_branches

    @property
    def covered(self) -> int:
        """Those of them that some test went through."""
        return self.covered_lines + self.covered_branches


class File(msgspec.Struct, frozen=True):
    """One source file."""

    summary: Summary
    missing_lines: list[int] = []
    missing_branches: list[tuple[int, int]] = []


class Meta(msgspec.Struct, frozen=True):
    """How it was measured."""

    branch_coverage: bool = False


class Report(msgspec.Struct, frozen=True):
    """What `coverage json` writes, as far as we need it."""

    meta: Meta
    files: Mapping[str, File]
    totals: Summary


def verdicts(report: Report) -> list[str]:
    """Every reason to say no; empty when all is well."""
    problems = []
    if not report.meta.branch_coverage:
        problems.append("branches were not measured: set branch = true")
    if not report.files:
        problems.append("nothing was measured")
    total = report.totals
    # Integers: 89.96 % must not be rounded up to a pass.
    if total.covered * 100 < total.wanted * TOTAL_PERCENT_MIN:
        problems.append(
            f"total: {percent(total)} of lines and branches, {TOTAL_PERCENT_MIN} % needed"
        )
    for name, file in sorted(report.files.items()):
        gaps = _gaps(file)
        if name.startswith(FULL) and gaps:
            problems.append(f"{name}: must be whole, lacks {gaps}")
    return problems


def _gaps(file: File) -> str:
    """`lines 3, 7; branches 5->8`, or '' for a file that is covered whole."""
    parts = []
    if file.missing_lines:
        parts.append("lines " + ", ".join(_ranges(file.missing_lines)))
    if file.missing_branches:
        parts.append("branches " + ", ".join(f"{a}->{b}" for a, b in file.missing_branches))
    if not parts and file.summary.covered < file.summary.wanted:
        parts.append(f"{file.summary.wanted - file.summary.covered} lines or branches")
    return "; ".join(parts)


def _ranges(lines: Sequence[int]) -> list[str]:
    """`3-5` and `7` for 3, 4, 5, 7."""
    runs: list[list[int]] = []
    for line in lines:
        if runs and line == runs[-1][-1] + 1:
            runs[-1].append(line)
        else:
            runs.append([line])
    return [f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs]


def percent(summary: Summary) -> str:
    """One decimal, always rounded down: 99.99 % is not 100."""
    tenths = 1000 * summary.covered // max(1, summary.wanted)
    return f"{tenths // 10}.{tenths % 10} %"


def main(arguments: Sequence[str] | None = None) -> int:
    """0 when the report passes, 1 with the reasons when not, 2 when there is no report."""
    parser = argparse.ArgumentParser(prog="coverage_gate", description="Is enough covered?")
    parser.add_argument("report", type=Path, help="the file written by `coverage json`")
    file: Path = parser.parse_args(arguments).report
    try:
        report = msgspec.json.decode(file.read_bytes(), type=Report)
    except (OSError, msgspec.MsgspecError) as error:
        print(f"coverage gate: no usable report in {file.name}: {error}")
        return 2
    problems = verdicts(report)
    for problem in problems:
        print(f"coverage gate: {problem}")
    if not problems:
        full = sum(name.startswith(FULL) for name in report.files)
        print(f"coverage gate: {percent(report.totals)} in all, {full} files covered whole")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
