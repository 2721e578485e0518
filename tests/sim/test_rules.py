"""Each rule of at-most-once jobs, by sentence, and each checker: which mutant proves it."""

import pytest

from distributed_grid.kernel.across.register_effects import RENEW_US
from distributed_grid.wire.register import Prepare
from tests.sim import across_mutants, register_mutants
from tests.sim.breaking import replaced
from tests.sim.register_scenes import SCENES, played
from tests.sim.register_stage import MEMORY, P, Q, Scene, X

pytestmark = pytest.mark.unmeasured

# The rules of docs/internals/protocols.md on at-most-once jobs -> mutants that break them.
RULES = {
    "a voter promises only above what it has promised": "a promise is given to anybody",
    "a promise is durable before it is told": "a promise is not durable",
    "a promise tells what was accepted": "a promise tells nothing of what was accepted",
    "a promise is kept by later writes": "a promise is not kept by writes",
    "a coordinator acts after a majority of promises": "one promise is enough",
    "it adopts the highest record": "the first record that is told is adopted",
    "a write is with a majority": "one vote is enough for a write",
    "what is accepted is durable": "what is accepted is not durable",
    "epochs have a node in them": "epochs are numbers without a node",
    "an attempt is named before its start": "an attempt starts before it is recorded",
    "the executor renews with the voters": "a lease is renewed with the coordinator only",
    "a voter renews no replaced attempt": "a replaced attempt is renewed",
    "a process starts after a majority has renewed": "one voter is enough for a lease",
    "a lease counts from when it was asked for": "a lease is counted from the answer",
    "a lease is renewed while it runs": "a lease is never renewed",
    "only voters end a lease": "the coordinator declares a lease over",
    "the next attempt waits for the lease": "nobody waits after the next attempt is recorded",
    "only who has run proves an end": "who never ran proves the end of others",
    "all that is doubtful is waited for": "an unended attempt is forgotten by the next",
    "a takeover waits too": "a takeover starts without a wait",
    "a takeover adopts what runs": "a takeover does not adopt what runs",
    "the keeper holds the deadline": "a keeper is not told when a lease is over",
    "one or three vote, never two": "two vote",
    "a job without votes says so": "a job without votes does not say so",
    "a person may force it": "a person's word on a stuck job is not heard",
    "also when voters were restarted": "a person's word does not help voters that were restarted",
    "a restarted home asks its voters": "a home whose guardians are gone does not ask its voters",
    "old and new set agree on a change": "the old majority alone changes the set",
    "a change takes two steps": "the set changes in one step",
    "while the set changes the old one promises": "the new set alone promises while it changes",
    "while the set changes the new one promises": "the old set alone promises while it changes",
    "while the set changes the old one accepts": "the new set alone accepts while it changes",
    "while the set changes the new one accepts": "the old set alone accepts while it changes",
    "while the set changes the old one renews": "the new set alone renews while it changes",
    "while the set changes the new one renews": "the old set alone renews while it changes",
    "a coordinator writes once before it changes the set": (
        "the first write of an epoch ends a change"
    ),
    "a candidate follows a newer set": "a candidate stays with the set that it knew",
    "who is lost is replaced": "a voter that is lost has no successor",
    "a new store is a new member": "a voter that has lost its disk votes",
    "an old disk does not vote": "a voter with an old disk votes",
    "a vote is remembered by others first": "a vote is told before anybody remembers it",
    "clocks go on in sleep": "clocks stand still in a sleep",
    "clocks may drift": "nobody allows for clocks that drift",
}
# Rules that follow from others, so that no story shows their lack -> where they are, and the line.
IMPLIED = {
    # A coordinator counts its wait from its first write, which gives what runs a fence of its own
    # epoch; every majority that could renew after that, in whichever set, has one who has accepted
    # that write or a later one, and so refuses the older fence, whatever it has promised.
    "a voter renews only if the fence's epoch is not below what it has promised": (
        "across.register_voter:Voter._may_go_on",
        "renewal.fence.epoch >= promised and ",
    ),
}
# What a checker says -> whose rule it is.
CHECKERS = {
    "its lease is not saved": "nothing is sold twice",
    "of others as its own": "nobody runs what it does not lend",
    "holds leases for nobody": "nothing is held when all has settled",
    "copies, on disk": "acknowledged copies are there",
    "was acknowledged with": "and stay there",
    "may run once": "at most once",
    "nobody wants it": "no orphans",
    "tells twice": "one end",
    "and it ended": "the last that was told is what is so",
    "its processes never did": "ends are true",
    "is seen differently": "views are equal",
    "keeps": "memory is bounded",
    "still talked about": "nobody talks for ever",
    "has not ended": "everything ends",
}


def names() -> set[str]:
    mutants = (*across_mutants.MUTANTS, *register_mutants.MUTANTS)
    return {mutant.breaks for mutant in mutants}


@pytest.mark.parametrize("rule", RULES)
def test_each_rule_has_a_mutant_that_is_caught(rule):
    assert RULES[rule] in names()


@pytest.mark.parametrize("rule", IMPLIED)
def test_no_scene_needs_a_rule_that_is_implied(rule):
    with replaced(*IMPLIED[rule], ""):
        problems = {name: problem for name in SCENES if (problem := played(name))}
    assert problems == {}, "so it is a rule of its own: move it, with a mutant"


def is_renewed_below_a_promise() -> bool:
    """Whether an attempt goes on whose voters have promised a higher epoch to somebody."""
    scene = Scene()
    scene.attempt("l1", X)
    granted = scene.until_us["l1"]
    scene.ask(Q)
    scene.deliver(only=(Prepare, *MEMORY))
    scene.away = {P, Q}  # Whoever has the promises hears nothing of them.
    scene.pass_time(2 * RENEW_US)
    return scene.until_us["l1"] != granted


def test_a_guardian_renews_nothing_below_what_it_has_promised():
    assert not is_renewed_below_a_promise()
    [(where, line)] = IMPLIED.values()
    with replaced(where, line, ""):
        assert is_renewed_below_a_promise(), "nothing else refuses it"


@pytest.mark.parametrize("said", CHECKERS)
def test_each_checker_has_a_mutant_that_it_catches(said):
    assert any(said in mutant.shows for mutant in across_mutants.MUTANTS), CHECKERS[said]
