"""Files of jobs wherever they are: how far they are on their way, and what was left behind."""

import pytest

from distributed_grid.agent import anywhere, asking
from distributed_grid.errors import NotFound
from distributed_grid.model.transit import Transit
from distributed_grid.wire.across_api import BringOutputs, Outputs
from tests.agent_stand_in import a_view, an_attempt
from tests.questions_lab import Town
from tests.unit.agent.test_anywhere import NO_FILTER, questions

UNPACKING = Transit(doing="unpacking", node="attic", files=3)
SENDING = Transit(doing="receiving", node="attic", bytes_done=1, bytes_total=2)


def made_ready(town, **facts):
    """A job of the desk that the attic makes ready."""
    lease = "7" * 32
    attempts = (an_attempt(node="attic", state="granted", lease=lease),)
    view = town.desk.has(a_view("train", state="waiting", attempts=attempts, **facts))
    town.attic.has(a_view("train", id=lease, guest_of=view.id, home=town.desk.me, state="waiting",
                          transits=(UNPACKING,)))  # fmt: skip
    return view


async def test_what_the_node_that_will_run_it_does_with_its_files_is_told():
    town = Town("desk", "attic", "cellar")
    view = made_ready(town)
    found = await town.desk.grid.job(f"id:{view.id}")

    assert found.transits == (UNPACKING,)
    assert found.reason == "attic is unpacking its files (3 files)"
    assert len(questions(town)) == 1
    assert (await town.cellar.grid.job(f"id:{view.id}")).transits == (UNPACKING,)
    (listed,) = (await town.cellar.grid.jobs(**NO_FILTER)).jobs
    assert (listed.id, listed.transits) == (view.id, (UNPACKING,))


async def test_what_the_home_knows_itself_is_not_asked_for():
    town = Town("desk", "attic")
    view = made_ready(town, transits=(SENDING,), reason="why")
    found = await town.desk.grid.job(f"id:{view.id}")

    assert (found.transits, found.reason, questions(town)) == ((SENDING,), "why", [])
    (listed,) = (await town.desk.grid.jobs(**NO_FILTER)).jobs
    assert listed.transits == (SENDING,)


async def test_who_does_not_know_it_or_does_not_answer_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(anywhere, "READYING_S", 0.05)
    monkeypatch.setattr(asking, "LINK_S", 600)
    town = Town("desk", "attic")
    view = made_ready(town)
    town.attic.agent.views.clear()
    assert (await town.desk.grid.job(f"id:{view.id}")).transits == ()
    town.lanes.cut.add(frozenset((town.desk.me, town.attic.me)))
    assert (await town.desk.grid.job(f"id:{view.id}")).transits == ()


# --- What jobs left behind ------------------------------------------------------------------------


async def test_outputs_are_asked_for_where_they_are_and_put_down_here():
    town = Town("desk", "attic")
    own, other = town.desk.has(a_view("mine")), town.attic.has(a_view("theirs"))
    across, here = town.desk.grid.across, BringOutputs(directory="/x")

    assert (await across.outputs(f"id:{own.id}")).name == "mine"
    assert (await across.outputs("mine")).name == "mine"
    assert (await across.bring_outputs("theirs", here)).job == other.id
    assert town.desk.agent.across.asked[-1] == ("hand out", "", "theirs", here)
    assert ("outputs", "theirs") in town.attic.agent.across.asked
    with pytest.raises(NotFound):
        await across.bring_outputs("ghost", here)


def keeping(member, *manifests, name="train", job="7" * 64):
    """A node that still has something of a job, which it need not know any more."""

    async def outputs(word):
        if word != f"id:{job}":
            raise NotFound("job", word)
        return Outputs(job=job, name=name, node=member.me, kept=manifests, globs=("**",))

    member.agent.across.outputs = outputs


async def test_what_stayed_where_it_ran_comes_too_from_whoever_has_it():
    town = Town("desk", "attic", "cellar")
    view = town.desk.has(a_view("train"))
    keeping(town.attic, "a" * 64, job=view.id)
    found = await town.desk.grid.across.bring_outputs("train", BringOutputs(directory="/x"))

    handed = [one for one in town.desk.agent.across.asked if one[0] == "hand out"]
    assert [one[1] for one in handed] == ["", town.attic.me]
    assert (found.job, found.files) == (view.id, 2)


@pytest.mark.parametrize("who", ["desk", "attic"])
async def test_a_job_that_nobody_knows_any_more_is_found_where_it_ran(who):
    town = Town("desk", "attic")
    keeping(town.attic, "a" * 64)
    asking = getattr(town, who)
    across, wanted = asking.grid.across, BringOutputs(directory="/x")
    view = asking.has(a_view("train", id="7" * 64))

    async def gone(word):
        raise NotFound("outputs of", word)

    if who == "desk":
        town.desk.agent.across.outputs = gone
    assert (await across.bring_outputs(f"id:{view.id}", wanted)).files == 1
    keeping(town.attic)
    town.desk.agent.across.outputs = gone
    with pytest.raises(NotFound):
        await town.desk.grid.across.bring_outputs("nobody", wanted)


async def test_what_is_no_answer_but_a_mistake_of_ours_is_raised():
    town = Town("desk", "attic")
    view = town.attic.has(a_view("train"))

    async def broken(_word):
        raise RuntimeError("ours")

    town.desk.agent.across.outputs = broken
    with pytest.raises(RuntimeError, match="ours"):
        await town.desk.grid.across.bring_outputs(f"id:{view.id}", BringOutputs(directory="/x"))
