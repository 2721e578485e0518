"""Runs cases of transports over iroh, inside a network namespace; prints one line of JSON for each.

python -m tests.contract.transport_child MODULE asyncio|uvloop CASE...
"""

import asyncio
import importlib
import json
import os
import sys
import traceback

import uvloop

from distributed_grid.edges.transport import Admit, Limits
from distributed_grid.edges.transport.iroh_endpoint import IrohTransport

CASE_S_MAX = 30


class IrohLab:
    nowhere = ("127.0.0.1:9",)

    def __init__(self) -> None:
        self._ends: list[IrohTransport] = []

    async def end(
        self,
        limits: Limits = Limits(),  # noqa: B008 - frozen
        admit: Admit = lambda _: True,
    ) -> IrohTransport:
        end = IrohTransport(os.urandom(32), limits=limits, admit=admit)
        await end.open()
        self._ends.append(end)
        return end

    async def close(self) -> None:
        for end in self._ends:
            await end.close()


async def _run(case) -> None:
    lab = IrohLab()
    try:
        await asyncio.wait_for(case(lab), CASE_S_MAX)
    finally:
        await asyncio.wait_for(lab.close(), CASE_S_MAX)


def main() -> None:
    module, loop, *names = sys.argv[1:]
    cases = importlib.import_module(module).CASES
    run = uvloop.run if loop == "uvloop" else asyncio.run
    for name in names:
        problem = ""
        try:
            run(_run(cases[name]))
        except BaseException:  # noqa: BLE001 - told to whoever asked
            problem = traceback.format_exc()
        print(json.dumps([name, problem]), flush=True)


if __name__ == "__main__":
    main()
