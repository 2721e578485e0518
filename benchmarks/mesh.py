"""The mesh: coming together, noticing deaths, resting, growing; the same deaths under Dask and Ray.

`python -m benchmarks.mesh` prints a table on stderr and JSON on stdout; it needs root, for networks
of its own. Real agents first, then the peers, then simulated meshes. `--part` measures one of them.
`python -m benchmarks.plot FILE` draws docs/plots/mesh.svg from the JSON.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks import mesh_deaths, mesh_echo, mesh_forming, mesh_resting, mesh_simulated
from benchmarks.mesh_fleet import ROOT, enter_network, fleet
from benchmarks.peers.environment import peers_python

PARTS = ("real", "peers", "simulated")
PEERS = ("dask", "ray")
BOUND_S = 120  # Peers that take longer are not waited for.
SHORT = {
    "few": 4, "many": 6, "joins": 1, "kills": 1, "changes": 1, "loss_seconds": 5.0, "echoes": 300,
    "settle_seconds": 1.0, "rest_seconds": 4.0, "sizes": [30, 100], "beyond": 10_000, "hours": 0.02,
}  # fmt: skip


def real(options: argparse.Namespace) -> dict[str, Any]:
    """Agents as they are installed here."""
    found: dict[str, Any] = {"echo_ms": mesh_echo.measured(options.echoes)}
    with fleet(options.few) as agents:
        found["forming_few"] = mesh_forming.forming(agents)
        found["joining_s"] = mesh_forming.joining(agents, options.joins)
        found["latency_ms"] = mesh_resting.latency_ms(agents)
        found["killed"] = mesh_deaths.killing(agents, options.kills)
        found["stopped"] = mesh_deaths.stopping(agents, min(options.kills, 3))
        found["loss"] = mesh_deaths.losing(agents, percent=30, seconds=options.loss_seconds)
    with fleet(options.many) as agents:
        found["forming"] = mesh_forming.forming(agents)
        found["resting"] = mesh_resting.resting(
            agents, settle_s=options.settle_seconds, seconds=options.rest_seconds
        )
        found["telling_s"] = mesh_forming.telling(agents, options.changes)
    return found


def peers() -> dict[str, Any]:
    """The same deaths elsewhere, each in a network and a table of processes of its own."""
    found = {}
    for name in PEERS:
        inside = 'ip link set lo up && exec "$@"'
        argv = ["unshare", "--net", "--pid", "--fork", "--kill-child", "--mount-proc", "--"]
        argv += ["sh", "-c", inside, "sh", str(peers_python())]
        argv += ["-m", f"benchmarks.peers.{name}_deaths", str(BOUND_S)]
        try:
            done = subprocess.run(
                argv, cwd=ROOT, capture_output=True, text=True, timeout=420, check=True
            )
            told = [line for line in done.stdout.splitlines() if line.startswith("{")]
            found[name] = json.loads(told[-1])
        except subprocess.TimeoutExpired:
            found[name] = {"error": "took too long"}
        except subprocess.CalledProcessError as error:
            found[name] = {"error": error.stderr.strip().splitlines()[-1:]}
    return found


def simulated(options: argparse.Namespace) -> dict[str, Any]:
    """Virtual time."""
    kernels = mesh_simulated.kernels(options.sizes, watch_s=5.0)
    return {
        "kernels": kernels,
        "aligned": mesh_simulated.aligned(options.sizes),
        "growth": mesh_simulated.growth(kernels),
        "model": mesh_simulated.beyond(options.beyond, kernels[-1]),
        "loss": mesh_simulated.verdicts(nodes=30, hours=options.hours, loss=0.5),
    }


def rows(found: dict[str, Any]) -> list[tuple[str, Any, str, float | None]]:
    """(what, measured, unit, goal): at most so much is good."""
    lines: list[tuple[str, Any, str, float | None]] = []
    if mine := found.get("real"):
        few, many = mine["killed"]["nodes"], mine["resting"]["nodes"]
        rest = mine["resting"]
        lines += [
            (f"join until seen by all of {few}, p50", mine["joining_s"]["p50"], "s", 2),
            (f"{many} running agents formed", mine["forming"]["formed_s"], "s", 20),
            (f"{many} formed, processes started too", mine["forming"]["together_s"], "s", 20),
            (f"a change seen by {many}, p99", mine["telling_s"]["p99"], "s", 2),
            ("message and its echo, p50", mine["echo_ms"]["p50"], "ms", 2),
            ("round trip in grid nodes, p50", mine["latency_ms"]["p50"], "ms", None),
            ("killed node noticed, p50", mine["killed"]["seconds"]["p50"], "s", 2.8),
            ("killed node noticed, p99", mine["killed"]["seconds"]["p99"], "s", 3),
            ("stopped node noticed, p50", mine["stopped"]["seconds"]["p50"], "s", 2.8),
            ("false verdicts, 30 % real loss", mine["loss"]["false_verdicts"], "", 0),
            (f"agent at rest among {many}", rest["cpu_percent"]["mean"], "% of a core", 2),
            ("... its memory", rest["pss_mb"]["mean"], "MB", 90),
            ("... sent", rest["sent_kb_per_s"], "kB/s", 10),
        ]
    if world := found.get("simulated"):
        for kernel, aligned in zip(world["kernels"], world["aligned"], strict=True):
            goal = 10 if kernel["nodes"] == 100 else None
            name = f"{kernel['nodes']:,} simulated: rounds"
            lines += [
                (f"{name} of news, most", kernel["rounds"]["most"], "", goal),
                (f"{name} from nothing", kernel["rounds_from_nothing"], "", goal),
                ("... linked, all at one moment", aligned["rounds_from_nothing"], "", goal),
                ("... heartbeats", kernel["heartbeat_bytes_per_s"], "bytes/s", None),
                ("... memory of one", _memory_mb(kernel), "MB", None),
            ]
        model = world["model"]
        lines += [
            (f"{model['nodes']:,} modelled: rounds, most", model["rounds"]["most"], "", None),
            ("model differs from kernel", max(model["deviation"].values()), "", model["tolerance"]),
            (
                f"false verdicts, 50 % loss, {world['loss']['hours']} h of 30",
                world["loss"]["false_verdicts"],
                "",
                0,
            ),
        ]
    return lines


def _memory_mb(kernel: dict[str, Any]) -> float:
    held: int = kernel["kernel_bytes"] + kernel["entry_bytes"]
    return round(held / 1e6, 2)


def show(found: dict[str, Any]) -> None:
    """The table, for people."""
    for what, value, unit, goal in rows(found):
        verdict = "" if goal is None else f"  goal {goal:g}: {'met' if value <= goal else 'MISSED'}"
        print(f"{what:44}{value:>9} {unit:11}{verdict}", file=sys.stderr)
    for name, told in found.get("peers", {}).items():
        print(f"{name}: {json.dumps(told)}", file=sys.stderr)


def table(found: dict[str, Any]) -> str:
    """The same as Markdown, for docs/benchmarks.md."""
    lines = ["| what | measured | goal |", "|---|---|---|"]
    for what, value, unit, goal in rows(found):
        missed = "" if goal is None or value <= goal else ", missed"
        wanted = "\N{EN DASH}" if goal is None else f"{goal:g}{missed}"
        lines.append(f"| {what.replace('...', '…')} | {value:,} {unit}".rstrip() + f" | {wanted} |")
    return "\n".join(lines)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--part", choices=PARTS, action="append", help="instead of all")
    parser.add_argument("--table", type=Path, metavar="FILE", help="of the JSON of a run")
    parser.add_argument("--short", action="store_true", help="small sizes, for a quick look")
    parser.add_argument("--few", type=int, default=10)
    parser.add_argument("--many", type=int, default=30)
    parser.add_argument("--joins", type=int, default=5)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--changes", type=int, default=20)
    parser.add_argument("--echoes", type=int, default=3_000)
    parser.add_argument("--loss-seconds", type=float, default=120.0)
    parser.add_argument("--settle-seconds", type=float, default=180.0)
    parser.add_argument("--rest-seconds", type=float, default=60.0)
    parser.add_argument("--sizes", type=int, nargs="+", default=[30, 100, 300, 1_000])
    parser.add_argument("--beyond", type=int, default=10_000)
    parser.add_argument("--hours", type=float, default=20.0)
    options = parser.parse_args()
    if options.table:
        print(table(json.loads(options.table.read_text())))
        return
    if options.short:
        vars(options).update(SHORT)
    parts = options.part or PARTS
    enter_network(with_peers="peers" in parts)
    found: dict[str, Any] = {"benchmark": "mesh"}
    if "real" in parts:
        found["real"] = real(options)
    if "peers" in parts:
        found["peers"] = peers()
    if "simulated" in parts:
        found["simulated"] = simulated(options)
    show(found)
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
