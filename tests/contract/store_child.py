"""A process that writes to a store and tells what was acknowledged, until somebody kills it.

    python -m tests.contract.store_child FILE WRITERS
    python -m tests.contract.store_child FILE --fill

Each batch is a job and a lease of the same number; `NUMBER` is printed after `commit` returned.
With `--fill` it writes until the disk is full, makes space, writes again, and tells all of it.
"""

import asyncio
import os
import sys
from pathlib import Path

from distributed_grid.edges.store import JobRow, PutJob, PutLease, StoreFull
from distributed_grid.edges.store.sqlite import SqliteStore

RECORD = bytes(range(256)) * 8


def batch(number: int) -> list[PutJob | PutLease]:
    job = JobRow(id=f"{number:08d}", record=RECORD, state="waiting", submitted_ms=number)
    return [PutJob(job), PutLease(f"{number:08d}", RECORD)]


async def write_for_ever(store: SqliteStore, first: int, step: int) -> None:
    number = first
    while True:
        await store.commit(batch(number))
        os.write(1, f"{number}\n".encode())
        number += step


async def write_until_full(file: Path) -> None:
    store = SqliteStore(str(file))
    ballast = file.with_name("ballast")
    ballast.write_bytes(b"x" * (256 << 10))
    number = 0
    while True:
        try:
            await store.commit(batch(number))
        except StoreFull as error:
            print(f"full {number}: {error}")
            break
        number += 1
    stored = await store.jobs()
    print(f"stored {len(stored)}")
    ballast.unlink()
    await store.commit(batch(number))
    await store.close()
    again = SqliteStore(str(file))
    everything = await again.load_all()
    print(f"again {len(everything.jobs)} {len(everything.leases)}")
    await again.close()


async def main() -> None:
    file, mode = sys.argv[1:]
    if mode == "--fill":
        await write_until_full(Path(file))
        return
    store = SqliteStore(file)
    async with asyncio.TaskGroup() as tasks:
        for first in range(int(mode)):
            tasks.create_task(write_for_ever(store, first, int(mode)))


if __name__ == "__main__":
    asyncio.run(main())
