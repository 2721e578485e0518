"""The full compute score: about a second of matrix products on every usable core.

Lives here: a process of its own that multiplies float64 matrices with numpy, and reading what it
says. It shows what numerical code gets. Never here: the short score (`compute`).
Invariant: a child that fails, hangs or lies costs the measurement, nothing else.
"""

import json
import os
import subprocess
import sys
from typing import Final

from distributed_grid.model.hardware_parts import ComputeScore

FULL_NS: Final = 1_000_000_000
FULL_DEADLINE_S: Final = 15  # Importing numpy from a cold disk on a slow board takes some seconds.
MEGA_FLOPS_MAX: Final = 1 << 50  # An exaflop; no machine that is one node does more.
_FULL_METHOD: Final = "numpy float64 matrix product"

# numpy may be used only under kernel.placement, and would cost every probe its start: so a child.
_CHILD: Final = """
import json, sys, time
import numpy
size, span = 768, int(sys.argv[1])
left = numpy.random.default_rng(1).random((size, size))
right, into = left.T.copy(), numpy.empty((size, size))
numpy.matmul(left, right, out=into)
rounds, start = 0, time.perf_counter_ns()
while (spent := time.perf_counter_ns() - start) < span:
    numpy.matmul(left, right, out=into)
    rounds += 1
print(json.dumps({"operations": 2 * size**3 * rounds, "nanoseconds": spent}))
"""


def full_score(
    *,
    cores: int,
    absent: dict[str, str],
    python: str = sys.executable,
    span_ns: int = FULL_NS,
    deadline_s: int = FULL_DEADLINE_S,
) -> ComputeScore | None:
    """Matrix products on all cores; None, with the reason noted, if the child process fails."""
    threads = dict.fromkeys(
        ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"),
        str(cores),
    )
    try:
        done = subprocess.run(  # noqa: S603  (our own interpreter and our own text)
            [python, "-I", "-c", _CHILD, str(span_ns)],
            env={**os.environ, **threads},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=deadline_s,
            check=True,
        )
        told = json.loads(done.stdout)
        operations, spent_ns = int(told["operations"]), int(told["nanoseconds"])
        mega_flops = operations * 1_000 // spent_ns
    except (
        OSError,
        ValueError,
        KeyError,
        TypeError,
        ZeroDivisionError,
        subprocess.SubprocessError,
    ) as error:
        absent["compute.full"] = f"the measuring process failed ({_in_a_line(error)})"
        return None
    if not 0 < mega_flops <= MEGA_FLOPS_MAX:
        absent["compute.full"] = "the measuring process told nonsense"
        return None
    return ComputeScore(
        mega_flops=mega_flops,
        method=_FULL_METHOD,
        cores=cores,
        milliseconds=spent_ns // 1_000_000,
    )


def _in_a_line(error: Exception) -> str:
    match error:
        case subprocess.TimeoutExpired():
            return f"no answer within {error.timeout:g} s"
        case subprocess.CalledProcessError():
            last = (error.stderr or b"").decode(errors="replace").strip().splitlines()[-1:]
            return (
                f"exit code {error.returncode}: {last[0][:120]}"
                if last
                else f"exit code {error.returncode}"
            )
        case OSError():
            return error.strerror or type(error).__name__
        case _:
            return f"its answer is not understood: {type(error).__name__}"
