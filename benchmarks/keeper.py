"""How fast the keeper runs short jobs, against a bare loop of `posix_spawn` at the same width.

`python -m benchmarks.keeper` prints JSON. The bare loop keeps two processes alive, each pinned to a
core, and reaps them; nothing else. The keeper gets two chunks through its socket, one for each
slot, with everything a job gets: limits, output files, a scratch directory, usage, journal.
Interleaved pairs.
"""

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import msgspec

from distributed_grid.model.ids import job_id_of
from distributed_grid.wire.frames import Unframer, framed
from distributed_grid.wire.keeper import Acknowledge, Ended, FromKeeper, Quit, Run, Slot

WIDTH = 2
GOAL = 0.75
PROGRAM = "/bin/true"


def bare(jobs: int) -> float:
    """Jobs a second of a loop that only spawns and reaps."""
    cores = sorted(os.sched_getaffinity(0))
    running: dict[int, int] = {}
    left = jobs
    started = time.perf_counter()
    free = list(range(WIDTH))
    while left or running:
        while left and free:
            slot = free.pop()
            os.sched_setaffinity(0, {cores[slot % len(cores)]})
            running[os.posix_spawn(PROGRAM, [PROGRAM], {"PATH": "/bin"}, setsid=True)] = slot
            left -= 1
        free.append(running.pop(os.wait4(-1, 0)[0]))
    took = time.perf_counter() - started
    os.sched_setaffinity(0, cores)
    return jobs / took


def kept(jobs: int, directory: Path) -> float:
    """Jobs a second of a keeper, whose agent is this process: the line is handed over."""
    path = str(directory / "agent.sock")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(1)
        forward = [sys.executable, "-m", "benchmarks.keeper", "--hand-over", path]
        command = [sys.executable, "-m", "distributed_grid.edges.runner.keeper"]
        command += ["--data-dir", str(directory), "--", *forward]
        with subprocess.Popen(command) as keeper:
            connection, _ = listener.accept()
            _, (descriptor, *_), _, _ = socket.recv_fds(connection, 1, 1)
            with socket.socket(fileno=descriptor) as line, connection:
                took = run_chunks(line, jobs // WIDTH, directory)
            keeper.wait(timeout=30)
    return jobs / took


def run_chunks(line: socket.socket, each: int, directory: Path) -> float:
    """Seconds from the first byte sent to the last report read."""
    cores = sorted(os.sched_getaffinity(0))
    decode = msgspec.msgpack.Decoder(FromKeeper).decode
    unframer, ended, last = Unframer(), 0, 0
    started = time.perf_counter()
    for number in range(WIDTH):
        run = Run(
            attempt=f"attempt-{number}",
            job=job_id_of("benchmark"),
            argv=(PROGRAM,),
            env={"PATH": "/bin"},
            cwd="/",
            output_dir=str(directory / f"output-{number}"),
            scratch_dir=str(directory / f"scratch-{number}"),
            indices=tuple(range(each)),
            slot=Slot(cores=(cores[number % len(cores)],)),
        )
        line.sendall(framed(msgspec.msgpack.encode(run)))
    while ended < each * WIDTH:
        for body in unframer.feed(line.recv(1 << 18)):
            message = decode(body)
            if isinstance(message, Ended):
                assert message.code == 0, message
                ended, last = ended + 1, message.number
    took = time.perf_counter() - started
    line.sendall(framed(msgspec.msgpack.encode(Acknowledge(upto=last))))
    line.sendall(framed(msgspec.msgpack.encode(Quit())))
    return took


def hand_over(path: str) -> None:
    """As the keeper's agent: pass our end of the line to the benchmark, and wait for its end."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        socket.send_fds(connection, [b"x"], [int(os.environ["GRID_KEEPER_FD"])])
        connection.recv(1)


def main() -> None:
    """Print what was measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=2_000)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--hand-over", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.hand_over:
        hand_over(arguments.hand_over)
        return
    pairs = []
    for _ in range(arguments.pairs):
        with tempfile.TemporaryDirectory() as directory:
            pairs.append((bare(arguments.jobs), kept(arguments.jobs, Path(directory))))
    ratio = statistics.median(kept_rate / bare_rate for bare_rate, kept_rate in pairs)
    result = {
        "jobs": arguments.jobs,
        "width": WIDTH,
        "bare_jobs_per_s": round(statistics.median(pair[0] for pair in pairs)),
        "keeper_jobs_per_s": round(statistics.median(pair[1] for pair in pairs)),
        "ratio": round(ratio, 3),
        "goal": GOAL,
        "pairs": [[round(rate) for rate in pair] for pair in pairs],
    }
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
