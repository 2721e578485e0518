"""Who gets how much of a machine over a simulated day.

`python -m benchmarks.fairness` runs two days of the real kernel in virtual time and prints JSON;
it writes docs/plots/fairness.svg. On the first day four equal users always have work waiting; on
the second their weights are 4, 2, 1 and 1, and they come and go. Jain's index is 1 when everybody
gets the same over the weight, and 1/n when one gets everything.
"""

import argparse
import json
import random
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from benchmarks.plot import Lines, Series, lines_svg
from distributed_grid.kernel.entry import AGEING_MS
from distributed_grid.kernel.inventory import Inventory
from distributed_grid.kernel.node import Node, NodeEvent
from distributed_grid.kernel.ready import Ready
from distributed_grid.model.bytesize import GIB
from distributed_grid.model.ids import JobId
from distributed_grid.model.job import JobSpec, Work
from distributed_grid.model.lending import Terms
from distributed_grid.model.priority import Weights
from distributed_grid.model.resources import Request
from distributed_grid.sim.arrivals import Arrival, Life
from distributed_grid.sim.moods import USERS, Mood
from distributed_grid.sim.world import START_MS, Checker, World

ROOT = Path(__file__).parents[1]
GOAL = 0.95
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
CORES = 16
WAITING = 6  # Of each user, at any time; so nobody waits for as long as ageing takes.
SHORTEST_MS, LONGEST_MS = 180_000, 720_000
WINDOW_MS = 2 * HOUR_MS  # Ten of the longest jobs.
STEP_MS = HOUR_MS // 4  # Of the picture.
Hours = dict[str, tuple[tuple[int, int], ...]]
ALWAYS: Hours = dict.fromkeys(USERS, ((0, 24),))
# Hours of the day in which each has work.
SHIFTS: Hours = {
    "ada": ((0, 24),),
    "ben": ((0, 15),),
    "cleo": ((6, 24),),
    "dina": ((9, 12), (18, 24)),
}
WEIGHTS = {"ada": 4_000, "ben": 2_000, "cleo": 1_000, "dina": 1_000}


class Clients(Checker):
    """Users who replace each job that starts by a new one, while they are there."""

    def __init__(self, seed: int, hours: Hours) -> None:
        self._rng = random.Random(f"{seed}/clients")
        self._hours = hours
        self._made = 0
        self._since_ms = START_MS
        self.used: dict[str, Counter[int]] = {user: Counter() for user in USERS}  # By step.

    def is_there(self, user: str, at_ms: int) -> bool:
        """Whether a user has work at a moment of the day."""
        return any(a * HOUR_MS <= at_ms - START_MS < b * HOUR_MS for a, b in self._hours[user])

    def stepped(self, world: World, node: Node, _event: NodeEvent, _ready: Ready) -> None:
        """Note who held what since the last step, and keep everybody's heap as it was."""
        past_ms, self._since_ms = world.now_ms - self._since_ms, world.now_ms
        step = (world.now_ms - START_MS) // STEP_MS
        for lease in node.ledger.leases.values():
            self.used[world.spec(lease.job).user][step] += past_ms
        waiting = Counter(world.spec(job).user for job in node.host.line)
        for user in USERS:
            if waiting[user] < WAITING and self.is_there(user, world.now_ms) and not world.is_calm:
                arrival = self._arrival(user, world.now_ms)
                world.arrivals[arrival.spec.id] = arrival
                world.at(world.now_ms + 1, lambda one=arrival: world.submit(one))  # type: ignore[misc]

    def _arrival(self, user: str, now_ms: int) -> Arrival:
        self._made += 1
        spec = JobSpec(
            id=JobId(f"{self._rng.getrandbits(256):064x}"),
            name=f"{user}-{self._made}",
            request=Request(cpu_milli=1_000, memory_bytes=GIB),
            work=Work(argv=("work",), cwd="/"),
            user=user,
        )
        takes_ms = self._rng.randint(SHORTEST_MS, LONGEST_MS)
        return Arrival(at_ms=now_ms, spec=spec, life=Life(takes_ms=takes_ms))


def a_day(seed: int, weights: Weights, hours: Hours) -> Clients:
    """Run it."""
    mood = Mood(
        seed=seed,
        machine=Inventory(
            cores=tuple((core, 0) for core in range(CORES)),
            cpu_milli=CORES * 1_000,
            memory_bytes=64 * GIB,
        ),
        terms=Terms(),
        weights=weights,
        ageing_ms=AGEING_MS,
        span_ms=DAY_MS,
        jobs=0,
    )
    clients = Clients(seed, hours)
    World(mood, [clients]).run()
    return clients


def jain(parts: Iterable[float]) -> float:
    """1: all alike; one part in n: one has everything."""
    found = list(parts)
    squares = sum(part * part for part in found)
    return sum(found) ** 2 / (len(found) * squares) if squares else 1.0


def indices(clients: Clients, weights: Weights) -> list[float]:
    """Jain's index of each window, among those who were there for all of it."""
    found = []
    for begin_ms in range(0, DAY_MS, WINDOW_MS):
        steps = range(begin_ms // STEP_MS, (begin_ms + WINDOW_MS) // STEP_MS)
        users = [
            user
            for user in USERS
            if all(clients.is_there(user, START_MS + step * STEP_MS) for step in steps)
        ]
        parts = [sum(clients.used[u][step] for step in steps) / weights.user(u) for u in users]
        found.append(round(jain(parts), 4))
    return found


def picture(clients: Clients) -> str:
    """Shares over the day."""
    whole = CORES * STEP_MS / 100
    series = [
        Series(
            f"{user}, weight {WEIGHTS[user] // 1_000}",
            [
                ((step + 0.5) * STEP_MS / HOUR_MS, clients.used[user][step] / whole)
                for step in range(DAY_MS // STEP_MS)
            ],
        )
        for user in USERS
    ]
    return lines_svg(
        Lines("Four users share a machine for a day", "hour", "percent of the machine", series)
    )


def main() -> None:
    """Two days, the JSON, the picture."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "plots" / "fairness.svg")
    options = parser.parse_args()
    equal = indices(a_day(options.seed, Weights(), ALWAYS), Weights())
    weights = Weights(users=WEIGHTS)
    weighted = a_day(options.seed, weights, SHIFTS)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(picture(weighted))
    found = indices(weighted, weights)
    report = {
        "window_hours": WINDOW_MS // HOUR_MS,
        "goal": GOAL,
        "equal": {"jain_min": min(equal), "jain": equal},
        "weighted": {"jain_min": min(found), "jain": found},
    }
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
