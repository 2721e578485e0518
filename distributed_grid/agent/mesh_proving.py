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
TURN_US: Final = 4_000_000  # Its challengers ask one after the other: at once, each finds it busy.
PATIENCE_US: Final = 15_000_000  # For an answer.
AGAIN_US: Final = 20_000_000  # Between tries, and up to half of it more: another moment.
LATER_US: Final = 60_000_000  # No try has settled it: three more after this, after twice this, …
LATER_US_MAX: Final = 600_000_000  # … and this at most.
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
        self._unsettled: dict[NodeId, int] = {}  # How often all tries have settled nothing,
        self._rests_us: dict[NodeId, int] = {}  # and until when it is let be for that.
        self._took_us: dict[NodeId, int] = {}  # Its slowest core, the last time.
        self._news: list[NodeId] = []
        self._answered_us: int | None = None
        self._among: list[NodeId] = []
        self._mine: list[NodeId] = []

    def due(self) -> tuple[NodeId, Challenge] | None:
        """Whom to ask now, if anybody."""
        now_us = self._now().mono_us
        if self._asked is not None:
            if now_us - self._asked.sent_us < PATIENCE_US:
                return None
            self._try(self._asked, Verdict(state="claimed", why="no answer", is_final=False))
        for node in self._to_check():
            link, profile = self._mesh.links.get(node), self._mesh.said.profile(node)
            if link is None or now_us < link.since_us + SETTLE_US:
                continue
            if profile is None or profile.is_pretended or self._is_done(node):
                continue
            first_us = link.since_us + SETTLE_US + TURN_US * self._turn(node)
            if now_us >= self._next_us.get(node, first_us):
                return node, self._ask(node, profile, now_us)
        return None

    def _turn(self, node: NodeId) -> int:
        return challengers(node, self._among).index(self._mesh.me)

    def _to_check(self) -> list[NodeId]:
        """Those whom this node has to ask; worked out again when somebody has come or gone."""
        members = self._members()
        if members != self._among:
            self._among = members
            self._mine = [
                node
                for node in members
                if node != self._mesh.me and self._mesh.me in challengers(node, members)
            ]
        return self._mine

    def _members(self) -> list[NodeId]:
        roster = self._mesh.roster
        return list(roster.standings) if roster else []

    def _is_done(self, node: NodeId) -> bool:
        """Whether its present profile was judged for good, or just now as far as it can be."""
        held = self._verdicts.get(node)
        if held is None or held[0] != self._claim(node):
            return False
        return held[1].is_final or self._now().mono_us < self._rests_us.get(node, 0)

    def _claim(self, node: NodeId) -> bytes:
        return self._mesh.replica.value(node, "profile") if self._mesh.replica else b""

    def _ask(self, node: NodeId, profile: NodeProfile, now_us: int) -> Challenge:
        self._numbers += 1
        seed = bytes(self._chance(256) for _ in range(SEED_BYTES))
        challenge = make_challenge(
            self._numbers,
            seed,
            cores=profile.cores,
            memory_bytes=profile.memory_bytes,
            took_us=self._took_us.get(node),
        )
        self._asked = Asked(node=node, challenge=challenge, profile=profile, sent_us=now_us)
        return challenge

    async def take(self, peer: NodeId, proof: Proof) -> None:
        """An answer; `news` tells what follows from it."""
        asked, received_us = self._asked, self._now().mono_us
        if asked is None or asked.node != peer or proof.number != asked.challenge.number:
            return
        self._took_us[peer] = max(proof.elapsed_us, default=0)
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
        if self._asked is asked:  # Nobody lost patience meanwhile, nor was it answered twice.
            self._try(asked, verdict)

    def _try(self, asked: Asked, verdict: Verdict) -> None:
        node = asked.node
        self._asked = None
        now_us = self._now().mono_us
        self._next_us[node] = now_us + AGAIN_US + self._chance(AGAIN_US // 2 + 1)
        tries = self._tries.setdefault(node, [])
        tries.append(verdict)
        final = best(tries)
        if final is None:
            return
        self._tries.pop(node)
        held, now_held = self._verdicts.get(node), (self._claim(node), final)
        if held is None or held[0] != now_held[0]:
            self._unsettled.pop(node, None)
        if held != now_held:
            self._verdicts[node] = now_held
            self._news.append(node)
        if not final.is_final:
            times = self._unsettled[node] = self._unsettled.get(node, 0) + 1
            self._rests_us[node] = now_us + min(LATER_US << min(times - 1, 8), LATER_US_MAX)

    def news(self) -> list[tuple[NodeId, Verdict]]:
        """Verdicts that others should hear of, since this was last asked."""
        found, self._news = self._news, []
        return [(node, self._verdicts[node][1]) for node in found if node in self._verdicts]

    def value(self) -> bytes:
        """What this node says of others."""
        members = set(self._members())
        judged: dict[str, tuple[str, str]] = {
            node: (verdict.state, verdict.why[:TEXT_MAX])
            for node, (_, verdict) in self._verdicts.items()
            if node in members
        }
        kept = sorted(judged.items())[:LABELS_MAX]
        return fitted(lambda most: Verdicts(of=dict(kept[:most])), len(kept))

    async def answer(self, challenge: Challenge) -> Proof | None:
        """Show what we have; None: asked too often, or for too much."""
        now_us = self._now().mono_us
        if self._answered_us is not None and now_us - self._answered_us < ANSWER_AGAIN_US:
            return None
        self._answered_us = now_us
        return await asyncio.to_thread(self._prove, challenge)

    def forget(self, node: NodeId) -> None:
        """It is gone."""
        figures = (self._next_us, self._unsettled, self._rests_us, self._took_us)
        for table in (self._tries, self._verdicts, *figures):
            table.pop(node, None)
