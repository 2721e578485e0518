"""scikit-learn's `GridSearchCV` of 200 fits through joblib: on two agents, and by loky.

`python -m benchmarks.joblib` prints JSON. Two agents of one core each, in a network of their own,
against two processes of loky on the same cores, in turn. Each round has two searches: the first
starts the workers of either (cold), the second finds them (warm). Medians; a ratio is taken within
each round.
"""

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable
from typing import Any

from benchmarks.mesh_fleet import Agent, at_once, enter_network, fleet, form
from benchmarks.peers.environment import learning_path
from distributed_grid.client.cluster import connect

CONFIG = """\
pretend: {cpus: 1, memory: 16GiB}
resource_sharing: {thresholds: {cpu_min_cores: 0}}
"""
FITS = 200
WIDTH = 2
GOAL_RATIO = 1.1  # Of the time of loky.


def search(samples: int) -> Callable[[], float]:
    """40 candidates with 5 folds each; what it finds is told, so that both can be compared."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import GridSearchCV
    from sklearn.svm import SVC

    x, y = load_digits(return_X_y=True)
    grid = {"C": [0.01 * 2.5**n for n in range(10)], "gamma": [1e-4, 4e-4, 1e-3, 4e-3]}

    def work() -> float:
        found = GridSearchCV(SVC(), grid, cv=5, n_jobs=WIDTH).fit(x[:samples], y[:samples])
        return float(found.best_score_)

    return work


def twice(work: Callable[[], float], backend: str, **options: Any) -> tuple[float, float, float]:
    """Cold and warm, and what was found."""
    import joblib

    took = []
    with joblib.parallel_config(backend, **options):
        for _ in range(2):
            start = time.perf_counter()
            score = work()
            took.append(time.perf_counter() - start)
    return took[0], took[1], score


def measured(rounds: int, samples: int) -> dict[str, Any]:
    """Both, in turn."""
    from joblib.externals.loky import get_reusable_executor

    import distributed_grid.joblib  # noqa: F401  # Registers the backend.

    work, found = search(samples), []
    with fleet(WIDTH, config=CONFIG) as agents:
        at_once(agents, Agent.up)
        form(agents)
        with connect(agents[0].home / "agent.sock") as cluster:
            for _ in range(rounds):
                loky = twice(work, "loky")
                get_reusable_executor().shutdown()
                grid = twice(work, "grid", cluster=cluster)
                assert grid[2] == loky[2], "they found something else"
                found.append((*loky[:2], *grid[:2]))
    names = ("loky_cold_s", "loky_warm_s", "grid_cold_s", "grid_warm_s")
    return {
        name: round(statistics.median(column), 3)
        for name, column in zip(names, zip(*found, strict=True), strict=True)
    } | {
        "ratio_cold": round(statistics.median(one[2] / one[0] for one in found), 2),
        "ratio_warm": round(statistics.median(one[3] / one[1] for one in found), 2),
        "ratio_best": round(min(one[3] / one[1] for one in found), 2),
    }


def main() -> None:
    """Print what was measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--samples", type=int, default=600)
    arguments = parser.parse_args()
    # Installed before the network is left; and for loky's processes, too.
    os.environ["PYTHONPATH"] = str(learning_path())
    enter_network()
    found = measured(arguments.rounds, arguments.samples)
    print(json.dumps({"benchmark": "joblib", "fits": FITS, **found, "goal": GOAL_RATIO}, indent=2))


if __name__ == "__main__":
    main()
