"""Whether a node has what it claims: who asks it, what is asked, and what the answer is worth.

Lives here: the challenge, its right answers, the verdict. Never here: doing the work
(`edges.probe.proving`), when to ask (`agent`).
Invariant: who asks does a bounded part of the work again, a few milliseconds of it, and chooses
that part after the answer has come.

What it shows: that all claimed cores hash at the same time, that some memory is there, that the
driver names the claimed devices. Who works honestly cannot pass with cores it has not. Who rewrites
its own programme can pass off a fast core as some slow ones, down to `CORE_US_MAX`: the times are
its own word, and nothing but speed could tell such cores apart.
"""

import hashlib
from collections.abc import Callable, Collection, Sequence
from typing import Final, Literal

import msgspec

from distributed_grid.model.ids import NodeId
from distributed_grid.wire.mesh import Challenge, Proof

Verification = Literal["claimed", "verified", "failed"]

CHALLENGERS: Final = 3  # A majority of three outvotes one liar.
TRIES_MAX: Final = 3  # A machine may be busy once; hardly at each of three moments.
SEED_BYTES: Final = 16
CORES_MAX: Final = 64  # In one challenge: 32 kB of digests.
ROUNDS: Final = 16  # For each core: 11 ms with SHA-NI; some ten times that is guessed for a Pi.
ROUNDS_MAX: Final = 64  # At another try of a quick machine: bad moments are shorter than this.
DIGESTS_MAX: Final = 1_536  # In one answer, of all cores together: 48 kB of a message's 64.
QUICK_US: Final = 100_000
ROUND_BYTES: Final = 1 << 20  # One call without the interpreter lock; and little to check again.
SAMPLES: Final = 4  # Rounds done again. Who leaves out half of them is caught 15 times in 16.
MEMORY_BYTES_MAX: Final = 32 << 20  # Touched for a moment on a machine that has work to do.
BLOCK_BYTES: Final = 64 << 10
STAMP_BYTES: Final = 8
CORE_US_MAX: Final = 4_000_000  # 4 MB/s: we guess that no board on sale is slower.
WALL_US_MAX: Final = 10_000_000  # An answer so late says nothing but that.
SHARE_MILLI_MIN: Final = 500  # Of the cores: half of them may be noise, less is too few.


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What one answer showed."""

    state: Verification
    why: str = ""
    is_final: bool = True  # Not: it may have been a bad moment; worth another try.


def challengers(node: NodeId, members: Collection[NodeId]) -> tuple[NodeId, ...]:
    """Who asks this node: those nearest by XOR of the ids, so that nobody chooses its judges."""
    place = int(node, 16)
    others = sorted((int(member, 16) ^ place, member) for member in members if member != node)
    return tuple(member for _, member in others[:CHALLENGERS])


def make_challenge(
    number: int, seed: bytes, *, cores: int, memory_bytes: int, took_us: int | None = None
) -> Challenge:
    """What a node that claims so much is asked; again, if a core of it has taken so long before."""
    cores = min(max(cores, 1), CORES_MAX)
    is_quick = took_us is not None and took_us <= QUICK_US
    return Challenge(
        number=number,
        seed=seed,
        cores=cores,
        rounds=min(ROUNDS_MAX, DIGESTS_MAX // cores) if is_quick else ROUNDS,
        memory_bytes=min(memory_bytes, MEMORY_BYTES_MAX) // BLOCK_BYTES * BLOCK_BYTES,
    )


def is_fair(challenge: Challenge) -> bool:
    """Whether a challenge may be worked on: members could ask for a year of hashing."""
    return (
        len(challenge.seed) == SEED_BYTES
        and 1 <= challenge.cores <= CORES_MAX
        and 1 <= challenge.rounds <= ROUNDS_MAX
        and challenge.cores * challenge.rounds <= DIGESTS_MAX
        and 0 <= challenge.memory_bytes <= MEMORY_BYTES_MAX
        and challenge.memory_bytes % BLOCK_BYTES == 0
    )


def judge_proof(
    challenge: Challenge,
    proof: Proof,
    *,
    sent_us: int,
    received_us: int,
    chance: Callable[[int], int],
    trip_us: int = 0,
    busy_milli: int = 0,
    gpus: Collection[tuple[str, int]] = (),
) -> Verdict:
    """What an answer is worth.

    `trip_us` is the way there and back, `busy_milli` the cores that the node last said are busy,
    `gpus` the devices it claims with their memory.
    """
    if not _fits(challenge, proof):
        return Verdict(state="failed", why="the answer does not fit the question")
    missing = sorted(set(gpus) - set(proof.devices))
    if missing:
        why = f"its driver does not name {missing[0][0][:64]} with the memory it claims"
        return Verdict(state="failed", why=why)
    material = round_material(challenge.seed)
    for _ in range(SAMPLES):
        core, number = chance(challenge.cores), chance(challenge.rounds)
        right = round_digest(challenge.seed, core, number, material)
        if proof.digests[core][32 * number : 32 * number + 32] != right:
            return Verdict(state="failed", why=f"core {core} did not do its work")
    if proof.memory_digest != memory_digest(challenge.seed, challenge.memory_bytes):
        return Verdict(state="failed", why="the memory did not keep what was written")
    return _at_once(challenge, proof, received_us - sent_us, trip_us, busy_milli)


def _fits(challenge: Challenge, proof: Proof) -> bool:
    return (
        proof.number == challenge.number
        and len(proof.digests) == len(proof.elapsed_us) == challenge.cores
        and all(len(digests) == 32 * challenge.rounds for digests in proof.digests)
    )


def _at_once(
    challenge: Challenge, proof: Proof, wall_us: int, trip_us: int, busy_milli: int
) -> Verdict:
    """Did the cores work at the same time? One core in their place would need the sum."""
    longest_us, total_us = max(proof.elapsed_us), sum(proof.elapsed_us)
    is_told_well = 0 < min(proof.elapsed_us) <= longest_us <= wall_us
    if not is_told_well or not 0 <= proof.worked_us <= wall_us:
        return Verdict(state="failed", why="it tells times that cannot be")
    if wall_us > WALL_US_MAX:
        return Verdict(state="claimed", why="the answer came too late", is_final=False)
    if longest_us > CORE_US_MAX * max(challenge.rounds, ROUNDS) // ROUNDS:
        return Verdict(state="failed", why="its cores are slower than any", is_final=False)
    # What the way and two busy agents add is nothing of the cores. An old version does not tell.
    told_us = proof.worked_us or wall_us - trip_us - proof.memory_us
    working_us = max(told_us, longest_us)
    at_once_milli = total_us * 1_000 // working_us
    if challenge.cores == 1 or at_once_milli >= challenge.cores * SHARE_MILLI_MIN:
        return Verdict(state="verified")
    cores = f"{at_once_milli // 1_000}.{at_once_milli % 1_000 // 100}"
    why = f"{challenge.cores} cores are claimed, {cores} worked at once"
    # Being busy excuses, but shows nothing: who says so all the time stays a claim.
    busy_milli = max(busy_milli, proof.others_us * 1_000 // working_us)
    idle_milli = max(challenge.cores * 1_000 - busy_milli, 0)
    if at_once_milli * 1_000 >= idle_milli * SHARE_MILLI_MIN:
        return Verdict(state="claimed", why=f"{why}; it is busy", is_final=False)
    return Verdict(state="failed", why=why, is_final=False)


def best(verdicts: Sequence[Verdict]) -> Verdict | None:
    """The verdict after some tries; None: ask again.

    What is final decides at once; failing at a bad moment only if every moment was one.
    """
    for verdict in verdicts:
        if verdict.is_final:
            return verdict
    if len(verdicts) < TRIES_MAX:
        return None
    return next((each for each in verdicts if each.state == "claimed"), verdicts[-1])


def combined(states: Sequence[str]) -> Verification:
    """What several challengers say together: the majority; without one it stays a claim."""
    verified, failed = states.count("verified"), states.count("failed")
    if verified > failed:
        return "verified"
    return "failed" if failed > verified else "claimed"


def round_digest(seed: bytes, core: int, number: int, material: bytes) -> bytes:
    """The right answer of one core to one round."""
    start = b"grid round 1\0" + seed + core.to_bytes(4, "big") + number.to_bytes(4, "big")
    work = hashlib.sha256(start)
    work.update(material)
    return work.digest()


def round_material(seed: bytes) -> bytes:
    """What is hashed in every round: the same bytes after a start of one's own save no work."""
    block = hashlib.shake_128(b"grid material 1\0" + seed).digest(4_096)
    return block * (ROUND_BYTES // len(block))


def memory_stamp(seed: bytes, block: int) -> bytes:
    """What is written at the beginning of a block of memory."""
    text = b"grid memory 1\0" + seed + block.to_bytes(4, "big")
    return hashlib.sha256(text).digest()[:STAMP_BYTES]


def memory_digest(seed: bytes, memory_bytes: int) -> bytes:
    """The right answer about memory: a hash of all stamps."""
    count = memory_bytes // BLOCK_BYTES
    return hashlib.sha256(b"".join(memory_stamp(seed, block) for block in range(count))).digest()
