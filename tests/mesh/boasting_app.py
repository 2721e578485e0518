"""The real agent of a machine that claims sixteen cores: the lie is here, all else is the product.

python -m tests.mesh.boasting_app --data-dir DIR …
"""

import sys
from typing import Any

import msgspec

from distributed_grid import app
from distributed_grid.agent.mesh_values import profile_of
from distributed_grid.wire.mesh_records import NodeProfile

CORES = 16


def boasted(*machine: Any, **words: Any) -> NodeProfile:
    """What it is, but for the cores."""
    honest = profile_of(*machine, **words)
    return msgspec.structs.replace(honest, cores=CORES, cpu_milli=CORES * 1_000)


def main() -> int:
    app.profile_of = boasted
    return app.main(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
