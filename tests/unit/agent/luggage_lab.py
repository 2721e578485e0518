"""Two kernels, two stores, and a link between them for files.

Lives here: what tests of files that travel share. Never here: assertions.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from distributed_grid.agent.bringing import Bringing
from distributed_grid.agent.fetching import Fetching
from distributed_grid.agent.pinning import Pinning
from distributed_grid.agent.setting_out import SettingOut
from distributed_grid.agent.transplanting import Transplanting
from distributed_grid.model.job import Work
from distributed_grid.wire.across import Start
from tests.across_world import Room
from tests.node_world import a_job
from tests.unit.artifacts.lab import Wire, a_store, files_of

TEST_S: Final = 30.0  # Nothing in it takes so long, unless it hangs.


class Lab:
    """Two kernels, two stores, and a link between them for files."""

    def __init__(self, tmp_path):
        self.room = Room(2)
        self.home, self.host = self.room.nodes
        self.link = Wire()
        self.stores = [a_store(tmp_path / name) for name in ("here", "there")]
        self.ships = [
            self.link.plug(one.me, store)
            for one, store in zip(self.room.nodes, self.stores, strict=True)
        ]
        self.link.up()
        self.files = [files_of(store, home=str(tmp_path / "me")) for store in self.stores]
        self.sent = []
        self.tasks = []
        self.setting_out = SettingOut(
            self.home.node, self.files[0], self.stores[0], clock_ms=self.now_ms
        )
        self.setting_out.send = lambda peer, word: self.sent.append((peer, word))
        self.setting_out.later = lambda work: self.tasks.append(asyncio.ensure_future(work))
        self.setting_out.step = self.step
        self.reached = []
        self.pinning = Pinning(
            self.home.node, self.ships[0], self.setting_out, reach=self.reached.append
        )
        self.transplanting = Transplanting(
            self.home.node, self.setting_out, self.pinning, self.files[0], clock_ms=self.now_ms
        )
        self.fetching = [
            Fetching(ship, across=lambda one=one: one.node.across, reach=self.reached.append)
            for ship, one in zip(self.ships, self.room.nodes, strict=True)
        ]
        self.bringing = Bringing(
            self.home.node, self.files[0], self.fetching[0], clock_ms=self.now_ms
        )
        self.bringing.step = self.step

    def now_ms(self):
        return self.home.now_ms

    async def step(self, event):
        self.home.step(event)

    def a_spec(self, tree, name="job", **wishes):
        return a_job(name, work=Work(argv=("true",), cwd=str(tree)), **wishes)

    def start(self, spec, lease="lease"):
        return Start(
            job=spec.id,
            epoch=self.home.job(spec).epoch,
            number=1,
            lease=lease,
            spec=spec,
            attempt=1,
        )

    async def told(self, spec, *leases):
        """What other nodes hear of a start."""
        for lease in leases or ("lease",):
            self.setting_out.to_peer(self.host.me, self.start(spec, lease))
        await asyncio.gather(*self.tasks)
        return [word for _, word in self.sent if isinstance(word, Start)]

    def story(self, spec):
        return [(line.what, line.detail) for line in self.home.job(spec).story]


def in_a_lab(made: Callable[[], Lab], test: Callable[[Lab], Awaitable[None]]) -> None:
    """Run a test in a lab that is made, and closed, in its loop."""

    async def go() -> None:
        lab = made()
        try:
            async with asyncio.timeout(TEST_S):
                await test(lab)
        finally:
            await lab.link.close()

    asyncio.run(go())
