"""Checking what others claim: verified, failed, pretended, asked too often."""

import asyncio
import itertools

import msgspec
import pytest

from distributed_grid.agent.mesh_proving import (
    AGAIN_US,
    ANSWER_AGAIN_US,
    LATER_US,
    LATER_US_MAX,
    PATIENCE_US,
    SETTLE_US,
    TURN_US,
    Proving,
)
from distributed_grid.edges.probe.proving import Prover
from distributed_grid.kernel.mesh.proving import TRIES_MAX, challengers, make_challenge
from distributed_grid.wire.mesh import Proof
from distributed_grid.wire.mesh_records import NodeProfile, Verdicts
from tests.unit.agent.mesh_lab import MeshLab, until
from tests.unit.mesh.machine_lab import Lab


@pytest.fixture(autouse=True)
def _soon(monkeypatch):
    monkeypatch.setattr("distributed_grid.agent.mesh_proving.SETTLE_US", 0)
    monkeypatch.setattr("distributed_grid.agent.mesh_proving.TURN_US", 0)
    monkeypatch.setattr("distributed_grid.agent.mesh_proving.AGAIN_US", 0)
    monkeypatch.setattr("distributed_grid.agent.mesh_proving.ANSWER_AGAIN_US", 0)
    monkeypatch.setattr("distributed_grid.agent.mesh.LOOK_S", 0.02)


def verification(seen_by, of) -> str:
    return next(view.verification for view in seen_by.side.views() if view.id == of.id)


@pytest.mark.rows("S2-142")
async def test_who_has_what_it_claims_is_verified_and_all_hear_it():
    async with MeshLab() as lab:
        profile = NodeProfile(node_class="edge", version="1", cores=1, memory_bytes=1 << 24)
        alpha, beta = await lab.mesh_of("alpha", "beta", prove=Prover(), profile=profile)
        await until(lambda: verification(beta, beta) == verification(alpha, beta) == "verified")

        (told,) = [event for event in alpha.events if event.name == "mesh.verified"]
        assert (told.fields["node"], told.fields["verification"]) == (beta.id, "verified")


@pytest.mark.rows("S2-142")
async def test_who_answers_with_something_else_has_failed():
    def wrong(challenge) -> Proof:
        digests = tuple(b"x" * 32 for _ in range(challenge.cores))
        return Proof(
            number=challenge.number, digests=digests, elapsed_us=(1_000,) * challenge.cores
        )

    async with MeshLab() as lab:
        alpha, beta = await lab.mesh_of("alpha", "beta", prove=wrong)
        await until(lambda: verification(alpha, beta) == "failed")


async def test_who_pretends_is_not_asked():
    async with MeshLab() as lab:
        asked = []
        profile = NodeProfile(node_class="edge", version="1", cores=1, is_pretended=True)
        alpha, beta = await lab.mesh_of("alpha", "beta", prove=asked.append, profile=profile)
        await until(lambda: verification(alpha, beta) == "pretended")
        await asyncio.sleep(0.2)

        assert asked == []


async def test_without_proving_a_question_is_not_answered():
    async with MeshLab() as lab:
        alpha, beta = await lab.mesh_of("alpha", "beta")
        challenge = make_challenge(1, b"s" * 16, cores=1, memory_bytes=0)
        await beta.side._prove(alpha.id, challenge)

        assert verification(alpha, beta) == "claimed"


# The rules, with a clock that is told


class Clocked:
    """Two machines of the lab, and one that checks the other."""

    def __init__(self, prove=lambda _: None) -> None:
        self.lab = Lab()
        self.founder, self.member = self.lab.mesh_of("founder", "member")
        dice = __import__("random").Random(1)
        self.proving = Proving(
            self.founder.mesh, prove, chance=dice.randrange, now=lambda: self.lab.now
        )


@pytest.fixture
def clocked(monkeypatch) -> Clocked:
    monkeypatch.undo()
    return Clocked()


def test_a_machine_that_just_came_up_is_let_be(clocked):
    clocked.founder.mesh.links[clocked.member.id].since_us = clocked.lab.mono_us
    assert clocked.proving.due() is None

    clocked.lab.pass_ms(SETTLE_US // 1_000)
    node, challenge = clocked.proving.due()
    assert (node, challenge.cores) == (clocked.member.id, 4)


def test_one_question_is_under_way_at_a_time_and_not_for_ever(clocked):
    clocked.lab.pass_ms(SETTLE_US // 1_000)
    first = clocked.proving.due()
    assert clocked.proving.due() is None

    clocked.lab.pass_ms(PATIENCE_US // 1_000)
    assert clocked.proving.due() is None
    clocked.lab.pass_ms(AGAIN_US * 3 // 2_000)
    again = clocked.proving.due()
    assert again[1].number == first[1].number + 1
    assert again[1].seed != first[1].seed


async def test_an_answer_to_nothing_or_of_another_changes_nothing(clocked):
    proof = Proof(number=1, digests=(), elapsed_us=())
    await clocked.proving.take(clocked.member.id, proof)

    clocked.lab.pass_ms(SETTLE_US // 1_000)
    clocked.proving.due()
    await clocked.proving.take("f" * 64, proof)
    await clocked.proving.take(clocked.member.id, msgspec.structs.replace(proof, number=9))
    assert clocked.proving.news() == []


async def test_an_answer_that_comes_twice_counts_once(clocked):
    clocked.lab.pass_ms(SETTLE_US // 1_000)
    _, challenge = clocked.proving.due()
    proof = Proof(number=challenge.number, digests=(), elapsed_us=())
    await asyncio.gather(*(clocked.proving.take(clocked.member.id, proof) for _ in range(2)))

    assert [verdict.state for _, verdict in clocked.proving.news()] == ["failed"]


def test_its_challengers_ask_one_after_the_other(clocked):
    """Two questions at once would each find half a machine."""
    lab, member = clocked.lab, clocked.member
    hosts = [clocked.founder, *(host.join(clocked.founder) for host in lab.add("a", "b"))]
    for host in hosts:  # Nobody asks them.
        profile = NodeProfile(node_class="edge", version="1", is_pretended=True)
        host.say(profile=msgspec.msgpack.encode(profile))
    lab.run(3)
    for host in hosts:
        host.mesh.links[member.id].since_us = lab.mono_us
    members = [host.id for host in (member, *hosts)]
    asking = {
        host.id: Proving(host.mesh, lambda _: None, chance=lambda _: 0, now=lambda: lab.now)
        for host in hosts
    }
    asked = []
    for _ in range((SETTLE_US + 3 * TURN_US) // 1_000_000):
        lab.pass_ms(1_000)
        for node, proving in asking.items():
            due = proving.due()
            if due is not None and due[0] == member.id:
                asked.append((node, lab.mono_us))
    nodes, times = zip(*asked, strict=True)

    assert nodes == challengers(member.id, members)
    assert [late - early for early, late in itertools.pairwise(times)] == [TURN_US] * 2


def asked_within(clocked, seconds: int) -> list[int]:
    """When it is asked, in seconds; nobody answers."""
    start_us, times = clocked.lab.mono_us, []
    for _ in range(seconds):
        clocked.lab.pass_ms(1_000)
        if clocked.proving.due() is not None:
            times.append((clocked.lab.mono_us - start_us) // 1_000_000)
    return times


async def test_who_could_not_be_judged_is_asked_again_later_and_later_and_that_is_told(clocked):
    proving, member = clocked.proving, clocked.member
    times = asked_within(clocked, 3_000)
    last = times[TRIES_MAX - 1 :: TRIES_MAX]
    rests = [late - early for early, late in zip(last, times[TRIES_MAX::TRIES_MAX], strict=False)]

    patience, first, most = (each // 1_000_000 for each in (PATIENCE_US, LATER_US, LATER_US_MAX))
    assert rests == [patience + min(first << n, most) for n in range(len(rests))]
    assert rests[-1] == patience + most
    within = [late - early for early, late in itertools.pairwise(times[:TRIES_MAX])]
    assert all(AGAIN_US <= (gap - patience) * 1_000_000 <= AGAIN_US * 3 // 2 for gap in within)
    assert [(node, each.state, each.why) for node, each in proving.news()] == [
        (member.id, "claimed", "no answer")
    ]  # Once: nothing has changed since.
    said = msgspec.msgpack.decode(proving.value(), type=Verdicts)
    assert said.of == {member.id: ("claimed", "no answer")}


async def test_another_profile_is_not_kept_waiting(clocked):
    asked_within(clocked, 2_000)
    clocked.member.say(profile=msgspec.msgpack.encode(NodeProfile(node_class="edge", version="2")))
    clocked.lab.run(1)

    assert asked_within(clocked, (PATIENCE_US + AGAIN_US * 3 // 2) // 1_000_000)


async def test_nobody_keeps_us_hashing(clocked):
    clocked.proving._prove = lambda challenge: Proof(number=1, digests=(), elapsed_us=())
    challenge = make_challenge(1, b"s" * 16, cores=1, memory_bytes=0)

    assert await clocked.proving.answer(challenge) is not None
    assert await clocked.proving.answer(challenge) is None
    clocked.lab.pass_ms(ANSWER_AGAIN_US // 1_000)
    assert await clocked.proving.answer(challenge) is not None


async def test_a_verdict_is_about_one_profile_and_of_members_only(clocked):
    proving, lab = clocked.proving, clocked.lab
    for _ in range(5):
        lab.pass_ms(max(SETTLE_US, AGAIN_US) // 1_000)
        due = proving.due()
        if due is None:
            break
        wrong = tuple(b"x" * 32 for _ in range(due[1].cores))
        proof = Proof(number=due[1].number, digests=wrong, elapsed_us=(1,) * due[1].cores)
        await proving.take(clocked.member.id, proof)
    said = msgspec.msgpack.decode(proving.value(), type=Verdicts)
    assert said.of[clocked.member.id][0] == "failed"
    assert [verdict.state for _, verdict in proving.news()] == ["failed"]
    lab.pass_ms(LATER_US_MAX // 1_000)
    assert proving.due() is None

    profile = NodeProfile(node_class="edge", version="2", cores=1)
    clocked.member.say(profile=msgspec.msgpack.encode(profile))
    lab.run(1)
    lab.pass_ms(AGAIN_US // 1_000)
    assert proving.due() is not None
    clocked.founder.mesh.roster.forget(clocked.member.id)
    assert msgspec.msgpack.decode(proving.value(), type=Verdicts).of == {}
    proving.forget(clocked.member.id)
