"""Files leave with jobs, are copied to who keeps their records, and outputs come home."""

import asyncio
import os
import time
from functools import partial

import msgspec
import pytest

from distributed_grid.agent.bulk import Bulk
from distributed_grid.agent.pinning import Pinning
from distributed_grid.agent.setting_out import SettingOut, manifests_of
from distributed_grid.agent.shipping_in import NotFetched
from distributed_grid.errors import NotFound
from distributed_grid.model.artifact import ASKED, ManifestId
from distributed_grid.model.job import Shipment, Where, Work
from distributed_grid.wire import artifacts as wire
from distributed_grid.wire.across import Report
from distributed_grid.wire.across_api import Pack
from distributed_grid.wire.artifacts import Fetch, Offer, Refusal
from distributed_grid.wire.keeper import Ended, Usage
from tests.node_world import a_job, fill
from tests.unit.agent.luggage_lab import Lab, in_a_lab
from tests.unit.artifacts.lab import a_store, picture, plant


@pytest.fixture
def lab(tmp_path):
    return partial(in_a_lab, lambda: Lab(tmp_path))


@pytest.fixture
def tree(tmp_path):
    return plant(tmp_path / "tree", {"a": "1", "d/b": "2"})


# Leaving


def test_named_files_are_as_they_were_when_they_were_named(lab, tree):
    async def test(lab):
        packed = await lab.setting_out.pack(Pack(directory=str(tree), paths=("d",)))
        plant(tree, {"d/b": "changed"})
        manifest = lab.stores[0].manifest(ManifestId(packed.ship.manifest))

        assert [file.name for file in manifest.files] == [b"b"]
        assert (packed.ship.files, packed.ship.size_bytes, packed.python_env) == (1, 1, "")

    lab(test)


def test_an_environment_alone_takes_no_directory_along(lab, tree):
    plant(tree, {"requirements.txt": ""})

    async def test(lab):
        wanted = Pack(directory=str(tree), python_env=str(tree / "requirements.txt"))
        packed = await lab.setting_out.pack(wanted)
        assert packed.ship is None
        (spec,) = await lab.setting_out.taken((lab.a_spec(tree, python_env=packed.python_env),))
        assert manifests_of(spec) == (packed.python_env,)

    lab(test)


def test_a_job_that_can_run_here_takes_nothing_along_and_nobody_looks(lab, tmp_path):
    async def test(lab):
        spec = lab.a_spec(tmp_path / "nowhere")
        assert await lab.setting_out.taken((spec,)) == (spec,)

    lab(test)


def test_one_that_can_only_run_elsewhere_takes_its_directory_along(lab, tree, tmp_path):
    async def test(lab):
        elsewhere = Where(nodes=("node-2",))
        specs = [lab.a_spec(tree, name, require=elsewhere) for name in ("one", "two")]
        one, two = await lab.setting_out.taken(tuple(specs))
        assert one.ship == two.ship
        assert one.ship.files == 2
        (again,) = await lab.setting_out.taken((one,))
        assert again == one

        empty = lab.a_spec(plant(tmp_path / "empty", {}), "three", require=elsewhere)
        assert await lab.setting_out.taken((empty,)) == (empty,)
        root = lab.a_spec("/", "four", require=elsewhere)
        assert await lab.setting_out.taken((root,)) == (root,)
        assert root.id in lab.setting_out.bare, "nothing of it travels"

    lab(test)


def test_an_empty_directory_is_empty_as_it_was_submitted_and_its_start_waits_for_no_look(
    lab, tmp_path
):
    async def test(lab):
        empty = plant(tmp_path / "empty", {})
        spec = lab.a_spec(empty, require=Where(nodes=("node-2",)))
        assert await lab.setting_out.taken((spec,)) == (spec,)
        assert await lab.transplanting.rooted((spec,)) == frozenset()
        lab.home.submit(spec)
        plant(empty, {"later": "1"})
        lab.setting_out.to_peer(lab.host.me, lab.start(spec))

        assert [word.spec.ship for _, word in lab.sent] == [None]
        assert lab.tasks == []

    lab(test)


def test_a_job_said_again_is_as_it_was_then(lab, tree):
    async def test(lab):
        asked = lab.a_spec(tree, require=Where(nodes=("node-2",)))
        (taken,) = await lab.setting_out.taken((asked,))
        lab.home.submit(taken)
        plant(tree, {"a": "changed"})

        assert await lab.setting_out.taken((asked,)) == (taken,)
        other = msgspec.structs.replace(asked, name="another")
        assert await lab.setting_out.taken((other,)) == (other,)

    lab(test)


def test_files_that_are_not_here_are_not_promised(lab, tree):
    async def test(lab):
        gone = Shipment(manifest="0" * 64, size_bytes=1, files=1)
        with pytest.raises(NotFound):
            await lab.setting_out.taken((lab.a_spec(tree, ship=gone),))

    lab(test)


def test_a_name_that_cannot_be_one_harms_nobody(lab, tree):
    async def test(lab):
        junk = Shipment(manifest="no name", size_bytes=1, files=1)
        spec = lab.a_spec(tree, ship=junk, python_env="neither")
        assert manifests_of(spec) == ()
        with pytest.raises(NotFound):
            await lab.setting_out.taken((spec,))
        with pytest.raises(NotFetched):
            await lab.fetching[1].have(ManifestId("no name"), spec, owner="job")
        lab.home.submit(spec)
        await lab.pinning.look()
        report = Report(job=spec.id, lease="lease", first=0, ends=(ended("junk"),))
        assert not lab.bringing.wants(report)

    lab(test)


def test_a_start_elsewhere_waits_until_its_directory_is_packed(lab, tree):
    async def test(lab):
        fill(lab.home)
        lab.home.submit(spec := lab.a_spec(tree))
        first, second = await lab.told(spec, "one", "one", "two")
        assert {first.lease, second.lease} == {"one", "two"}
        assert first.spec.ship == second.spec.ship
        assert first.spec.ship.files == 2
        (*_, third) = await lab.told(spec, "three")
        assert third.spec.ship == first.spec.ship

    lab(test)


def test_a_directory_is_looked_at_again_for_a_job_that_came_later(lab, tree):
    async def test(lab):
        fill(lab.home)
        lab.home.submit(early := lab.a_spec(tree, "early"))
        lab.home.now_ms += 5
        (first,) = await lab.told(early)
        plant(tree, {"a": "changed"})
        lab.home.now_ms += 5
        lab.home.submit(late := lab.a_spec(tree, "late"))
        lab.home.now_ms += 5
        (_, second) = await lab.told(late)

        assert first.spec.ship != second.spec.ship

    lab(test)


def test_an_empty_directory_and_what_has_left_before_are_told_as_they_are(lab, tmp_path):
    async def test(lab):
        fill(lab.home)
        lab.home.submit(spec := lab.a_spec(plant(tmp_path / "empty", {})))
        (start,) = await lab.told(spec)
        assert start.spec.ship is None
        stranger = a_job("stranger", work=Work(argv=("true",), cwd="/"))
        message = msgspec.structs.replace(start, job=stranger.id, spec=stranger)
        lab.setting_out.to_peer(lab.host.me, message)
        assert lab.sent[-1] == (lab.host.me, message)
        lab.setting_out.forget(spec.id)
        assert not lab.setting_out.bare

    lab(test)


def test_a_directory_that_may_not_travel_binds_its_job(lab, tmp_path):
    async def test(lab):
        fill(lab.home)
        os.mkfifo(plant(tmp_path / "piped", {}) / "pipe")
        lab.home.submit(spec := lab.a_spec(tmp_path / "piped"))
        assert await lab.told(spec) == []
        (why,) = [detail for what, detail in lab.story(spec) if what == "stays here"]
        assert "a pipe" in why


def test_from_the_root_of_all_files_nothing_travels_and_the_job_leaves(lab):
    async def test(lab):
        fill(lab.home)
        lab.home.submit(spec := lab.a_spec("/"))
        (start,) = await lab.told(spec)
        assert start.spec.ship is None

    lab(test)


# Copies


def test_small_inputs_are_on_a_second_machine_before_they_are_acknowledged(lab, tree):
    async def test(lab):
        packed = await lab.setting_out.pack(Pack(directory=str(tree)))
        spec = lab.a_spec(tree, ship=packed.ship)
        lab.home.submit(spec)
        lab.room.settle()
        job = lab.home.job(spec)
        assert lab.pinning.bytes_left(job) == packed.ship.size_bytes
        assert await lab.pinning.copied([job]) == 0
        assert lab.pinning.bytes_left(job) == 0
        assert lab.host.me in lab.reached

        there = Pinning(
            lab.host.node,
            lab.ships[1],
            SettingOut(lab.host.node, lab.files[1], lab.stores[1], clock_ms=lab.now_ms),
            reach=lab.reached.append,
        )
        await there.look()
        assert lab.stores[1].clear().bytes_left >= packed.ship.size_bytes

    lab(test)


def test_large_inputs_are_copied_after_those_who_need_them_to_begin(lab, tree, monkeypatch):
    monkeypatch.setattr("distributed_grid.agent.pinning.SMALL_BYTES", 1)

    async def test(lab):
        packed = await lab.setting_out.pack(Pack(directory=str(tree)))
        lab.home.submit(spec := lab.a_spec(tree, ship=packed.ship))
        lab.room.settle()
        job, size = lab.home.job(spec), packed.ship.size_bytes
        assert await lab.pinning.copied([job]) == size
        lab.link.down()
        first = await lab.ships[0].ship(lab.host.me, packed.ship.manifest, durable=False)
        begins = lab.ships[1].fetch(lab.home.me, packed.ship.manifest, durable=False)
        beginning = asyncio.ensure_future(begins)
        await lab.pinning.look()
        assert not first.is_durable
        lab.link.up()
        await beginning
        await first.over.wait()
        assert lab.pinning.bytes_left(job) == size
        await lab.pinning.look()
        await lab.ships[0].shipment(packed.ship.manifest, lab.host.me).over.wait()
        assert lab.pinning.bytes_left(job) == 0

    lab(test)


def test_while_no_link_is_there_it_says_how_much_is_left(lab, tree, monkeypatch):
    monkeypatch.setattr("distributed_grid.agent.pinning.SMALL_S", 0.05)

    async def test(lab):
        lab.link.down()
        packed = await lab.setting_out.pack(Pack(directory=str(tree)))
        lab.home.submit(spec := lab.a_spec(tree, ship=packed.ship))
        lab.room.settle()

        assert await lab.pinning.copied([lab.home.job(spec)]) == packed.ship.size_bytes

    lab(test)


def test_pins_follow_what_is_known_of_jobs(lab, tree):
    async def test(lab):
        packed = await lab.setting_out.pack(Pack(directory=str(tree)))
        (spec,) = await lab.setting_out.taken((lab.a_spec(tree, ship=packed.ship),))
        lab.home.submit(spec)
        lab.stores[0].unpin(ManifestId(packed.ship.manifest), "packed:0")
        assert lab.stores[0].status().bytes_pinned
        await lab.pinning.look()
        assert lab.stores[0].status().bytes_pinned
        lab.home.cancel(spec)
        lab.room.settle()
        for attempt in lab.home.job(spec).live_attempts:
            lab.home.keeper.end_one(attempt.id, 143)
        lab.room.settle()
        assert lab.home.state(spec) in ("cancelled", "failed")
        await lab.pinning.look()
        while lab.ships[0].progress():
            await asyncio.sleep(0.01)
        assert not lab.stores[0].status().bytes_pinned

    lab(test)


# Fetching


def test_files_come_from_the_home_and_are_there_the_second_time(lab, tree):
    async def test(lab):
        packed = lab.files[0].pack(str(tree), owner="test", amount=ASKED)
        spec = lab.a_spec(tree)
        for _ in range(2):
            await lab.fetching[1].have(packed.id, spec, owner="job")
        assert sum(isinstance(said, Fetch) for _, said in lab.link.said) == 1
        assert lab.stores[1].status().hits == 1
        lab.fetching[1].let_go(packed.id, owner="job")

    lab(test)


def test_who_is_dead_is_not_waited_for(lab, tree, monkeypatch):
    monkeypatch.setattr("distributed_grid.agent.fetching.LOOK_S", 0.01)

    async def test(lab):
        lab.link.down()
        lab.room.dead.add((lab.host.me, lab.home.me))
        lab.room.look()
        packed = lab.files[0].pack(str(tree), owner="test", amount=ASKED)
        with pytest.raises(NotFetched, match="does not answer"):
            await lab.fetching[1].have_from(lab.home.me, packed.id, owner="job")
        with pytest.raises(NotFetched, match="nobody who is there"):
            await lab.fetching[1].have(packed.id, lab.a_spec(tree), owner="job")

    lab(test)


# Coming home


def ended(outputs="", **facts):
    what = {"how": "exited", "code": 0, "started_ms": 1, "ended_ms": 2} | facts
    return Ended(number=0, attempt="x", usage=Usage(), outputs=outputs, **what)


@pytest.fixture
def left_behind(tmp_path):
    return plant(tmp_path / "left", {"out.txt": "theirs\n", "r/s": "2"})


def report_of(lab, spec, left_behind, **facts):
    found = lab.files[1].collect(str(left_behind), owner="x", amount=ASKED, globs=("**",))
    return Report(job=spec.id, lease="lease", first=0, ends=(ended(found.id, **facts),))


def test_outputs_are_in_place_before_the_end_is_heard(lab, tree, left_behind):
    async def test(lab):
        lab.home.now_ms = time.time_ns() // 1_000_000 + 1_000
        lab.home.submit(spec := lab.a_spec(tree, outputs=("**",)))
        report = report_of(lab, spec, left_behind)
        assert lab.bringing.wants(report)
        heard = await asyncio.gather(*(lab.bringing.brought(lab.host.me, report) for _ in "12"))

        assert heard == [True, False]
        assert (tree / "out.txt").read_text() == "theirs\n"
        assert picture(tree)[b"r/s"][2] == b"2"
        assert ("outputs", "2 files written") in lab.story(spec)
        assert not lab.bringing.wants(report)
        assert await lab.bringing.brought(lab.host.me, report)

    lab(test)


def test_what_changed_here_is_left_and_told(lab, tree, left_behind):
    async def test(lab):
        lab.home.now_ms = time.time_ns() // 1_000_000 - 1_000
        lab.home.submit(spec := lab.a_spec(tree, outputs=("**",)))
        plant(tree, {"out.txt": "mine\n", "r/s": "2"})
        assert await lab.bringing.brought(lab.host.me, report_of(lab, spec, left_behind))

        assert (tree / "out.txt").read_text() == "mine\n"
        (told,) = [detail for what, detail in lab.story(spec) if what == "outputs"]
        assert told == (
            "1 as before, kept beside what has changed here meanwhile or did not travel: "
            f"out.txt (out.txt.grid-{spec.id[:12]})"
        )

    lab(test)


def test_of_a_job_that_is_tried_again_nothing_comes_home(lab, tree, left_behind):
    async def test(lab):
        lab.home.submit(spec := lab.a_spec(tree, outputs=("**",), retries=1))
        assert await lab.bringing.brought(lab.host.me, report_of(lab, spec, left_behind, code=1))
        assert not (tree / "out.txt").exists()

    lab(test)


def test_outputs_that_cannot_be_written_are_told_and_the_end_counts(lab, tree, left_behind):
    async def test(lab):
        lab.home.submit(spec := lab.a_spec(tree / "gone", outputs=("**",)))
        assert await lab.bringing.brought(lab.host.me, report_of(lab, spec, left_behind))
        assert "not brought back" in lab.story(spec)[-1][1]

    lab(test)


def test_a_home_without_the_directory_keeps_them(lab, tree, left_behind):
    async def test(lab):
        spec = lab.a_spec(tree, outputs=("**",))
        work = msgspec.structs.replace(spec.work, is_abroad=True)
        lab.home.submit(spec := msgspec.structs.replace(spec, work=work))
        assert await lab.bringing.brought(lab.host.me, report_of(lab, spec, left_behind))
        assert f"kept on {lab.home.node.coordinator.node}," in lab.story(spec)[-1][1]
        assert "grid outputs" in lab.story(spec)[-1][1]
        assert lab.stores[0].status().bytes_pinned

    lab(test)


def test_a_report_whose_outputs_cannot_be_had_is_not_heard_yet(lab, tree):
    async def test(lab):
        lab.home.submit(spec := lab.a_spec(tree, outputs=("**",)))
        gone = Report(job=spec.id, lease="lease", first=0, ends=(ended("0" * 64),))
        assert not await lab.bringing.brought(lab.host.me, gone)
        stranger = msgspec.structs.replace(gone, job=a_job("other").id)
        assert await lab.bringing.brought(lab.host.me, stranger)
        assert not lab.bringing.wants(msgspec.structs.replace(gone, ends=(ended(),)))

    lab(test)


# Who may send what


class Standing(msgspec.Struct):
    roles: tuple[str, ...]


class FakeMesh:
    """As much of the mesh as the lane of files sees."""

    def __init__(self, roles):
        self.mesh = self.roster = self
        self.standings = {"peer": Standing(roles)}
        self.sent = []
        self.broken = []
        self.broke = self.broken.append
        self.blamed = []

    def blame(self, *fault):
        self.blamed.append(fault)

    async def send_bulk(self, peer, body):
        self.sent.append(wire.decode(body))
        return True


@pytest.mark.parametrize(
    ("roles", "is_asked", "is_taken"),
    [
        (("guest",), False, False),
        (("worker",), False, False),
        (("member",), False, True),
        (("admin",), False, True),
        (("guest",), True, True),
        (("worker",), True, True),
    ],
)
def test_a_guest_sends_only_what_was_asked_for(tmp_path, roles, is_asked, is_taken):
    async def go():
        mesh = FakeMesh(roles)
        bulk = Bulk(a_store(tmp_path / "cache"), mesh)
        mesh.on_link("peer", True)
        name = ManifestId("0" * 64)
        asking = asyncio.ensure_future(bulk.shipping.fetch("peer", name)) if is_asked else None
        await asyncio.sleep(0.01)
        offer = Offer(manifest=name, manifest_bytes=10, content_bytes=10)
        assert mesh.on_bulk("peer", wire.encode(offer))
        assert not mesh.on_bulk("peer", b"junk")
        while not [one for one in mesh.sent if not isinstance(one, Fetch)]:
            await asyncio.sleep(0.01)
        answer = mesh.sent[-1]
        refused = isinstance(answer, Refusal) and answer.reason == "not-permitted"
        assert refused == (not is_taken)
        mesh.on_link("peer", False)
        if asking is not None:
            asking.cancel()
        assert any(line.startswith("grid_files_sent_bytes_total 0") for line in bulk.metrics())
        await bulk.close()
        assert not mesh.broken
        assert not mesh.blamed

    asyncio.run(go())
