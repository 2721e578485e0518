"""Copies get to who is there; who is gone, or need not have them, holds up nothing."""

import asyncio
from types import SimpleNamespace

import pytest

from distributed_grid.agent import pinning
from distributed_grid.agent.pinning import GONE_LOOKS, TURN, Pinning
from distributed_grid.agent.setting_out import SettingOut, pin_of
from distributed_grid.agent.shipping import Shipping
from distributed_grid.kernel.accounts import Allowance
from distributed_grid.kernel.node import Cancel
from distributed_grid.model.artifact import ASKED, ManifestId
from distributed_grid.model.job import Shipment, Work
from distributed_grid.wire.artifacts import Complete, Refusal
from tests.across_world import Room
from tests.node_world import a_job
from tests.unit.artifacts.lab import a_store, files_of, plant


class Lab:
    """A home and two others: what it sends arrives nowhere, unless the test says so."""

    def __init__(self, tmp_path):
        self.room = Room(3)
        self.home = self.room[0]
        self.store = a_store(tmp_path / "store")
        self.files = files_of(self.store)
        self.pins = set()
        self.tree = plant(tmp_path / "tree", {"a": "1"})
        self.watch("pin", self.pins.add)
        self.watch("unpin", self.pins.discard)
        self.ships = Shipping(self.store, self.send)
        for other in self.room.nodes[1:]:
            self.ships.link_up(other.me)
        setting_out = SettingOut(self.home.node, self.files, self.store, clock_ms=lambda: 0)
        self.pinning = Pinning(self.home.node, self.ships, setting_out, reach=lambda _: None)

    async def send(self, _peer, _message):
        return True

    def watch(self, name, note):
        real = getattr(self.store, name)

        def noted(manifest, owner):
            note(owner)
            return real(manifest, owner)

        setattr(self.store, name, noted)

    def packed(self):
        found = self.files.pack(str(self.tree), owner="test", amount=ASKED)
        return Shipment(manifest=found.id, size_bytes=1, files=1)

    def submit(self, ship=None, name="job"):
        spec = a_job(name, work=Work(argv=("true",), cwd=str(self.tree)), ship=ship)
        self.home.submit(spec)
        self.room.settle()
        job = self.home.job(spec)
        assert len(job.guardians) == 2
        return job

    async def looks(self, count=1):
        for _ in range(count):
            await self.pinning.look()

    def to(self, *peers):
        """To whom copies are under way: these and no others."""
        return sorted(one.peer for one in self.ships.under_way()) == sorted(peers)

    def die(self, peer):
        self.room.dead.add((self.home.me, peer))
        self.room.look()
        self.ships.link_down(peer)

    def come_back(self, peer):
        self.room.dead.clear()
        self.room.look()
        self.ships.link_up(peer)


@pytest.fixture
def lab(tmp_path):
    return Lab(tmp_path)


async def test_a_guardian_that_dies_in_the_middle_does_not_keep_the_copy_from_another(lab):
    job = lab.submit(lab.packed())
    first, second = job.guardians
    await lab.looks()
    assert lab.to(first)
    lab.die(first)
    await lab.looks()

    assert lab.to(first, second)


async def test_the_same_with_the_state_that_a_job_saved(lab, monkeypatch):
    state = ManifestId(lab.packed().manifest)
    monkeypatch.setattr(pinning, "_states", lambda _job: (state,))
    first, second = lab.submit().guardians
    await lab.looks()
    assert lab.to(first)
    lab.die(first)
    await lab.looks()

    assert lab.to(first, second)


async def test_what_is_for_a_machine_that_is_gone_for_good_is_let_go(lab):
    job = lab.submit(lab.packed())
    first, second = job.guardians
    await lab.looks()
    asked = await lab.ships.ship(first, ManifestId(job.spec.ship.manifest), again=True)
    lab.die(first)
    await lab.looks(GONE_LOOKS)

    assert asked.over.is_set()
    assert lab.to(second)
    assert f"shipping:{first}" not in lab.pins
    assert f"shipping:{second}" in lab.pins


async def test_who_is_away_for_a_moment_is_sent_the_rest(lab):
    first, _ = lab.submit(lab.packed()).guardians
    await lab.looks()
    (begun,) = lab.ships.under_way()
    for _ in range(2):  # Twice: it is the time at a stretch that counts.
        lab.die(first)
        await lab.looks(GONE_LOOKS - 1)
        lab.come_back(first)
        await lab.looks()

    assert begun in lab.ships.under_way()
    assert f"shipping:{first}" in lab.pins


async def test_who_lives_is_waited_for_however_long_there_is_no_link(lab):
    first, _ = lab.submit(lab.packed()).guardians
    await lab.looks()
    begun = lab.ships.under_way()
    lab.ships.link_down(first)
    await lab.looks(2 * GONE_LOOKS)

    assert lab.ships.under_way() == begun


async def test_who_is_taken_for_dead_and_has_a_link_is_sent_the_rest(lab):
    first, second = lab.submit(lab.packed()).guardians
    await lab.looks()
    lab.die(first)
    lab.ships.link_up(first)
    await lab.looks(GONE_LOOKS)

    assert lab.to(first, second)


@pytest.mark.parametrize("is_asked", [False, True])
async def test_who_is_no_guardian_any_more_gets_only_what_it_asked_for(lab, is_asked):
    job = lab.submit(lab.packed())
    first, second = job.guardians
    await lab.looks()
    if is_asked:
        await lab.ships.ship(first, ManifestId(job.spec.ship.manifest), again=True)
    job.guardians = (second,)
    await lab.looks(2)

    assert lab.to(first) if is_asked else lab.to(second)
    assert (f"shipping:{first}" in lab.pins) == is_asked


async def test_a_job_that_has_ended_leaves_no_copy_under_way(lab):
    job = lab.submit(lab.packed())
    await lab.looks()
    lab.home.end(job.spec)
    await lab.looks()

    assert lab.to()
    assert not any(owner.startswith("shipping:") for owner in lab.pins)


async def test_what_was_packed_and_is_not_in_the_record_yet_stays_under_way(lab):
    job = lab.submit()
    assert await lab.pinning.copy(job, lab.packed())
    first, _ = job.guardians
    await lab.looks(2)
    assert lab.to(first)
    lab.home.end(job.spec)
    await lab.looks()

    assert lab.to()
    assert not lab.pinning._packed


async def test_who_did_not_want_what_it_asked_for_still_gets_copies(lab):
    job = lab.submit(lab.packed())
    first, second = job.guardians
    manifest = ManifestId(job.spec.ship.manifest)
    for is_asked in (True, False):
        shipment = await lab.ships.ship(first, manifest, again=is_asked)
        lab.ships.received(first, Refusal(manifest=manifest, reason="not-permitted"))
        await shipment.over.wait()
        await lab.looks()

        assert lab.to(first) if is_asked else lab.to(second)


async def test_one_copy_of_the_same_files_is_made_after_the_other(lab):
    ship = lab.packed()
    one, other = lab.submit(ship), lab.submit(ship, "other")
    first, second = one.guardians
    one.guardians, other.guardians = (first,), (second,)
    await lab.looks(2)
    assert lab.to(first)
    lab.ships.received(first, Complete(manifest=ship.manifest))
    await lab.ships.shipment(ship.manifest, first).over.wait()
    await lab.looks()

    assert lab.to(second)


async def test_a_look_at_many_jobs_goes_through_the_transfers_once_and_lets_others_speak(
    lab, monkeypatch
):
    monkeypatch.setattr(pinning, "_states", lambda _job: ())
    looked, turns = [], 0
    under_way = lab.ships.under_way
    lab.ships.under_way = lambda: looked.append(1) or under_way()
    lab.ships.progress = lab.ships.under_way
    count = 20 * TURN
    jobs = {number: a_shipped_job(number) for number in range(count)}
    lab.pinning._node = SimpleNamespace(across=None, coordinator=SimpleNamespace(jobs=jobs))
    looking = asyncio.ensure_future(lab.pinning._look_at_copies())
    while not looking.done():
        await asyncio.sleep(0)
        turns += 1

    assert len(looked) == 1
    assert turns >= 20


def a_shipped_job(number):
    ship = Shipment(manifest=f"{number:064x}", size_bytes=1, files=1)
    spec = SimpleNamespace(id=f"{number}", ship=ship, python_env="")
    return SimpleNamespace(
        spec=spec, guardians=(), live_attempts=(), is_guest=False, has_ended=False
    )


def holds_for(lab, sender, name):
    """A record of another home's job with files is held here."""
    ship = lab.packed()
    lab.store.unpin(ManifestId(ship.manifest), "test")
    spec = a_job(
        name,
        work=Work(argv=("true",), cwd=str(lab.tree)),
        ship=ship,
        cpus=64_000,
        wait_for_capacity=True,
    )
    sender.submit(spec)
    lab.room.settle()
    assert spec.id in lab.home.node.across.guarding.shelf.unfinished
    return spec


async def test_files_of_others_are_kept_as_long_as_the_account_of_the_sender_has_room(lab):
    one, other = lab.room.nodes[1:]
    lab.pinning._accounts.limits = Allowance(0, 3, 3, 4, 0)
    (lab.tree / "a").write_text("123")
    first = holds_for(lab, one, "first")
    (lab.tree / "a").write_text("45")
    second = holds_for(lab, one, "second")
    await lab.looks(2)
    assert lab.pinning._accounts[one.me] in (2, 3)
    assert len(lab.pins & {pin_of(first.id), pin_of(second.id)}) == 1

    (lab.tree / "a").write_text("6")
    third = holds_for(lab, other, "third")
    await lab.looks()
    assert pin_of(third.id) in lab.pins, "others have room"
    for spec in (first, second):
        one.step(Cancel(now_ms=one.now_ms, job=spec.id))
    lab.room.settle()
    await lab.looks()
    assert lab.pins == {pin_of(third.id)}
    assert lab.pinning._accounts[one.me] == 0


async def test_what_is_not_here_yet_is_on_nobody_s_account(lab):
    one = lab.room[1]
    spec = holds_for(lab, one, "job")
    lab.store.clear()
    await lab.looks()

    assert pin_of(spec.id) not in lab.pins
    assert lab.pinning._accounts.total == 0
