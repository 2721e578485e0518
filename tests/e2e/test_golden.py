"""Are 200 decisions the same as ever, in every process and under every Python that is here?"""

import json
import os
import subprocess
import sys

import pytest

from scripts import golden, pythons
from tests import reference
from tests.conftest import ROOT
from tests.property.test_columns import answer_of

pytestmark = pytest.mark.unmeasured

EXPECTED = json.loads(golden.ANSWERS.read_text(encoding="utf-8"))


def decided(python, hash_seed):
    """The decisions of another process, on both kinds of snapshot."""
    done = subprocess.run(
        [python, "-m", "scripts.golden"],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_there_are_200_golden_decisions_of_every_kind():
    assert len(EXPECTED) == 200
    assert len({answer["policy"] for answer in EXPECTED}) == 9
    assert {answer["rank"] for answer in EXPECTED} == {"even", "xor"}
    placed = [answer for answer in EXPECTED if answer["cluster"]]
    assert 150 <= len(placed) < 200


@pytest.mark.rows("S1-25", "S1-26", "S1-122")
@pytest.mark.parametrize("hash_seed", ["0", "1", "random"])
def test_any_process_with_any_hash_seed_decides_the_same(hash_seed):
    found = decided(sys.executable, hash_seed)

    assert found["plain"] == EXPECTED
    assert found["columns"] == EXPECTED


@pytest.mark.rows("S1-25")
@pytest.mark.slow
def test_every_python_that_is_here_decides_the_same():
    """Python 3.11 and up; those for which an environment is there or can be made."""
    others = [inside for python in pythons.candidates() if (inside := pythons.equipped(python))]
    for python in (sys.executable, *others):
        found = decided(python, "random")

        assert found["plain"] == EXPECTED, python
        assert found["columns"] == EXPECTED, python
    print("decided alike:", sys.executable, *others)


def test_the_golden_decisions_are_those_of_the_reference():
    nodes = golden.read_fleet(str(golden.FLEET))
    jobs, _ = golden.read_jobs(str(golden.JOBS))
    for index, rules in zip(range(golden.DECISIONS), golden.endless_rules(), strict=False):
        job = jobs[index % len(jobs)]
        expected = reference.decide(job, nodes, rules)

        assert answer_of(golden.place(job, golden.PlainSnapshot(nodes), rules)) == expected
        assert [node[:8] for node in expected.cluster] == EXPECTED[index]["cluster"]
