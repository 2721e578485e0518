"""The coverage gate says no when it should. Fed with small reports in coverage's own shape."""

import json
import subprocess
import sys

import pytest

from scripts import coverage_gate
from scripts.coverage_gate import Report
from tests.conftest import ROOT


def summary(lines=10, covered=10, branches=4, covered_branches=4) -> dict[str, int]:
    return {
        "num_statements": lines,
        "covered_lines": covered,
        "num_branches": branches,
        "covered_branches": covered_branches,
    }


def a_file(missing_lines=(), missing_branches=(), **counts) -> dict[str, object]:
    return {
        "summary": summary(**counts),
        "missing_lines": list(missing_lines),
        "missing_branches": [list(branch) for branch in missing_branches],
    }


def a_report(files=None, totals=None, *, branch_coverage=True) -> Report:
    if files is None:
        files = {"distributed_grid/kernel/rank.py": a_file(), "distributed_grid/app.py": a_file()}
    return coverage_gate.msgspec.convert(
        {
            "meta": {"branch_coverage": branch_coverage, "version": "7"},
            "files": files,
            "totals": totals or summary(),
        },
        Report,
    )


@pytest.mark.rows("S2-113", "S1-76")
def test_a_whole_report_passes():
    assert coverage_gate.verdicts(a_report()) == []


@pytest.mark.rows("S2-113")
@pytest.mark.parametrize(("covered", "fine"), [(900, True), (899, False)])
def test_ninety_percent_in_all_is_the_limit_and_is_not_rounded(covered, fine):
    totals = summary(lines=1000, covered=covered, branches=0, covered_branches=0)

    assert (coverage_gate.verdicts(a_report(totals=totals)) == []) is fine


@pytest.mark.rows("S2-113")
def test_branches_count_in_the_total():
    totals = summary(lines=90, covered=90, branches=20, covered_branches=0)

    assert "total: 81.8 %" in coverage_gate.verdicts(a_report(totals=totals))[0]


@pytest.mark.rows("S1-76")
@pytest.mark.parametrize("layer", ["kernel/placement", "kernel", "model", "wire"])
@pytest.mark.parametrize(
    ("gap", "words"),
    [
        ({"missing_lines": [3, 4, 5, 7], "covered": 6}, "lines 3-5, 7"),
        ({"missing_branches": [(5, 8)], "covered_branches": 3}, "branches 5->8"),
        ({"covered_branches": 3}, "1 lines or branches"),
    ],
)
def test_the_pure_layers_must_be_covered_whole(layer, gap, words):
    name = f"distributed_grid/{layer}/rank.py"

    assert coverage_gate.verdicts(a_report({name: a_file(**gap)})) == [
        f"{name}: must be whole, lacks {words}"
    ]


def test_a_gap_elsewhere_is_a_matter_of_the_total_only():
    files = {"distributed_grid/cli/place.py": a_file(missing_lines=[3], covered=9)}

    assert coverage_gate.verdicts(a_report(files)) == []


@pytest.mark.parametrize(
    ("report", "words"),
    [
        (a_report(files={}), "nothing was measured"),
        (a_report(branch_coverage=False), "branches were not measured"),
    ],
)
def test_a_report_that_measures_nothing_is_no_pass(report, words):
    assert words in coverage_gate.verdicts(report)[0]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (json.dumps({"meta": {"branch_coverage": True}, "files": {}, "totals": summary()}), 1),
        ("{", 2),
        (None, 2),
    ],
)
def test_the_command_tells_by_its_exit_code(tmp_path, capsys, text, code):
    file = tmp_path / "coverage.json"
    if text is not None:
        file.write_text(text, encoding="utf-8")

    assert coverage_gate.main([str(file)]) == code
    assert capsys.readouterr().out.startswith("coverage gate: ")


@pytest.mark.slow
def test_the_gate_reads_what_coverage_writes(tmp_path):
    """The real tool, on a file with a hole, so that its format cannot drift away from us."""
    package = tmp_path / "distributed_grid" / "model"
    package.mkdir(parents=True)
    (package / "half.py").write_text("x = 1\nif x == 2:\n    x = 3\n", encoding="utf-8")
    (tmp_path / "go.py").write_text("import distributed_grid.model.half\n", encoding="utf-8")
    for words in (["run", "--branch", "--source=.", "go.py"], ["json", "-q", "-o", "r.json"]):
        subprocess.run(
            [sys.executable, "-m", "coverage", *words],
            cwd=tmp_path,
            env={"PATH": "", "COVERAGE_FILE": str(tmp_path / ".coverage")},
            check=True,
            capture_output=True,
        )
    report = coverage_gate.msgspec.json.decode((tmp_path / "r.json").read_bytes(), type=Report)

    assert "distributed_grid/model/half.py: must be whole, lacks lines 3; branches 2->3" in (
        coverage_gate.verdicts(report)
    )


CALLED = (
    "def one():\n    pass\ndef two():\n    pass\ndef three():\n    pass\ndef four():\n    pass\n"
)
MEASURED = """
import subprocess, sys
import pytest
import called

def child(name):
    subprocess.run([sys.executable, "-c", f"import called; called.{name}()"], check=True)

def test_one(): called.one()

@pytest.mark.unmeasured
def test_two(): called.two(); child("two")

@pytest.mark.unmeasured
def test_three(): called.three(); child("three")

def test_four(): child("four")
"""


@pytest.mark.slow
def test_what_is_marked_is_not_measured_nor_what_it_starts(tmp_path):
    (tmp_path / "called.py").write_text(CALLED, encoding="utf-8")
    (tmp_path / "test_it.py").write_text(MEASURED, encoding="utf-8")
    (tmp_path / "rc").write_text("[run]\nparallel = true\npatch = subprocess\nsource = .\n")
    words = ["-p", "no:randomly", "-p", "no:cacheprovider", "-p", "tests.conftest", "--rootdir=."]
    words += ["-W", "error", "-o", "markers=unmeasured"]
    for command in (
        ["run", "-m", "pytest", "-q", "-c", "/dev/null", *words, "test_it.py"],
        ["combine", "-q"],
        ["json", "-q", "-o", "r.json"],
    ):
        subprocess.run(
            [sys.executable, "-m", "coverage", *command],
            cwd=tmp_path,
            env={
                "PATH": "",
                "PYTHONPATH": f"{ROOT}:{tmp_path}",
                "COVERAGE_FILE": str(tmp_path / ".coverage"),
                "COVERAGE_RCFILE": str(tmp_path / "rc"),
            },
            check=True,
        )
    report = json.loads((tmp_path / "r.json").read_bytes())

    assert report["files"]["called.py"]["missing_lines"] == [4, 6]
