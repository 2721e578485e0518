"""`python -m distributed_grid.sim.mesh --seed 7`."""

import sys

from distributed_grid.sim.mesh.run import main

if __name__ == "__main__":
    sys.exit(main())
