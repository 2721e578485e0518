"""What travels to a machine without network, made of what is installed here."""

import subprocess
import sys
import zipfile
from contextlib import closing
from importlib import metadata

import pytest

import distributed_grid
from distributed_grid.bootstrap import packing
from distributed_grid.bootstrap.packing import NotPacked, Supply


@pytest.fixture
def supply():
    with closing(Supply()) as made:
        yield made


def test_our_wheel_holds_the_whole_package_whatever_is_installed(supply):
    with zipfile.ZipFile(supply.wheel()) as wheel:
        names = set(wheel.namelist())
        assert wheel.testzip() is None

    assert {"distributed_grid/app/__init__.py", "distributed_grid/bootstrap/remote.py"} <= names
    assert not [name for name in names if "__pycache__" in name or "direct_url" in name]
    assert supply.wheel() == supply.wheel()
    assert supply.wheel().name.startswith(f"distributed_grid-{distributed_grid.__version__}-py3")


def test_pip_takes_a_wheel_that_was_made_of_installed_files(tmp_path):
    made = packing.write_wheel(metadata.distribution("click"), tmp_path)
    words = ["install", "--quiet", "--no-index", "--no-deps", "--target", str(tmp_path / "in")]
    subprocess.run([sys.executable, "-m", "pip", *words, str(made)], check=True, timeout=120)

    assert (tmp_path / "in/click/__init__.py").exists()


def test_everything_that_grid_needs_travels(supply):
    names = {one.name.lower() for one in supply.packages}

    assert {"click", "msgspec", "iroh", "numpy"} <= names
    assert "pytest" not in names  # What only some extra needs.


def test_a_machine_of_the_same_kind_fits_and_others_say_why_not(supply, monkeypatch):
    monkeypatch.setattr(supply, "glibc", (2, 36))
    same = {"machine": supply.machine, "python": supply.python, "glibc": "2.99"}

    assert supply.misfit(same) == ""
    assert "processor is riscv64" in supply.misfit({**same, "machine": "riscv64"})
    assert "its Python is 3.99" in supply.misfit({**same, "python": "3.99"})
    assert supply.misfit({**same, "glibc": "2.5"}).startswith("its glibc is 2.5, Grid was made for")
    assert "its glibc is none" in supply.misfit({**same, "glibc": ""})


def test_what_was_made_for_another_libc_fits_nowhere_else(supply, monkeypatch):
    monkeypatch.setattr(supply, "glibc", None)
    same = {"machine": supply.machine, "python": supply.python, "glibc": "2.99"}

    assert "another kind" in supply.misfit(same)


def test_two_installations_are_told_apart_by_their_files(supply, monkeypatch):
    before = supply.fingerprint
    with closing(Supply()) as other:
        assert other.fingerprint == before
    monkeypatch.setattr(packing, "_own_files", list)
    with closing(Supply()) as changed:
        assert changed.fingerprint != before


def test_what_no_pip_installed_is_named(tmp_path, monkeypatch):
    one = metadata.distribution("click")
    monkeypatch.setattr(type(one), "files", None)
    with pytest.raises(NotPacked, match="click"):
        packing.write_wheel(one, tmp_path)
