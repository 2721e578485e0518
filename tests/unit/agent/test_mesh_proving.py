"""Checking what others claim: verified, failed, pretended, asked too often."""

import asyncio

import msgspec
import pytest

from distributed_grid.agent.mesh_proving import (
    AGAIN_US,
    ANSWER_AGAIN_US,
    PATIENCE_US,
    SETTLE_US,
    Proving,
)
from distributed_grid.edges.probe.proving import Prover
from distributed_grid.kernel.mesh.proving import make_challenge
from distributed_grid.wire.mesh import Proof
from distributed_grid.wire.mesh_records import NodeProfile, Verdicts
from tests.unit.agent.mesh_lab import MeshLab, until
from tests.unit.mesh.machine_lab import Lab


@pytest.fixture(autouse=True)
def _soon(monkeypatch):
    monkeypatch.setattr("distributed_grid.agent.mesh_proving.SETTLE_US", 0)
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
    clocked.lab.pass_ms(AGAIN_US // 1_000)
    again = clocked.proving.due()
    assert again[1].number == first[1].number + 1
    assert again[1].seed != first[1].seed


async def test_an_answer_to_nothing_or_of_another_changes_nothing(clocked):
    proof = Proof(number=1, digests=(), elapsed_us=())
    assert not await clocked.proving.take(clocked.member.id, proof)

    clocked.lab.pass_ms(SETTLE_US // 1_000)
    clocked.proving.due()
    assert not await clocked.proving.take("f" * 64, proof)
    assert not await clocked.proving.take(
        clocked.member.id, msgspec.structs.replace(proof, number=9)
    )


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
    assert proving.verdict(clocked.member.id).state == "failed"
    lab.pass_ms(AGAIN_US // 1_000)
    assert proving.due() is None

    profile = NodeProfile(node_class="edge", version="2", cores=1)
    clocked.member.say(profile=msgspec.msgpack.encode(profile))
    lab.run(1)
    lab.pass_ms(AGAIN_US // 1_000)
    assert proving.due() is not None
    clocked.founder.mesh.roster.forget(clocked.member.id)
    assert msgspec.msgpack.decode(proving.value(), type=Verdicts).of == {}
    proving.forget(clocked.member.id)
