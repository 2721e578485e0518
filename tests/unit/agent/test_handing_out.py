"""What jobs left behind comes to whoever asks for it, from whoever has it."""
# ruff: noqa: F811  (fixtures come by import)

from types import SimpleNamespace

import msgspec
import pytest

from distributed_grid.agent.across_desk import AcrossDesk, Desk
from distributed_grid.agent.handing_out import HandingOut
from distributed_grid.agent.shipping_in import NotFetched
from distributed_grid.errors import NotFound
from distributed_grid.kernel.jobs import Job
from distributed_grid.model.across import Epoch, Origin
from distributed_grid.model.artifact import ASKED
from distributed_grid.model.job import Work
from distributed_grid.wire.across_api import BringOutputs, Outputs
from tests.node_world import a_job
from tests.unit.agent.test_luggage import lab, left_behind  # noqa: F401  (fixtures)
from tests.unit.artifacts.lab import plant


def handing_out(lab, one):
    return HandingOut(lab.files[one], lab.fetching[one], me=lambda: lab.room.nodes[one].me)


def kept(lab, *folders, node, globs=("**",)):
    found = [
        lab.files[1].collect(str(one), owner="x", amount=ASKED, globs=("**",)) for one in folders
    ]
    ids = tuple(one.id for one in found)
    return Outputs(job="j", name="job", node=node, manifests=ids, globs=globs)


def test_outputs_are_fetched_from_who_has_them_and_never_replace_what_is_there(
    lab, left_behind, tmp_path
):
    target = plant(tmp_path / "here", {"out.txt": "mine\n"})

    async def test(lab):
        found, hands = kept(lab, left_behind, node=lab.host.me), handing_out(lab, 0)
        first = await hands.bring(found, BringOutputs(directory=str(target)))
        assert (first.written, first.files) == (("r/s",), 1)
        assert first.conflicts == (("out.txt", "another is here"),)
        assert (target / "out.txt").read_text() == "mine\n"
        again = await hands.bring(found, BringOutputs(directory=str(target), overwrite=True))
        assert (again.written, again.unchanged) == (("out.txt",), ("r/s",))
        assert (target / "out.txt").read_text() == "theirs\n"

    lab(test)


@pytest.mark.parametrize("overwrite", [False, True])
def test_of_an_array_what_came_later_counts(lab, tmp_path, overwrite):
    folders = [plant(tmp_path / word, {"same": word, word: "x"}) for word in ("old", "new")]
    target = plant(tmp_path / "here", {})

    async def test(lab):
        found = kept(lab, *folders, node="")
        wanted = BringOutputs(directory=str(target), overwrite=overwrite)
        brought = await handing_out(lab, 1).bring(found, wanted)
        assert sorted(brought.written) == ["new", "old", "same"]
        assert not brought.conflicts
        assert (target / "same").read_text() == "new"

    lab(test)


def test_outputs_that_are_nowhere_are_told(lab, tmp_path):
    async def test(lab):
        wanted = BringOutputs(directory=str(plant(tmp_path / "here", {})))
        gone = Outputs(job="j", name="job", node=lab.host.me, manifests=("0" * 64,), globs=("**",))
        for hands, node in ((0, lab.host.me), (1, lab.host.me), (0, "")):
            found = msgspec.structs.replace(gone, node=node)
            with pytest.raises(NotFetched) as caught:
                await handing_out(lab, hands).bring(found, wanted)
            assert "made room" in str(caught.value)
        junk = msgspec.structs.replace(gone, manifests=("junk",))
        with pytest.raises(NotFound):
            await handing_out(lab, 0).bring(junk, wanted)

    lab(test)


def test_if_the_home_has_them_no_more_who_ran_it_is_asked(lab, left_behind, tmp_path):
    target = plant(tmp_path / "here", {})

    async def test(lab):
        found = kept(lab, left_behind, node=lab.home.me)
        found = msgspec.structs.replace(found, nodes=(lab.host.me,))
        brought = await handing_out(lab, 0).bring(found, BringOutputs(directory=str(target)))
        assert sorted(brought.written) == ["out.txt", "r/s"]

    lab(test)


async def test_who_only_kept_what_was_too_much_says_so_of_a_job_it_knows_or_not():
    spec = a_job("one", work=Work(argv=("true",), cwd="/x"))
    desk, kept_for = the_desk(None), []

    async def kept_files(job):
        kept_for.append(job)
        return ("1" * 64,)

    async def nobody(word):
        raise NotFound("job", word)

    desk.kept_files, desk._desk = kept_files, desk._desk._replace(find=nobody)
    found = await desk.outputs(f"id:{spec.id}")
    assert (found.kept, found.manifests, found.globs) == (("1" * 64,), (), ("**",))
    guest = Origin(job=spec.id, home="home", epoch=Epoch(), attempt="x")
    lease = a_job("lease", origin=guest, work=spec.work)
    desk = the_desk(Job(spec=lease, submitted_ms=1, outputs=["0" * 64]))
    desk.kept_files = kept_files
    found = await desk.outputs("lease")

    assert (found.job, found.kept, found.manifests) == (spec.id, ("1" * 64,), ())
    assert kept_for == [spec.id, spec.id]


async def test_who_knows_nothing_of_it_and_kept_nothing_says_that():
    desk = the_desk(None)

    async def nobody(word):
        raise NotFound("job", word)

    desk._desk = desk._desk._replace(find=nobody)
    with pytest.raises(NotFound, match="ghost"):
        await desk.outputs("ghost")


def the_desk(job):
    async def find(_):
        return job

    mesh = SimpleNamespace(is_member=True, mesh=SimpleNamespace(me="me"))
    return AcrossDesk(None, mesh, Desk(find, *[None] * (len(Desk._fields) - 1)), None)


@pytest.mark.parametrize(
    ("facts", "says"),
    [
        ({"outputs": ()}, "--output GLOB"),
        ({"outputs": ("*.csv",)}, "It is waiting"),
        ({"outputs": ("*.csv",), "state": "succeeded"}, r"Nothing matched \*.csv"),
    ],
)
async def test_who_has_none_says_why(facts, says):
    spec = a_job("one", work=Work(argv=("true",), cwd="/x"), outputs=facts.pop("outputs"))
    with pytest.raises(NotFound, match=says):
        await the_desk(Job(spec=spec, submitted_ms=1, **facts)).outputs("one")


async def test_the_home_says_which_they_are_and_only_it():
    spec = a_job("one", outputs=("*.csv",))
    job = Job(spec=spec, submitted_ms=1, outputs=["0" * 64])
    desk = the_desk(job)

    assert await desk.outputs("one") == Outputs(
        job=spec.id, name="one", node="me", manifests=("0" * 64,), globs=("*.csv",)
    )
    guest = Origin(job=spec.id, home="home", epoch=Epoch(), attempt="x")
    with pytest.raises(NotFound):  # This agent has no place for files.
        await desk.bring_outputs("one", BringOutputs(directory="/x"))
    job.spec = msgspec.structs.replace(spec, origin=guest)
    with pytest.raises(NotFound):
        await desk.outputs("one")
