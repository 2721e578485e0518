"""Output of jobs that other nodes run, through broken links and from one attempt to the next."""

import asyncio
from collections.abc import AsyncIterator

import msgspec
import pytest

from distributed_grid.agent import asking, following
from distributed_grid.errors import MeshUnreachable, NotFound
from distributed_grid.model.ids import JobId
from distributed_grid.wire.across_api import OutputPlace
from tests.agent_stand_in import CannedAgent, a_view
from tests.questions_lab import Town, settled


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    """Waits that people have are short here."""
    monkeypatch.setattr(following, "AGAIN_S", 0.01)
    monkeypatch.setattr(asking, "LINK_S", 1.0)
    monkeypatch.setattr(following, "LOOK_S", 0.02)


class Writes(CannedAgent):
    """Whose jobs write when a test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.changed = asyncio.Event()
        self.reads = 0

    async def logs(self, word, *, stream, index, follow, offset, attempt=0) -> AsyncIterator[bytes]:
        self.asked.append(("logs", word, stream, index, follow, offset, attempt))
        self.reads += 1
        while True:
            view = await self.job(word)
            written = b"".join(self.output.get((view.id, stream, index), []))
            if offset < len(written):
                yield written[offset:]
                offset = len(written)
            elif not follow or view.state != "running":
                return
            else:
                self.changed.clear()
                await self.changed.wait()

    def says(self, job: str, *parts: bytes) -> None:
        self.output.setdefault((JobId(job), "stdout", -1), []).extend(parts)
        self.changed.set()

    def end(self, job: str) -> None:
        self.views[JobId(job)] = msgspec.structs.replace(self.views[JobId(job)], state="succeeded")
        self.changed.set()


@pytest.fixture
def writing_town(monkeypatch):
    monkeypatch.setattr("tests.questions_lab.CannedAgent", Writes)
    return Town("desk", "attic", "cellar")


def output(member, word, *, follow=False, offset=0, index=-1):
    return member.grid.logs(word, stream="stdout", index=index, follow=follow, offset=offset)


async def text_of(stream) -> bytes:
    return b"".join([part async for part in stream])


def runs_on(home, executor, view, *, attempt=1, is_over=False):
    """A job of one node runs as a guest of another."""
    guest = f"{attempt}{view.id[:31]}"
    home.agent.across.places[view.name] = OutputPlace(
        job=view.id, node=executor.me, word=f"id:{guest}", attempt=attempt, is_over=is_over
    )
    state = "running" if view.state == "running" else "succeeded"
    executor.agent.views[guest] = a_view(
        view.name, id=guest, guest_of=view.id, home=home.me, state=state
    )
    return guest


async def test_output_comes_from_the_node_that_ran_the_attempt(writing_town):
    town = writing_town
    view = town.attic.has(a_view("train"))
    guest = runs_on(town.attic, town.cellar, view, is_over=True)
    town.cellar.agent.says(guest, b"one ", b"two")

    for member in (town.desk, town.attic, town.cellar):
        assert await text_of(output(member, view.id)) == b"one two"
    assert await text_of(output(town.desk, "train", offset=4)) == b"two"


async def test_without_a_mesh_output_is_read_here_and_nothing_else_is_asked():
    town = Town("desk")
    town.desk.has(a_view("build"))
    town.desk.agent.write("build", b"words")

    assert await text_of(output(town.desk, "build")) == b"words"
    assert town.desk.agent.across.asked == []


async def test_following_goes_on_after_a_broken_link_without_a_byte_lost_or_twice(writing_town):
    town = writing_town
    view = town.attic.has(a_view("train", state="running"))
    guest = runs_on(town.attic, town.cellar, view)
    stream = output(town.desk, "train", follow=True)
    heard = asyncio.create_task(text_of(stream))
    for number in range(5):
        town.cellar.agent.says(guest, f"line {number}\n".encode())
        await settled()
        town.part("desk", "cellar")
        await asyncio.sleep(0.03)
    town.cellar.agent.end(guest)
    town.attic.agent.end(view.id)
    runs_on(town.attic, town.cellar, msgspec.structs.replace(view, state="ended"), is_over=True)

    assert await heard == b"".join(f"line {number}\n".encode() for number in range(5))
    assert town.cellar.agent.reads > 1


async def test_an_end_that_its_home_hears_a_moment_later_is_not_waited_for_long(
    writing_town, monkeypatch
):
    monkeypatch.setattr(following, "AGAIN_S", 600.0)
    town = writing_town
    view = town.attic.has(a_view("train", state="running"))
    guest = runs_on(town.attic, town.cellar, view)
    town.cellar.agent.says(guest, b"all of it")
    town.cellar.agent.end(guest)
    heard = asyncio.create_task(text_of(output(town.desk, "train", follow=True)))
    async with asyncio.timeout(30):
        while town.cellar.agent.reads < 3:  # Its files are on their way home.
            await asyncio.sleep(0)
        town.attic.agent.end(view.id)
        runs_on(town.attic, town.cellar, msgspec.structs.replace(view, state="ended"), is_over=True)
        assert await heard == b"all of it"


async def test_following_goes_over_to_the_next_attempt_from_its_beginning(writing_town):
    town = writing_town
    view = town.attic.has(a_view("train", state="running"))
    first = runs_on(town.attic, town.cellar, view)
    heard = asyncio.create_task(text_of(output(town.desk, "train", follow=True)))
    town.cellar.agent.says(first, b"first try\n")
    await settled()
    second = runs_on(town.attic, town.desk, view, attempt=2)  # It was moved while it was quiet.
    town.desk.agent.says(second, b"second try\n")
    await asyncio.sleep(0.1)
    town.desk.agent.end(second)
    ended = msgspec.structs.replace(view, state="succeeded")
    town.attic.agent.views[view.id] = ended
    runs_on(town.attic, town.desk, ended, attempt=2, is_over=True)

    assert await heard == b"first try\nsecond try\n"


async def test_an_own_job_that_begins_here_and_goes_on_elsewhere_is_followed_there(writing_town):
    town = writing_town
    view = town.desk.has(a_view("train", state="running"))
    heard = asyncio.create_task(text_of(output(town.desk, view.id, follow=True)))
    town.desk.agent.says(view.id, b"here\n")
    await asyncio.sleep(0.05)
    guest = runs_on(town.desk, town.attic, view, attempt=2)
    town.attic.agent.says(guest, b"there\n")
    await asyncio.sleep(0.1)
    town.attic.agent.end(guest)
    town.desk.agent.end(view.id)
    ended = msgspec.structs.replace(view, state="succeeded")
    runs_on(town.desk, town.attic, ended, attempt=2, is_over=True)

    assert await heard == b"here\nthere\n"


async def test_a_home_that_is_linked_with_nobody_yet_follows_its_job_all_the_same(writing_town):
    town = writing_town
    view = town.desk.has(a_view("train", state="running"))
    guest = runs_on(town.desk, town.attic, view)
    town.desk.dead |= set(town.desk.live)  # As after a restart of its agent.
    heard = asyncio.create_task(text_of(output(town.desk, view.id, follow=True, offset=4)))
    town.attic.agent.says(guest, b"one two")
    await asyncio.sleep(0.05)
    town.desk.dead.clear()
    await asyncio.sleep(0.05)
    town.attic.agent.end(guest)
    town.desk.agent.end(view.id)
    runs_on(town.desk, town.attic, msgspec.structs.replace(view, state="ended"), is_over=True)

    assert await heard == b"two"


def keeps(home, view, text: bytes) -> None:
    """The home has brought the end of what its job wrote elsewhere."""
    place = home.agent.across.places[view.name]
    home.agent.across.places[view.name] = msgspec.structs.replace(place, copies=(home.me,))
    home.agent.says(view.id, text)


@pytest.mark.parametrize("follow", [False, True])
async def test_if_the_executor_is_gone_its_homes_copy_of_the_output_serves(writing_town, follow):
    town = writing_town
    view = town.attic.has(a_view("train"))
    guest = runs_on(town.attic, town.cellar, view, is_over=True)
    town.cellar.agent.says(guest, b"all, the end of it")
    keeps(town.attic, view, b"the end of it")

    assert await text_of(output(town.desk, "train", follow=follow)) == b"all, the end of it"
    town.kill("cellar")
    for member in (town.desk, town.attic):
        assert await text_of(output(member, "train", follow=follow)) == b"the end of it"


async def test_an_executor_that_is_silent_before_it_counts_as_dead_is_given_up_for_the_copy(
    writing_town,
):
    town = writing_town
    view = town.attic.has(a_view("train"))
    runs_on(town.attic, town.cellar, view, is_over=True)
    keeps(town.attic, view, b"the end of it")
    town.cellar.agent.views.clear()
    town.lanes.lose(town.cellar.me, town.desk.me)
    heard = asyncio.create_task(text_of(output(town.desk, "train")))
    await settled()
    town.kill("cellar")

    assert await heard == b"the end of it"


async def test_what_the_executor_has_forgotten_is_read_from_the_copy_or_not_at_all(writing_town):
    town = writing_town
    view = town.attic.has(a_view("train"))
    guest = runs_on(town.attic, town.cellar, view, is_over=True)
    del town.cellar.agent.views[guest]

    with pytest.raises(NotFound):
        await text_of(output(town.desk, "train"))
    keeps(town.attic, view, b"the end of it")
    assert await text_of(output(town.desk, "train")) == b"the end of it"
    town.attic.agent.across.places["train"] = msgspec.structs.replace(
        town.attic.agent.across.places["train"], copies=(town.desk.me,)
    )
    with pytest.raises(NotFound):  # Who is said to keep it knows nothing of it.
        await text_of(output(town.desk, "train"))


@pytest.mark.parametrize("follow", [False, True])
async def test_output_that_only_a_dead_node_has_is_said_to_be_there(writing_town, follow):
    town = writing_town
    view = town.attic.has(a_view("train"))
    runs_on(town.attic, town.cellar, view, is_over=True)
    town.kill("cellar")

    with pytest.raises(MeshUnreachable, match=r"cellar.*\(what the job wrote is only there\)"):
        await text_of(output(town.desk, "train", follow=follow))


async def test_output_that_nobody_has_is_an_error_at_once_unless_more_may_come(
    writing_town, monkeypatch
):
    monkeypatch.setattr(following, "PATIENCE_S", 0.1)
    town = writing_town
    view = town.desk.has(a_view("train", state="running"))
    runs_on(town.desk, town.cellar, view)
    town.kill("cellar")

    with pytest.raises(MeshUnreachable, match="cellar"):
        await text_of(output(town.desk, "train"))
    with pytest.raises(MeshUnreachable, match="cellar"):
        await text_of(output(town.desk, "train", follow=True))


async def test_who_stops_following_ends_the_reading_there(writing_town):
    town = writing_town
    view = town.attic.has(a_view("train", state="running"))
    guest = runs_on(town.attic, town.cellar, view)
    town.cellar.agent.says(guest, b"x")
    stream = output(town.desk, "train", follow=True)
    assert await anext(stream) == b"x"
    await stream.aclose()
    await settled()

    assert town.cellar.questions.answers == 0
    assert len(town.desk.questions.asking) == 0


async def test_who_follows_before_it_runs_hears_it_from_where_it_begins(writing_town):
    town = writing_town
    view = town.attic.has(a_view("train", state="waiting"))
    town.attic.agent.across.places["train"] = OutputPlace(job=view.id)
    heard = asyncio.create_task(text_of(output(town.desk, "train", follow=True)))
    await asyncio.sleep(0.05)
    assert town.attic.agent.reads == town.cellar.agent.reads == 0
    running = msgspec.structs.replace(view, state="running")
    guest = runs_on(town.attic, town.cellar, running)
    town.cellar.agent.says(guest, b"once\n")
    await asyncio.sleep(0.3)
    town.cellar.agent.end(guest)
    town.attic.agent.views[view.id] = a_view("train")
    runs_on(town.attic, town.cellar, a_view("train"), is_over=True)

    assert await heard == b"once\n"


async def test_a_job_that_never_runs_has_no_output(writing_town):
    town = writing_town
    view = town.attic.has(a_view("train", state="waiting"))
    town.attic.agent.across.places["train"] = OutputPlace(job=view.id)
    heard = asyncio.create_task(text_of(output(town.desk, "train", follow=True)))
    await settled()
    town.part("desk", "attic")  # In the middle of asking.
    await settled()
    town.attic.agent.views[view.id] = a_view("train", state="cancelled")
    town.attic.agent.across.places["train"] = OutputPlace(job=view.id, is_over=True)

    assert await heard == b""


async def test_its_home_hears_later_than_we_that_an_attempt_ended(writing_town):
    town = writing_town
    view = town.attic.has(a_view("train", state="running"))
    guest = runs_on(town.attic, town.cellar, view)
    town.cellar.agent.says(guest, b"all of it")
    town.cellar.agent.end(guest)
    heard = asyncio.create_task(text_of(output(town.desk, "train", follow=True)))
    await asyncio.sleep(0.05)
    assert not heard.done()
    town.attic.agent.views[view.id] = a_view("train")
    runs_on(town.attic, town.cellar, a_view("train"), is_over=True)

    assert await heard == b"all of it"


async def test_the_last_words_of_an_attempt_are_heard_before_the_first_of_the_next(writing_town):
    town = writing_town
    view = town.attic.has(a_view("train", state="running"))
    first = runs_on(town.attic, town.cellar, view)
    heard = asyncio.create_task(text_of(output(town.desk, "train", follow=True)))
    town.cellar.agent.says(first, b"first words, ")
    await settled()
    town.lanes.lose(town.desk.me, town.cellar.me)
    town.cellar.agent.says(first, b"last words\n")
    second = runs_on(town.attic, town.attic, view, attempt=2)
    town.attic.agent.says(second, b"second try\n")
    town.lanes.mend(town.desk.me, town.cellar.me)
    await asyncio.sleep(0.1)
    town.attic.agent.end(second)
    town.attic.agent.views[view.id] = a_view("train")
    runs_on(town.attic, town.attic, a_view("train"), attempt=2, is_over=True)

    assert await heard == b"first words, last words\nsecond try\n"


def tried(member, view, *tries, is_over=True, **more):
    """An ended job of this member, and where each of its tries wrote."""
    places = [
        OutputPlace(job=view.id, node=where.me, word=word, attempt=number, **more)
        for number, (where, word) in enumerate(tries, start=1)
    ]
    whole = msgspec.structs.replace(places[-1], is_over=is_over, earlier=tuple(places[:-1]))
    member.agent.across.places[view.name] = whole


async def test_each_try_is_shown_once_wherever_it_ran_and_what_is_lost_is_left_out(writing_town):
    town = writing_town
    view = town.desk.has(a_view("train"))
    own = f"id:{view.id}"
    for executor, guest, text in (
        (town.attic, "a" * 32, b"two\n"), (town.cellar, "c" * 32, b"four\n"),
    ):  # fmt: skip
        executor.agent.views[guest] = a_view("train", id=guest, guest_of=view.id)
        executor.agent.says(guest, text)
    town.desk.agent.says(view.id, b"one\n", b"three\n")
    there, gone = (town.attic, f"id:{'a' * 32}"), (town.attic, f"id:{'b' * 32}")
    tried(town.desk, view, (town.desk, own), there, (town.desk, own), gone,
          (town.cellar, f"id:{'c' * 32}"))  # fmt: skip
    whole = b"one\nthree\ntwo\nfour\n"

    for member in (town.desk, town.cellar):
        assert await text_of(output(member, view.id, follow=True)) == whole
        for offset in (1, 9, 12, 15, len(whole)):
            assert await text_of(output(member, view.id, offset=offset)) == whole[offset:]
    tried(town.desk, view, there, (town.desk, own))
    assert await text_of(output(town.desk, view.id)) == b"two\none\nthree\n"


async def test_a_try_whose_node_is_gone_is_read_from_its_own_copy(writing_town):
    town = writing_town
    view = town.desk.has(a_view("train"))
    town.desk.agent.says(view.id, b"kept\n")
    gone = (town.attic, f"id:{'a' * 32}"), (town.attic, f"id:{'b' * 32}")
    tried(town.desk, view, *gone, copies=(town.desk.me,))
    town.kill("attic")
    town.desk.agent.asked.clear()

    assert await text_of(output(town.desk, view.id)) == b"kept\nkept\n"
    assert [one[-1] for one in town.desk.agent.asked if one[0] == "logs"] == [1, 2]


async def test_a_try_in_the_same_file_does_not_begin_it_anew(writing_town):
    town = writing_town
    view = town.desk.has(a_view("train", state="running"))
    own = (town.desk, f"id:{view.id}")
    tried(town.desk, view, own, is_over=False)
    heard = asyncio.create_task(text_of(output(town.desk, view.id, follow=True)))
    town.desk.agent.says(view.id, b"one\n")
    await asyncio.sleep(0.1)
    tried(town.desk, view, own, own, is_over=False)  # It was quiet, and is tried again here.
    await asyncio.sleep(0.1)
    town.desk.agent.says(view.id, b"two\n")
    await asyncio.sleep(0.1)
    town.desk.agent.end(view.id)
    tried(town.desk, view, own, own)

    assert await heard == b"one\ntwo\n"
