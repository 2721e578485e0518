"""Events as log lines: one line each, from a level on; nothing a peer says forges another."""

import io
import json

import pytest

from distributed_grid.edges.eventlog import level_of, writer
from distributed_grid.kernel.mesh.event_names import MESH_EVENTS
from distributed_grid.kernel.ready import Happened
from distributed_grid.model.ids import JobId

AT_MS = 1_700_000_000_123
DEAD = Happened(
    name="node.dead", at_ms=AT_MS, fields={"node": "ab", "name": "attic", "why": "silent for 2.6s"}
)


def written(*events: Happened, level="info", form="text") -> str:
    stream = io.StringIO()
    write = writer(stream, level=level, form=form)
    for event in events:
        write(event)
    return stream.getvalue()


def test_text_is_for_people_and_grep():
    assert written(DEAD) == (
        "2023-11-14T22:13:20.123Z [warning] node.dead node=ab name=attic why='silent for 2.6s'\n"
    )


def test_json_is_one_object_a_line_with_the_name_as_event():
    job = Happened(name="job.ended", at_ms=AT_MS, job=JobId("cd" * 32), fields={"code": 3})
    first, second = map(json.loads, written(DEAD, job, form="json").splitlines())

    assert first == {
        "event": "node.dead",
        "level": "warning",
        "name": "attic",
        "node": "ab",
        "timestamp": "2023-11-14T22:13:20.123Z",
        "why": "silent for 2.6s",
    }
    assert (second["event"], second["job"], second["code"]) == ("job.ended", "cd" * 32, 3)


@pytest.mark.parametrize("level", ["debug", "info", "warning", "error"])
def test_a_level_shows_itself_and_what_is_above(level):
    order = ["debug", "info", "warning", "error"]
    events = [Happened(name=event.name, at_ms=AT_MS) for event in MESH_EVENTS]
    shown = [line.split("] ")[1].split()[0] for line in written(*events, level=level).splitlines()]

    assert shown == [e.name for e in MESH_EVENTS if order.index(e.level) >= order.index(level)]


def test_jobs_are_news_and_a_job_that_lost_its_place_is_a_warning():
    assert (level_of("job.started"), level_of("job.preempted")) == ("info", "warning")


@pytest.mark.parametrize("form", ["text", "json"])
def test_whatever_a_peer_calls_itself_a_line_stays_one_line_and_its_event_its_own(form):
    nasty = {"name": "x\n2023 [error] mesh.clone\x1b[31m\u2028", "event": "mesh.clone", "odd": {1}}
    told = written(Happened(name="node.joined", at_ms=AT_MS, fields=nasty), form=form)

    assert len(told.splitlines()) == 1
    assert "\x1b" not in told
    assert "node.joined" in told
    if form == "json":
        assert json.loads(told)["event"] == "node.joined"


@pytest.mark.parametrize("failure", [OSError(28, "No space left on device"), ValueError("closed")])
def test_a_log_that_cannot_be_written_harms_nobody(failure):
    class Full(io.StringIO):
        def write(self, _text: str) -> int:
            raise failure

    writer(Full(), level="info", form="text")(DEAD)
