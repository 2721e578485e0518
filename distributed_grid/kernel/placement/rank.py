"""Which node comes first among equals: a number from job id and node id that all compute alike.

Lives here: the two ranks, for one pair of ids. The same on arrays: `columns`.
Invariant: different nodes have different keys, and a key needs nothing but the two ids.

`xor` is the literal rule: XOR of the two 256-bit ids, lowest first. With fixed node ids its
shares depend on the ids: three nodes can get 1/2, 1/4, 1/4. `even` mixes the XOR with a fixed
bijection first, so that every node gets the same share of job ids.

The mix, on four 64-bit words x0 (most significant) to x3, all arithmetic modulo 2^64:
    x2 += f(x3);  x1 += f(x2);  x0 += f(x1);  x0 = f(x0)
with f the finaliser of SplitMix64 on z + 0x9e3779b97f4a7c15. Every step can be undone, so
different inputs stay different; x0, which decides, depends on every bit.
"""

from typing import Literal

from distributed_grid.model.ids import JobId, NodeId

Rank = Literal["even", "xor"]
RANKS: tuple[Rank, ...] = ("even", "xor")

WORD_MASK = (1 << 64) - 1
GAMMA = 0x9E3779B97F4A7C15
MULTIPLIERS = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
SHIFTS = (30, 27, 31)


def rank_key(rank: Rank, job: JobId, node: NodeId) -> int:
    """The 256-bit key of a node for a job; the lowest is first."""
    distance = int(job, 16) ^ int(node, 16)
    return mix(distance) if rank == "even" else distance


def rank_key_text(key: int) -> str:
    """A key as 64 hex digits."""
    return f"{key:064x}"


def mix(value: int) -> int:
    """A fixed bijection on 256 bits whose first word depends on all of them."""
    x0, x1, x2, x3 = words_of(value)
    x2 = (x2 + finalise(x3)) & WORD_MASK
    x1 = (x1 + finalise(x2)) & WORD_MASK
    x0 = (x0 + finalise(x1)) & WORD_MASK
    return finalise(x0) << 192 | x1 << 128 | x2 << 64 | x3


def finalise(word: int) -> int:
    """SplitMix64: one 64-bit word to another, reversibly."""
    z = (word + GAMMA) & WORD_MASK
    z = ((z ^ z >> SHIFTS[0]) * MULTIPLIERS[0]) & WORD_MASK
    z = ((z ^ z >> SHIFTS[1]) * MULTIPLIERS[1]) & WORD_MASK
    return z ^ z >> SHIFTS[2]


def words_of(value: int) -> tuple[int, int, int, int]:
    """A 256-bit number as four words, the most significant first."""
    return (
        value >> 192,
        value >> 128 & WORD_MASK,
        value >> 64 & WORD_MASK,
        value & WORD_MASK,
    )
