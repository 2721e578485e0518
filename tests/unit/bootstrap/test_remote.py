"""The programme over there, where it needs nobody at the other end."""

import os
import sys
from importlib import metadata

import pytest

from distributed_grid.bootstrap import packing, remote


def test_where_our_wheels_do_not_fit_pip_brings_what_is_needed(tmp_path, monkeypatch):
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    wheel = packing.write_wheel(metadata.distribution("click"), tmp_path)
    remote._from_index(wheel, tmp_path / "in")

    assert (tmp_path / "in/click/__init__.py").exists()


@pytest.mark.parametrize(
    ("said", "why", "remedy"),
    [
        ("No module named pip", "has no pip", "apt install python3-pip"),
        ("No matching distribution", "pip there failed: No matching distribution", "PIP_INDEX_URL"),
    ],
)
def test_what_pip_lacks_has_its_remedy(tmp_path, monkeypatch, said, why, remedy):
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\necho {said} >&2\nexit 1\n")
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    with pytest.raises(remote.Failed) as caught:
        remote._from_index(tmp_path / "a.whl", tmp_path)

    assert why in caught.value.args[0]
    assert remedy in caught.value.args[1]


def test_a_full_disk_is_told_before_anything_is_written(tmp_path, monkeypatch):
    monkeypatch.setattr(remote, "ROOT", tmp_path)
    read, write = os.pipe()
    os.write(write, b"x" * 10)
    os.close(write)
    with os.fdopen(read, "rb") as sent:
        monkeypatch.setattr(remote.sys, "stdin", type("In", (), {"buffer": sent}))
        with pytest.raises(remote.Failed, match="MiB are needed"):
            remote._receive(tmp_path / "bundle", 1 << 50)

    assert not list(tmp_path.iterdir())


def test_what_does_not_run_there_is_told_with_its_last_words(tmp_path):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/python").write_text("#!/bin/sh\necho cannot load libc >&2\nexit 1\n")
    (tmp_path / "bin/python").chmod(0o755)
    with pytest.raises(remote.Failed, match="does not run there: cannot load libc"):
        remote._check(tmp_path)
