"""Whatever members of four roles say on the job lane: nothing raises, honest jobs end.

Each world has its seed: `python -m tests.words --seed N --seeds 1` shows it again, and prints the
shortest list of words that breaks it.
"""

from collections import deque

import pytest

from tests.words.stage import HONEST, ROLES
from tests.words.talking import Talk, broken

WORLDS, MESSAGES = 100, 400
FLOOD = 6_000
ROWS_MAX = 2_000  # Of any table; most are bounded far below.


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(WORLDS))
def test_no_words_of_members_break_a_kernel_and_honest_jobs_end(seed):
    assert not broken(seed, MESSAGES)


def tables(thing, seen: set[int], place: str = ""):
    """Every table that a kernel holds, with its length, and by where it is."""
    if id(thing) in seen:
        return
    seen.add(id(thing))
    if isinstance(thing, dict | list | set | deque):
        yield place, len(thing)
        for one in [*(thing.values() if isinstance(thing, dict) else thing)]:
            yield from tables(one, seen, f"{place}[]")
    elif type(thing).__module__.startswith("distributed_grid.kernel") and hasattr(
        thing, "__dict__"
    ):
        for name, value in vars(thing).items():
            yield from tables(value, seen, f"{place}.{name}")


@pytest.mark.slow
@pytest.mark.parametrize("role", range(len(ROLES)))
def test_a_member_that_never_stops_fills_no_table(role):
    """New ids with every word, for longer than anything is kept that nobody asks for again."""
    talk = Talk(role)
    talk._learn()

    for number in range(FLOOD // 8):
        talk.drawer.known["job"] = deque(f"{talk.rng.getrandbits(256):064x}" for _ in range(4))
        for tag in talk.heard:
            for raw in talk.heard[tag]:
                if "job" in raw:
                    raw["job"] = talk.drawer.known["job"][number % 4]
        bodies = [talk._message() for _ in range(8)]
        talk.play(("say", 0, number % HONEST, *bodies))
        talk._learn()
        if number % 25 == 0:
            talk.play(("pass", 500))

    for node in talk.stage.nodes:
        full = {
            place: rows for place, rows in tables(node.node, set(), node.name) if rows > ROWS_MAX
        }
        assert full == {}
