"""Words that nobody would think of, on every operation of HTTP; `make fuzz-http` has more."""

import os
import subprocess
import sys

import pytest

from tests.conftest import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.unmeasured]

SECONDS = 25


def test_no_operation_makes_a_mistake_or_answers_what_its_schema_does_not_have():
    if os.geteuid() != 0:
        pytest.skip("namespaces need root")
    argv = [sys.executable, "-m", "scripts.fuzz_http", "--seconds", str(SECONDS), "--seed", "3"]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=240, check=False)

    assert done.returncode == 0, f"{done.stdout[-6_000:]}\n{done.stderr[-2_000:]}"
