"""Rows are counted as promised, and nothing counts that proves nothing."""

import collections
import random
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from scripts import rows
from scripts.rows import Collected, Demand, Part, Row

ROOT = Path(__file__).resolve().parent.parent.parent
ALL = rows.load_rows()


def a_row(id_: str, **changes) -> Row:
    return Row(**{"id": id_, "seed": int(id_[1]), "line": 1, "kind": "goal", "section": "Aims",
                  "text": f"promise {id_}", **changes})  # fmt: skip


def a_test(id_: str, *row_ids: str, proves: bool = True) -> Collected:
    return Collected(id_, list(row_ids), proves, f"def {id_.rsplit('::', 1)[-1]}(): ...")


def test_the_file_holds_every_row_of_every_seed_once():
    per_seed = collections.Counter(row.seed for row in ALL)

    assert per_seed == {0: 127, 1: 122, 2: 150, 3: 108, 4: 114}
    for seed, total in per_seed.items():
        numbers = [int(row.id.split("-")[1]) for row in ALL if row.seed == seed]
        assert numbers == list(range(1, total + 1))
    assert all(
        re.fullmatch(rf"S{row.seed}-\d\d+", row.id) and row.text and row.section for row in ALL
    )


def test_only_plans_stand_apart_and_their_page_names_each_of_them():
    plans = [row for row in ALL if row.answered_by]

    assert {row.kind for row in plans} == {"roadmap"}
    assert len(plans) == 30
    for page in {row.answered_by for row in plans}:
        named = set(re.findall(r"S\d-\d+", (ROOT / page).read_text("utf-8")))
        assert {row.id for row in plans if row.answered_by == page} <= named


def test_a_row_is_proven_by_a_test_that_can_pass_and_by_no_other():
    tests = [a_test("t.py::a", "S0-01"), a_test("t.py::b", "S0-02", proves=False)]

    assert list(rows.proofs(tests)) == ["S0-01"]


def test_the_table_counts_per_seed_with_plans_apart():
    some = [a_row("S0-01"), a_row("S0-02"), a_row("S1-01", answered_by="docs/roadmap.md")]
    page = rows.report(some, [], [a_test("t.py::a", "S0-01")])

    assert re.search(r"^S0 +1 +2 +50 % +0$", page, re.MULTILINE)
    assert re.search(r"^S1 +0 +0 +0 % +1$", page, re.MULTILINE)
    assert re.search(r"^all +1 +2 +50 % +1$", page, re.MULTILINE)
    assert "left: 1 rows\n  S0-02" in page
    assert "docs/roadmap.md: S1-01" in page


def test_what_is_left_is_listed_in_short_ranges():
    assert rows.ranges(["S0-01", "S0-02", "S0-03", "S0-07", "S1-08"]) == "S0-01…03 S0-07 S1-08"


@pytest.mark.parametrize(
    ("named", "gap"),
    [
        (["tests/unit"], []),
        (["tests/unit/test_a.py"], []),
        (["tests/unit/test_a.py::one"], []),
        (["tests/unit/test_a.py::on"], ["tests/unit/test_a.py::on"]),
        (["tests/un"], ["tests/un"]),
        (["tests/unit", "tests/e2e"], ["tests/e2e"]),
        (["tests/unit/test_b.py"], ["tests/unit/test_b.py"]),
        ([], ["no test is named"]),
    ],
)
def test_a_demand_stays_open_until_each_of_its_tests_exists(named, gap):
    tests = [
        a_test("tests/unit/test_a.py::one[x]"),
        a_test("tests/unit/test_b.py::two", proves=False),
    ]

    assert rows.missing(Demand(id="d", text="d", tests=named), tests) == gap


def test_a_part_with_an_open_demand_is_open():
    part = Part(part=1, title="first", demand=[Demand(id="d", text="words", tests=["tests/x.py"])])

    page = rows.report([], [part], [])

    assert "part 1, first: 0 of 1 demands, OPEN" in page
    assert "MISSING d: words\n            lacks tests/x.py" in page
    assert "1 of 1 demands, closed" in rows.report([], [part], [a_test("tests/x.py::y")])


def test_the_audit_shows_ten_proven_rows_with_their_tests():
    many = [a_row(f"S{seed}-{number:02}") for seed in (0, 2) for number in range(1, 21)]
    tests = [a_test(f"t.py::proves_{row.id[1:].replace('-', '_')}", row.id) for row in many[5:]]

    page = rows.audit(many, tests, seed=None, rng=random.Random(1))
    only_two = rows.audit(many, tests, seed=2, rng=random.Random(1))

    assert len(re.findall(r"^promise S\d-\d\d$", page, re.MULTILINE)) == 10
    assert len(re.findall(r"^def proves_\d_\d\d\(\): \.\.\.$", page, re.MULTILINE)) == 10
    assert "promise S0-01" not in page
    assert set(re.findall(r"promise (S\d)", only_two)) == {"S2"}
    assert rows.audit(many, [], seed=None, rng=random.Random(1)) == "no proven row to audit"


@pytest.fixture
def small_project(tmp_path: Path) -> Path:
    """The real conftest and rows beside two tests of our own."""
    for name in ("tests/conftest.py", "scripts/rows.py", "scripts/__init__.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "requirements").mkdir()
    shutil.copy(rows.ROWS_FILE, tmp_path / "requirements")
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    (tmp_path / "tests" / "__init__.py").touch()
    return tmp_path


def marked(row: str, *, skipped: bool = False) -> str:
    skip = '@pytest.mark.skip(reason="later")\n' if skipped else ""
    return f'import pytest\n\n\n{skip}@pytest.mark.rows("{row}")\ndef test_it():\n    assert True\n'


@pytest.mark.slow
def test_marks_are_read_by_pytest_itself(small_project):
    (small_project / "tests" / "test_one.py").write_text(marked("S0-01"), encoding="utf-8")
    (small_project / "tests" / "test_two.py").write_text(
        marked("S0-02", skipped=True), encoding="utf-8"
    )
    tests, trouble = rows.collect(small_project)

    assert trouble == ""
    assert list(rows.proofs(tests)) == ["S0-01"]
    assert "def test_it():\n    assert True" in rows.audit(
        ALL, tests, seed=None, rng=random.Random(1)
    )


@pytest.mark.slow
def test_a_mark_that_names_no_row_fails_the_run(small_project):
    (small_project / "tests" / "test_one.py").write_text(marked("S9-99"), encoding="utf-8")

    _, trouble = rows.collect(small_project)

    assert "tests/test_one.py::test_it: S9-99" in trouble


@pytest.mark.slow
def test_a_file_that_cannot_be_read_is_told_and_the_others_still_count(small_project):
    (small_project / "tests" / "test_one.py").write_text(marked("S0-01"), encoding="utf-8")
    (small_project / "tests" / "test_two.py").write_text(
        "import nowhere_at_all\n", encoding="utf-8"
    )

    tests, trouble = rows.collect(small_project)

    assert "nowhere_at_all" in trouble
    assert list(rows.proofs(tests)) == ["S0-01"]


@pytest.fixture(scope="module")
def collected() -> tuple[list[Collected], str]:
    """Every test of this project: looked for once, as that takes seconds."""
    return rows.collect()


@pytest.mark.slow
def test_the_command_behind_make_rows_works_on_this_project():
    done = subprocess.run(
        [sys.executable, "-m", "scripts.rows"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert re.search(r"^seed +proven +total", done.stdout, re.MULTILINE)


@pytest.mark.slow
def test_the_command_behind_make_rows_audit_works_on_this_project(collected, monkeypatch, capsys):
    monkeypatch.setattr(rows, "collect", lambda: collected)

    code = rows.main(["--audit", "--seed=2"])
    out, err = capsys.readouterr()

    assert code == 0, err
    assert re.search(r"^S2-\d+ \(", out, re.MULTILINE)


@pytest.mark.slow
def test_every_part_but_the_newest_is_closed(collected):
    parts = rows.load_parts()
    known = [part.part for part in parts]

    assert known == list(range(1, len(parts) + 1))
    tests, _ = collected
    for part in parts[:-1]:
        assert {d.id: rows.missing(d, tests) for d in part.demand if rows.missing(d, tests)} == {}
