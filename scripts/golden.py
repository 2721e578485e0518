"""The golden decisions: 200 answers of the placement kernel that may never change by accident.

    python -m scripts.golden            compute them here and now, and print them
    python -m scripts.golden --write    replace tests/golden/placement.json, on purpose

Lives here: how the answers are computed, from the fleet and the jobs beside them. Never here:
comparing them (tests/e2e/test_golden.py).
Invariant: the answers depend on nothing but the two files; a change of them is a change of what
every node of every mesh decides, and belongs into the changelog.
"""

import argparse
import hashlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from distributed_grid.config.fleet import read_fleet
from distributed_grid.config.jobs import read_jobs
from distributed_grid.kernel.placement import Decision, Rules, place
from distributed_grid.kernel.placement.columns import Columns
from distributed_grid.kernel.placement.plain import PlainSnapshot
from distributed_grid.kernel.placement.policies import POLICIES
from distributed_grid.kernel.placement.rank import RANKS

FOLDER = Path(__file__).resolve().parent.parent / "tests" / "golden"
FLEET, JOBS, ANSWERS = (FOLDER / name for name in ("fleet.json", "jobs.json", "placement.json"))
DECISIONS = 200
SNAPSHOTS = {"plain": PlainSnapshot, "columns": Columns}


def decisions(kind: str) -> list[dict[str, Any]]:
    """The 200 decisions, on a plain snapshot or on columns."""
    nodes = read_fleet(str(FLEET))
    jobs, _ = read_jobs(str(JOBS))
    held = SNAPSHOTS[kind](nodes)
    return [
        summary(place(jobs[index % len(jobs)], held, rules))
        for index, rules in zip(range(DECISIONS), endless_rules(), strict=False)
    ]


def endless_rules() -> Iterator[Rules]:
    """Every policy and none, both ranks, fresh and last known, in turn."""
    index = 0
    while True:
        yield Rules(
            policy=(None, *POLICIES)[index % (1 + len(POLICIES))],
            rank=RANKS[index // 2 % len(RANKS)],
            cluster_size=(3, 1, 5)[index % 3],
            last_known=index % 5 == 0,
        )
        index += 1


def summary(decision: Decision) -> dict[str, Any]:
    """What must stay the same, with the long lists as digests."""
    ranked = [[r.id, r.score, r.parts, r.rank_key, r.is_stale] for r in decision.ranked]
    refused = [[r.id, msgspec.to_builtins(r.reasons)] for r in decision.refused]
    policy = decision.rules.policy
    return {
        "job": decision.job.name,
        "policy": policy.name if policy else None,
        "rank": decision.rules.rank,
        "cluster": [node[:8] for node in decision.cluster],
        "score": decision.ranked[0].score if decision.ranked else None,
        "ranked": len(ranked),
        "ranked_sha256": digest(ranked),
        "refused_sha256": digest(refused),
    }


def digest(value: Any) -> str:
    """Enough of a SHA-256 to notice any change."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def main() -> int:
    """Print or write the answers."""
    parser = argparse.ArgumentParser(prog="golden", description="The golden decisions.")
    parser.add_argument("--write", action="store_true", help="replace the golden file, on purpose")
    options = parser.parse_args()
    found = {kind: decisions(kind) for kind in SNAPSHOTS}
    if options.write:
        if found["plain"] != found["columns"]:
            print("plain and columns disagree: nothing was written", file=sys.stderr)
            return 1
        lines = ",\n".join(json.dumps(answer) for answer in found["plain"])
        ANSWERS.write_text(f"[\n{lines}\n]\n", encoding="utf-8")
        return 0
    json.dump(found, sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
