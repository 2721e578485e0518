"""Checking what others claim, and showing what this node has.

Lives here: when to ask, what was asked, what came of it. Never here: the question and its right
answer (`kernel.mesh.proving`), the work (`edges.probe.proving`).
Invariant: one question is under way at a time, each way: checking must not be what keeps machines
busy.
"""

import asyncio
from collections.abc import Callable
from typing import Final

import msgspec

from distributed_grid.kernel.mesh.events import Now
from distributed_grid.kernel.mesh.machine import Mesh
from distributed_grid.kernel.mesh.proving import (
    SEED_BYTES,
    Verdict,
    best,
    challengers,
    judge_proof,
    make_challenge,
)
from distributed_grid.model.ids import NodeId
from distributed_grid.wire.mesh import Challenge, Proof
from distributed_grid.wire.mesh_records import LABELS_MAX, TEXT_MAX, NodeProfile, Verdicts, fitted

SETTLE_US: Final = 5_000_000  # A machine that has just come up is busy with that.
PATIENCE_US: Final = 15_000_000  # For an answer.
AGAIN_US: Final = 20_000_000  # Between tries: another moment.
LATER_US: Final = 600_000_000  # A machine that was busy at every moment is asked again after this.
ANSWER_AGAIN_US: Final = 2_000_000  # Nobody may keep us hashing.

Prove = Callable[[Challenge], Proof | None]
Send = Callable[[NodeId, Challenge | Proof], None]


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """A question that is under way."""

    node: NodeId
    challenge: Challenge
    profile: NodeProfile
    sent_us: int


class Proving:
    """Challenges of one node, given and taken."""

    def __init__(
        self, mesh: Mesh, prove: Prove, *, chance: Callable[[int], int], now: Callable[[], Now]
    ) -> None:
        self._mesh, self._prove, self._chance, self._now = mesh, prove, chance, now
        self._numbers = 0
        self._asked: Asked | None = None
        self._tries: dict[NodeId, list[Verdict]] = {}
        self._next_us: dict[NodeId, int] = {}
        self._verdicts: dict[NodeId, tuple[bytes, Verdict]] = {}  # With the profile it is about.
        self._answered_us: int | None = None

    def due(self) -> tuple[NodeId, Challenge] | None:
        """Whom to ask now, if anybody."""
        now_us = self._now().mono_us
        if self._asked is not None:
            if now_us - self._asked.sent_us < PATIENCE_US:
                return None
            self._try(self._asked, Verdict(state="claimed", why="no answer", is_final=False))
        for node, link in self._mesh.links.items():
            profile = self._mesh.said.profile(node)
            if profile is None or profile.is_pretended or now_us < link.since_us + SETTLE_US:
                continue
            if self._is_done(node) or now_us < self._next_us.get(node, 0):
                continue
            if self._mesh.me in challengers(node, self._members()):
                return node, self._ask(node, profile, now_us)
        return None

    def _members(self) -> list[NodeId]:
        roster = self._mesh.roster
        return list(roster.standings) if roster else []

    def _is_done(self, node: NodeId) -> bool:
        """Whether its present profile was judged, or was too busy to be: that is asked again."""
        held = self._verdicts.get(node)
        if held is None or held[0] != self._claim(node):
            return False
        is_open = held[1].state == "claimed"
        return not is_open or self._now().mono_us < self._next_us.get(node, 0) + LATER_US

    def _claim(self, node: NodeId) -> bytes:
        return self._mesh.replica.value(node, "profile") if self._mesh.replica else b""

    def _ask(self, node: NodeId, profile: NodeProfile, now_us: int) -> Challenge:
        self._numbers += 1
        seed = bytes(self._chance(256) for _ in range(SEED_BYTES))
        challenge = make_challenge(
            self._numbers, seed, cores=profile.cores, memory_bytes=profile.memory_bytes
        )
        self._asked = Asked(node=node, challenge=challenge, profile=profile, sent_us=now_us)
        return challenge

    async def take(self, peer: NodeId, proof: Proof) -> bool:
        """An answer; whether there is a new verdict to be told."""
        asked, received_us = self._asked, self._now().mono_us
        if asked is None or asked.node != peer or proof.number != asked.challenge.number:
            return False
        load = self._mesh.said.load(peer)
        verdict = await asyncio.to_thread(  # Some milliseconds of hashing.
            judge_proof,
            asked.challenge,
            proof,
            sent_us=asked.sent_us,
            received_us=received_us,
            chance=self._chance,
            trip_us=self._mesh.liveness.rtt_us(peer) or 0,
            busy_milli=load.load_milli if load else 0,
            gpus=[(gpu.device, gpu.memory_bytes) for gpu in asked.profile.gpus],
        )
        return self._try(asked, verdict)

    def _try(self, asked: Asked, verdict: Verdict) -> bool:
        node = asked.node
        self._asked = None
        self._next_us[node] = self._now().mono_us + AGAIN_US
        tries = self._tries.setdefault(node, [])
        tries.append(verdict)
        final = best(tries)
        if final is None:
            return False
        self._tries.pop(node)
        self._verdicts[node] = (self._claim(node), final)
        return True

    def value(self) -> bytes:
        """What this node says of others."""
        members = set(self._members())
        judged: dict[str, tuple[str, str]] = {
            node: (verdict.state, verdict.why[:TEXT_MAX])
            for node, (_, verdict) in self._verdicts.items()
            if node in members and verdict.state != "claimed"
        }
        kept = sorted(judged.items())[:LABELS_MAX]
        return fitted(lambda most: Verdicts(of=dict(kept[:most])), len(kept))

    def verdict(self, node: NodeId) -> Verdict:
        """What was found of a node."""
        return self._verdicts[node][1]

    async def answer(self, challenge: Challenge) -> Proof | None:
        """Show what we have; None: asked too often, or for too much."""
        now_us = self._now().mono_us
        if self._answered_us is not None and now_us - self._answered_us < ANSWER_AGAIN_US:
            return None
        self._answered_us = now_us
        return await asyncio.to_thread(self._prove, challenge)

    def forget(self, node: NodeId) -> None:
        """It is gone."""
        for table in (self._tries, self._next_us, self._verdicts):
            table.pop(node, None)
