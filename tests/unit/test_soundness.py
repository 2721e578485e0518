"""A specification of another node is held to what a submission is held to, wherever it stands."""

import msgspec
import pytest

from distributed_grid.model.across import Epoch, Origin
from distributed_grid.model.ids import NodeId, job_id_of
from distributed_grid.model.job import Array, JobSpec, Preempt, Where, Work
from distributed_grid.model.soundness import check, flaws
from distributed_grid.wire import job_lane
from distributed_grid.wire.across import Line, Reserve, Start
from distributed_grid.wire.gangs import Hold
from distributed_grid.wire.mesh import JUNK
from tests.node_world import a_job

NODE = NodeId("a" * 64)
EPOCH = Epoch(1, NODE)


def with_work(**fields) -> JobSpec:
    return a_job("one", work=Work(**{"argv": ("true",), "cwd": "/", **fields}))


UNSOUND = {
    "no id": msgspec.structs.replace(a_job("one"), id="../one"),
    "a guest already": a_job("one", origin=Origin(home=NODE, job="b", epoch=EPOCH, attempt="c")),
    "no name": msgspec.structs.replace(a_job("one"), name=""),
    "a name of two lines": msgspec.structs.replace(a_job("one"), name="a\nb"),
    "a user of two lines": a_job("one", user="ada@a\nb"),
    "a long user": a_job("one", user="a" * 254 + "@desk"),
    "no command": with_work(argv=()),
    "nowhere": with_work(cwd="srv"),
    "a zero byte": with_work(argv=("a\0b",)),
    "an environment that is none": with_work(env={"a=b": "c"}),
    "a value with a zero byte": with_work(env={"a": "b\0"}),
    "a log somewhere": with_work(log="out"),
    "an image of two lines": with_work(image="a\nb"),
    "a command with a zero byte": a_job("one", preempt=Preempt(command=("a\0b",))),
    "no nodes' name": a_job("one", require=Where(nodes=("",))),
    "too many names": a_job("one", avoid=Where(nodes=("n",) * 9_999, jobs=("j",) * 2)),
    "outputs of others": a_job("one", outputs=("../*",)),
    "an array of nothing": a_job("one", array=Array(start=3, stop=3)),
    "an array that falls": a_job("one", array=Array(start=5, stop=3)),
    "an array without end": a_job("one", array=Array(start=0, stop=10**9)),
    "a gang of arrays": a_job("one", gang=2, array=Array(start=0, stop=3)),
}


def said(spec: JobSpec) -> dict[str, object]:
    """A specification in every message that has one."""
    job, number = spec.id, 1
    return {
        "reserve": Reserve(job=job, epoch=EPOCH, number=number, spec=spec),
        "start": Start(job=job, epoch=EPOCH, number=number, lease="l", spec=spec, attempt=1),
        "hold": Hold(job=job, epoch=EPOCH, number=number, spec=spec, ranks=1, since_ms=1),
        "line": Line(waiting=((NODE, job, EPOCH, spec),)),
    }


@pytest.mark.parametrize("spec", UNSOUND.values(), ids=UNSOUND.keys())
def test_no_message_with_an_unsound_specification_is_read(spec):
    with pytest.raises(JUNK):
        check(spec)
    for word in said(spec).values():
        with pytest.raises(JUNK):
            job_lane.decode(job_lane.encode(word))


@pytest.mark.parametrize("kind", ["reserve", "start", "hold", "line"])
def test_a_sound_one_is_read_and_only_about_its_own_job(kind):
    word = said(a_job("one", user="ada@desk", require=Where(nodes=("desk",))))[kind]
    assert job_lane.decode(job_lane.encode(word)) == word

    other = job_id_of("two")
    if isinstance(word, Line):
        of_another = Line(waiting=((NODE, other, EPOCH, word.waiting[0][3]),))
    else:
        of_another = msgspec.structs.replace(word, job=other)
    with pytest.raises(JUNK):
        job_lane.decode(job_lane.encode(of_another))


def test_only_a_start_needs_something_to_run():
    words = said(a_job("one", work=None))

    for kind in ("reserve", "hold", "line"):
        assert job_lane.decode(job_lane.encode(words[kind])) == words[kind]
    with pytest.raises(JUNK):
        job_lane.decode(job_lane.encode(words["start"]))


def test_people_are_told_every_flaw_at_once():
    spec = a_job("one", work=Work(argv=(), cwd=""), array=Array(start=3, stop=3), outputs=("/a",))

    assert [flaw.field for flaw in flaws(spec)] == ["work.argv", "work.cwd", "outputs", "array"]
