"""Where other people's packages live: outside of the checkout, installed once.

The peers have a virtual environment. What our own Python is to use beside ours (scikit-learn and
joblib) is a folder for its path.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from scripts.pythons import cache

PACKAGES = ("ray==2.60.0", "distributed==2026.8.0", "hyperqueue==0.27.0")
LEARNING = ("scikit-learn==1.9.1", "joblib==1.6.0", "ipython==9.10.0")
ROOT = Path(__file__).resolve().parents[2]


def peers_python() -> Path:
    """Their Python; installs the peers if they are not there yet."""
    folder = cache() / "peers"
    stamp = folder / "installed"
    if not stamp.exists() or stamp.read_text() != "\n".join(PACKAGES):
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        pip = [str(folder / "bin" / "pip"), "install", "--quiet", *PACKAGES]
        subprocess.run(pip, check=True)
        stamp.write_text("\n".join(PACKAGES))
    return folder / "bin" / "python"


def learning_path() -> Path:
    """A folder for the path of this Python; what it holds is installed if it is not there yet."""
    folder = cache() / f"learning-{sys.version_info.major}.{sys.version_info.minor}"
    stamp = folder / "installed"
    if not stamp.exists() or stamp.read_text() != "\n".join(LEARNING):
        shutil.rmtree(folder, ignore_errors=True)
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--only-binary=:all:"]
        subprocess.run([*pip, "--target", str(folder), *LEARNING], check=True)
        stamp.write_text("\n".join(LEARNING))
    return folder


def run_peer(name: str, *numbers: int, what: str = "jobs") -> dict[str, Any]:
    """What a peer measured; an error is a result too."""
    argv = [str(peers_python()), "-m", f"benchmarks.peers.{name}_{what}", *map(str, numbers)]
    if os.getuid() == 0:  # A table of processes of its own: what is left of a peer ends with it.
        argv = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "--", *argv]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode != 0:
        return {"error": done.stderr.strip().splitlines()[-1:]}
    told = [line for line in done.stdout.splitlines() if line.startswith("{")]
    found: dict[str, Any] = json.loads(told[-1])  # Some say more than they were asked.
    return found
