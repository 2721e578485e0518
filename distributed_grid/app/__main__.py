"""`python -m distributed_grid.app`, as the keeper starts an agent."""

import sys

from distributed_grid.app import main

sys.exit(main())
