"""Do the import contracts name everyone they are about, and do they bite?"""

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
PACKAGE = ROOT / "distributed_grid"
CONTRACTS = {
    contract["id"]: contract
    for contract in tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"][
        "importlinter"
    ]["contracts"]
}
PURE = ("errors", "kernel", "model", "refusals", "sim", "wire")


def exists(name: str) -> bool:
    return (PACKAGE / f"{name}.py").exists() or (PACKAGE / name / "__init__.py").exists()


def test_the_pure_contract_names_every_pure_module_that_is_born():
    expected = [f"distributed_grid.{name}" for name in PURE if exists(name)]

    assert sorted(CONTRACTS["pure"]["source_modules"]) == expected


@pytest.mark.parametrize(
    ("module", "contract"),
    [("agent", "protocols-only"), ("client", "light-client"), ("edges", "seams")],
)
def test_a_module_with_a_contract_of_its_own_brings_it_along(module, contract):
    assert exists(module) == (contract in CONTRACTS)


def test_the_layers_and_numpy_are_always_watched():
    assert {"layers", "numpy"} <= set(CONTRACTS)
    assert CONTRACTS["layers"]["exhaustive"] is True


def lint_imports(folder: Path) -> subprocess.CompletedProcess[str]:
    # The folder itself comes first on the path, so its copy is judged, not the installed package.
    code = "import sys; sys.path.insert(0, '.'); from importlinter.cli import lint_imports_command as c; c()"
    return subprocess.run(
        [sys.executable, "-c", code, "--no-logo", "--no-cache"],
        cwd=folder,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


VIOLATIONS = [
    ("model/upward.py", "import distributed_grid.kernel\n", "Imports point down"),
    ("kernel/clock.py", "import time\n", "The kernel and what it stands on"),
    ("kernel/disk.py", "import distributed_grid.edges\n", "Imports point down"),
    ("cli/columns.py", "import numpy\n", "numpy stays inside"),
    ("drawer/__init__.py", "", "Imports point down"),
    ("edges/left/__init__.py", "import distributed_grid.edges.probe\n", "Seams do not import"),
]


@pytest.mark.slow
def test_the_contracts_bite(tmp_path):
    shutil.copytree(
        PACKAGE, tmp_path / "distributed_grid", ignore=shutil.ignore_patterns("__pycache__")
    )
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    clean = lint_imports(tmp_path)
    assert clean.returncode == 0, clean.stdout + clean.stderr

    for name, text, broken in VIOLATIONS:
        file = tmp_path / "distributed_grid" / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8")
        done = lint_imports(tmp_path)
        file.unlink()
        if not any(file.parent.iterdir()):
            file.parent.rmdir()

        assert done.returncode == 1, f"{name} was let through:\n{done.stdout}{done.stderr}"
        assert any(
            line.startswith(broken) and "BROKEN" in line for line in done.stdout.splitlines()
        ), done.stdout
