"""The short compute score: a few milliseconds on one core.

Lives here: multiplying a list of floats (`math.prod`). That is a lower bound for scalar code,
good for telling a Raspberry Pi from a server, blind to vector units and further cores.
Never here: the long measurement (`compute_full`), comparing machines (`kernel.placement`).
"""

import math
import time
from typing import Final

from distributed_grid.model.hardware_parts import ComputeScore

SHORT_NS: Final = 4_000_000  # Long enough to be past the clock's grain, short beside the 100 ms.
_SHORT_METHOD: Final = "math.prod over floats, scalar lower bound"

# The product of all stays near 1: numbers that die out into denormals would be slow ones.
_FACTORS: Final = [1.0000001, 0.9999999] * 2_500


def short_score(*, span_ns: int = SHORT_NS) -> ComputeScore:
    """The best of many short rounds on one core, within `span_ns`."""
    math.prod(_FACTORS)  # The first round warms the caches.
    start = now = time.perf_counter_ns()
    best_ns = span_ns
    while now - start < span_ns:
        math.prod(_FACTORS)
        after = time.perf_counter_ns()
        # The fastest round is the one that nothing else disturbed.
        best_ns, now = min(best_ns, after - now), after
    mega_flops = len(_FACTORS) * 1_000 // max(best_ns, 1)
    return ComputeScore(
        mega_flops=max(mega_flops, 1),
        method=_SHORT_METHOD,
        cores=1,
        milliseconds=max((now - start) // 1_000_000, 1),
    )
