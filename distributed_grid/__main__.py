"""`python -m distributed_grid` is `grid`."""

from distributed_grid.cli import main

main()
