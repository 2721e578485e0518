"""How long it takes to say who is next of ten thousand who wait, and what a change costs.

`python -m benchmarks.order` prints a table on stderr and JSON on stdout. From scratch means with
accounts that the line has not seen yet; an event is a change of the line or of the accounts, and
the order after it. The peer sorts all entries by the key from the text, in the same process,
interleaved. Times are of the processor: nothing here waits, and what else the machine does is not
the question.
"""

import argparse
import json
import random
import sys
from collections import deque
from collections.abc import Callable
from functools import partial
from itertools import cycle
from statistics import median
from time import thread_time_ns
from typing import Any

from distributed_grid.kernel.entry import AGEING_MS, Entry
from distributed_grid.kernel.fairness import Accounts
from distributed_grid.kernel.waiting import WaitingLine
from distributed_grid.model.ids import JobId
from distributed_grid.model.priority import MEDIUM, Weights
from distributed_grid.model.resources import Request, Resources

TOTAL = Resources(cpu_milli=128_000, memory_bytes=512 << 30)
NOW_MS = 1_800_000_000_000
USERS = 100
SCRATCH_GOAL_MS = 5.0
EVENT_GOAL_MS = 0.1
WEIGHTS = Weights(users={f"user-{number}": 2_000 for number in range(0, USERS, 10)})


def entries(count: int, dice: random.Random, *, age_ms_max: int = 2 * AGEING_MS) -> list[Entry]:
    """Of many users, a third of them borrowers, in two projects, four classes and five shapes."""
    return [an_entry(dice, dice.randrange(age_ms_max)) for _ in range(count)]


def an_entry(dice: random.Random, age_ms: int) -> Entry:
    """Anybody."""
    user = dice.randrange(USERS)
    cpu_milli = 1_000 * dice.choice((1, 2, 4, 8, 16))
    return Entry(
        submitted_ms=NOW_MS - age_ms,
        job=JobId(f"{dice.getrandbits(256):064x}"),
        rank=dice.choices((0, 1, 2, 3), (1, 2, 6, 2))[0],
        is_shared=user % 3 == 0,
        user=f"user-{user}",
        project=dice.choice(("", "vision")),
        request=Request(cpu_milli=cpu_milli, memory_bytes=1 << 30),
    )


def used(line: list[Entry], running: list[Entry]) -> Accounts:
    """Accounts in which everybody waits and some run."""
    accounts = Accounts(TOTAL, WEIGHTS)
    for entry in line:
        accounts.joined(entry.user, entry.project)
    for number, entry in enumerate(running):
        began_ms = NOW_MS - 1_000 * number
        accounts.begin(entry.job, entry.user, entry.project, entry.request, began_ms)
    accounts.tick(NOW_MS)
    return accounts


def took_ms(call: Callable[[], object]) -> float:
    """How long one call takes."""
    start = thread_time_ns()
    call()
    return (thread_time_ns() - start) / 1e6


def figures(samples_ms: list[float]) -> dict[str, float]:
    """The middle and the slow end."""
    ordered = sorted(samples_ms)
    p99 = ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)]
    return {"p50_ms": round(median(ordered), 4), "p99_ms": round(p99, 4)}


def plain(waiting: list[Entry], line: WaitingLine, accounts: Accounts) -> list[Entry]:
    """The same order without the forecast, as one would write it down."""

    def key(entry: Entry) -> tuple[object, ...]:
        rank = line.lifted(entry, NOW_MS)
        use = (0, 0)
        if rank == MEDIUM:
            use = (
                accounts.user_use(entry.user),
                accounts.project_use(entry.user, entry.project),
            )
        return (entry.is_shared, rank, use, entry.submitted_ms, entry.job)

    return sorted(waiting, key=key)


def from_scratch(waiting: list[Entry], running: list[Entry], repeats: int) -> dict[str, Any]:
    """Everything anew, with accounts that were not seen before."""
    line = WaitingLine()
    for entry in waiting:
        line.add(entry)
    line.tops(NOW_MS, Accounts(TOTAL, WEIGHTS))  # The alarms of all those who waited long.
    samples: dict[str, list[float]] = {"tops": [], "order": [], "plain_sort": []}
    unseen = [used(waiting, running) for _ in range(repeats)]
    for accounts in unseen:
        samples["tops"].append(took_ms(partial(line.tops, NOW_MS, accounts)))
        samples["order"].append(took_ms(partial(line.order, NOW_MS, accounts)))
        samples["plain_sort"].append(took_ms(partial(plain, waiting, line, accounts)))
    groups = len(line.tops(NOW_MS, unseen[0]))
    return {"groups": groups, **{name: figures(found) for name, found in samples.items()}}


class World:
    """A line, its accounts, and what happens to them."""

    def __init__(self, waiting: list[Entry], running: list[Entry]) -> None:
        self.line, self.accounts = WaitingLine(), used(waiting, running)
        for entry in waiting:
            self.line.add(entry)
        self.running = deque(running)
        self.heads = self.line.tops(NOW_MS, self.accounts)
        self.now_ms = NOW_MS

    def look(self) -> None:
        """Who is next of each group?"""
        self.heads = self.line.tops(self.now_ms, self.accounts)

    def arrives(self, new: Entry) -> None:
        """Somebody else waits."""
        self.line.add(new)
        self.accounts.joined(new.user, new.project)
        self.look()

    def starts(self, _: Entry) -> None:
        """The first has its turn."""
        first = self.heads[0]
        self.line.remove(first.job)
        self.accounts.begin(first.job, first.user, first.project, first.request, self.now_ms)
        self.accounts.left(first.user, first.project)
        self.running.append(first)
        self.look()

    def ends(self, _: Entry) -> None:
        """The oldest that runs is over."""
        self.accounts.end(self.running.popleft().job, self.now_ms)
        self.look()

    def cancelled(self, _: Entry) -> None:
        """Somebody in the middle goes away."""
        gone = self.heads[len(self.heads) // 2]
        self.line.remove(gone.job)
        self.accounts.left(gone.user, gone.project)
        self.look()


def events(
    waiting: list[Entry], running: list[Entry], newcomers: list[Entry]
) -> dict[str, dict[str, float]]:
    """One change and the order after it; the line stays about as long as it is."""
    world = World(waiting, running)
    kinds = (world.arrives, world.starts, world.arrives, world.ends, world.arrives, world.cancelled)
    samples: dict[str, list[float]] = {}
    for new, kind in zip(newcomers, cycle(kinds), strict=False):
        world.now_ms += 100
        samples.setdefault(kind.__name__, []).append(took_ms(partial(kind, new)))
        first_of_each = partial(world.line.first_of_each, world.now_ms, world.accounts)
        samples.setdefault("first_of_each", []).append(took_ms(first_of_each))
    world.line.check()
    world.accounts.check()
    return {kind: figures(found) for kind, found in samples.items()}


def measure(count: int, repeats: int, changes: int) -> dict[str, Any]:
    """Everything, as one document."""
    dice = random.Random(count)
    waiting, running = entries(count, dice), entries(200, dice)
    scratch = from_scratch(waiting, running, repeats)
    changed = events(waiting, running, entries(changes, dice, age_ms_max=1_000))
    return {
        "benchmark": "order",
        "waiting": count,
        "users": USERS,
        "from_scratch": scratch,
        "event": changed,
        "goals": {
            "from_scratch_ms": SCRATCH_GOAL_MS,
            "event_ms": EVENT_GOAL_MS,
            "from_scratch_met": max(scratch[what]["p50_ms"] for what in ("tops", "order"))
            <= SCRATCH_GOAL_MS,
            "event_met": max(found["p50_ms"] for found in changed.values()) <= EVENT_GOAL_MS,
        },
    }


def show(found: dict[str, Any]) -> None:
    """The table, for people."""
    rows = [(f"from scratch: {k}", v) for k, v in found["from_scratch"].items() if k != "groups"]
    rows += [(f"event: {kind}", figure) for kind, figure in found["event"].items()]
    print(
        f"{found['waiting']:,} wait in {found['from_scratch']['groups']:,} groups", file=sys.stderr
    )
    for name, figure in rows:
        print(f"{name:28}{figure['p50_ms']:>9.3f} ms /{figure['p99_ms']:>9.3f}", file=sys.stderr)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--waiting", type=int, default=10_000)
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--changes", type=int, default=2_000)
    options = parser.parse_args()
    found = measure(options.waiting, options.repeats, options.changes)
    show(found)
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
