"""Grid as pip installs it, for what measures a start.

In a checkout (`pip install -e`) every Python that starts runs a finder first, `python -c pass` too.
That triples what Grid is compared with, and would flatter us: here nothing runs but Python's own.
"""

import contextlib
import sysconfig
import tempfile
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
SCRIPT = """\
#!{python}
# -*- coding: utf-8 -*-
import re
import sys
from distributed_grid.cli import main
if __name__ == '__main__':
    sys.argv[0] = re.sub(r'(-script\\.pyw|\\.exe)?$', '', sys.argv[0])
    sys.exit(main())
"""  # Word for word what pip writes for an entry point.


class Installation(NamedTuple):
    """The programs in it."""

    python: str
    grid: str


@contextlib.contextmanager
def plain_installation() -> Iterator[Installation]:
    """An environment with this Grid and what it needs, for as long as this lasts."""
    with tempfile.TemporaryDirectory(prefix="grid-bench-") as folder:
        venv.create(folder, symlinks=True)
        programs = Path(folder, "bin")
        python, grid = str(programs / "python"), programs / "grid"
        # Lines of a .pth are plain folders to Python: the hooks that lie in them are not run.
        [packages] = Path(folder, "lib").glob("python*/site-packages")
        (packages / "grid.pth").write_text(f"{ROOT}\n{sysconfig.get_path('purelib')}\n")
        grid.write_text(SCRIPT.format(python=python))
        grid.chmod(0o755)
        yield Installation(python, str(grid))
