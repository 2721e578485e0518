"""A short round of the nemesis: whatever is done to five machines, no promise is broken."""

import os

import pytest

from tests.nemesis.__main__ import told
from tests.nemesis.trial import play

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.getuid() != 0, reason="mounts a file system: run it as root"),
]

SECONDS = 12


def test_whatever_fails_every_job_ends_once_as_it_had_to_and_nothing_is_left():
    verdict = play(16, SECONDS)
    told(verdict, SECONDS)

    assert not verdict.violations
    assert verdict.figures["kept"] > 0
