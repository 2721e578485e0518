"""`python -m distributed_grid.sim.across --seed 7`."""

import sys

from distributed_grid.sim.across.run import main

if __name__ == "__main__":
    sys.exit(main())
