"""Two homes gathered one gang while they were parted: the ranks of one attempt go on, no others."""

from itertools import product

import msgspec
import pytest

from distributed_grid.kernel.across.gathering import Gatherer
from distributed_grid.kernel.node import Drain
from distributed_grid.kernel.ready import Ready
from tests.across_world import Neighbour, Room
from tests.node_world import a_job
from tests.unit.across.gang_rooms import beats, lending, runs, stop_what_was_told, uncommitted

RANKS = 3


class Parted:
    """Four nodes in two halves, each with a home of one gang that has looked for no room yet."""

    def __init__(self) -> None:
        self.room = lending(Room(4))
        self.gang = a_job("gang", gang=RANKS, retries=1)
        near, far = self.room.nodes[:2], self.room.nodes[2:]
        self.first, self.near = near
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Gatherer, "gather", lambda *_: [])
            self.first.submit(self.gang)
            beats(self.room)
            pairs = [(one.me, two.me) for one, two in product(near, far)]
            self.between = {*pairs, *((two, one) for one, two in pairs)}
            self.room.cut |= self.between
            self.room.dead |= self.between
            beats(self.room, 10)
        (self.second,) = [one for one in far if self.gang.id in one.node.coordinator.jobs]
        (self.far,) = [one for one in far if one is not self.second]

    def heal(self) -> None:
        self.room.cut.clear()
        self.room.dead -= {pair for pair in self.between if self.room.by_id(pair[1]).is_up}
        self.room.look()
        beats(self.room, 4)

    def tries(self, home: Neighbour) -> set:
        """Those of which ranks live, in the eyes of a home."""
        return {(one.epoch, one.number) for one in home.job(self.gang).live_attempts}

    def is_run_by(self, home: Neighbour) -> bool:
        """Whether its ranks run, once each, and all that runs is theirs."""
        found = runs(self.room, self.gang)
        ranks = [run.env["GRID_RANK"] for run in found]
        leases = {one.lease for one in home.job(self.gang).live_attempts}
        return ranks == ["0", "1", "2"] and {run.attempt for run in found} == leases


@pytest.fixture
def parted() -> Parted:
    return Parted()


def commit_not(patch: pytest.MonkeyPatch, *nodes: Neighbour) -> None:
    for node in nodes:
        patch.setattr(node.node.across.holds, "commit", lambda *_: None)


def test_of_two_that_run_the_one_of_the_home_that_stays_goes_on(parted):
    room, home = parted.room, parted.second
    beats(room)
    assert len(runs(room, parted.gang)) == 2 * RANKS
    kept = parted.tries(home)

    parted.heal()
    stop_what_was_told(room)
    assert room.home_of(parted.gang) is home
    assert parted.tries(home) == kept
    assert parted.is_run_by(home)


@pytest.mark.parametrize("is_tried_again", [False, True])
def test_what_another_home_committed_does_not_keep_a_gang_from_going(
    parted, monkeypatch, is_tried_again
):
    room, home = parted.room, parted.second
    commit_not(monkeypatch, parted.second, parted.far)
    beats(room)
    if is_tried_again:  # Then the other's attempt has a higher number.
        run = runs(room, parted.gang)[0]
        owner = next(one for one in room.nodes if run.attempt in one.keeper.runs)
        owner.keeper.end_one(run.attempt, 1)
        room.settle()
        stop_what_was_told(room)
        beats(room)
    assert home.job(parted.gang).gang_go is None

    parted.heal()
    stop_what_was_told(room)
    monkeypatch.undo()
    beats(room)
    assert parted.is_run_by(home)
    job = home.job(parted.gang)
    assert job.attempts_made == 1 + is_tried_again
    assert parted.tries(home) == {(job.gang_go.epoch, job.gang_go.number)} == {(job.epoch, 1)}


def test_what_another_home_lost_does_not_end_the_attempt_that_stays(parted):
    room, home, lost = parted.room, parted.second, parted.near
    parted.first.step(Drain(now_ms=parted.first.now_ms))
    room.look()
    beats(room)
    kept = parted.tries(home)
    assert {one.node for one in parted.first.job(parted.gang).live_attempts} == {lost.name}
    room.cut = {(lost.me, home.me), (home.me, lost.me)}
    room.dead = {(home.me, lost.me)}
    beats(room)
    assert room.home_of(parted.gang) is home
    assert home.job(parted.gang).attempts[RANKS].node == lost.name, "it has heard of them"

    stop_what_was_told(room)
    beats(room)
    assert parted.tries(home) == kept
    assert home.job(parted.gang).losses == 0


def test_a_gang_that_still_gathers_waits_until_the_ranks_of_the_other_home_are_over(parted):
    room, home = parted.room, parted.second
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(home.node.across.gangs.gatherer, "gather", lambda *_: [])
        beats(room)
        assert len(runs(room, parted.gang)) == RANKS
        parted.heal()
    beats(room)
    assert not home.node.across.is_waiting(parted.gang.id)
    assert {number for _, number in parted.tries(home)} == {1}

    stop_what_was_told(room)
    beats(room, 8)
    assert {number for _, number in parted.tries(home)} == {2}
    assert parted.is_run_by(home)


def test_who_takes_over_from_both_goes_on_with_the_attempt_whose_go_it_knows(parted):
    room, home = parted.room, parted.second
    for one in (parted.first, parted.second):
        one.step(Drain(now_ms=one.now_ms))
    room.look()
    beats(room)
    kept = parted.tries(home)
    room.kill(parted.first)
    room.kill(parted.second)
    parted.heal()
    beats(room, 10)
    stop_what_was_told(room)

    heir = room.home_of(parted.gang)
    assert parted.tries(heir) == kept
    assert parted.is_run_by(heir)


def test_ranks_of_which_no_go_is_known_are_left_to_be_given_back(parted):
    home = parted.second
    beats(parted.room)
    job, across = home.job(parted.gang), home.node.across
    before = list(job.live_attempts)
    assert len(before) == RANKS
    job.gang_go = msgspec.structs.replace(job.gang_go, number=7)  # All of its ranks are over.
    across.handover._keep_gone(job, home.now_ms, Ready())
    assert job.live_attempts == before


def test_ranks_are_given_back_though_the_epoch_has_risen_since_they_were_told(monkeypatch):
    room = lending(Room(3))
    gang, home = uncommitted(room, monkeypatch), room[0]
    monkeypatch.undo()
    before, others = home.job(gang).epoch, [one.me for one in room.nodes[1:]]
    home.start_agent()
    room.cut = {(home.me, one) for one in others}  # Nobody hears that the ranks are given back,
    room.pass_time(2_500)
    room.cut = {(one, home.me) for one in others}  # nor says that no other home has taken it over.
    room.pass_time(1_000)
    job = home.job(gang)
    assert job.epoch > before
    assert {one.number for one in job.live_attempts} == {1}

    room.cut.clear()
    beats(room, 12)
    found = runs(room, gang)
    assert len(found) == gang.gang
    assert {run.env["GRID_ATTEMPT"] for run in found} == {"2"}
