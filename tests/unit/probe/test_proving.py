"""Does this machine do the work of a challenge as the challengers do it?"""

import random
import subprocess
import sys
import threading
import time

import msgspec

from distributed_grid.edges.probe import proving
from distributed_grid.edges.probe.proving import Prover, named_devices
from distributed_grid.kernel.mesh.proving import MEMORY_BYTES_MAX, judge_proof, make_challenge

SEED = b"0123456789abcdef"
CHALLENGE = make_challenge(3, SEED, cores=2, memory_bytes=1 << 20)


def judged(challenge, proof, wall_us, **what_matters):
    # Whatever else runs here during a test excuses slowness: all cores are said to be busy.
    return judge_proof(
        challenge,
        proof,
        sent_us=0,
        received_us=wall_us,
        chance=random.Random(1).randrange,
        busy_milli=challenge.cores * 1_000,
        **what_matters,
    )


def test_a_real_answer_is_right_and_never_fails_because_the_machine_is_busy():
    start_ns = time.perf_counter_ns()
    proof = Prover(lambda: (("GPU-1", 5),))(CHALLENGE)
    wall_us = (time.perf_counter_ns() - start_ns) // 1_000

    assert judged(CHALLENGE, proof, wall_us, gpus=[("GPU-1", 5)]).state in {"verified", "claimed"}
    assert all(elapsed_us > 0 for elapsed_us in proof.elapsed_us)


def test_many_more_cores_than_there_are_still_get_right_answers_one_after_the_other():
    challenge = make_challenge(3, SEED, cores=16, memory_bytes=0)
    proof = Prover(tuple)(challenge)
    in_turn, at_once = (
        judged(challenge, msgspec.structs.replace(proof, worked_us=worked_us), 9_000_000)
        for worked_us in (sum(proof.elapsed_us), max(proof.elapsed_us))
    )

    assert in_turn.why == "16 cores are claimed, 1.0 worked at once; it is busy"
    assert at_once.state == "verified"


def test_time_counts_only_while_a_core_works():
    """So that threads that wait for each other's core do not pass for cores."""
    challenge = make_challenge(3, SEED, cores=32, memory_bytes=0)
    start_ns = time.process_time_ns()
    proof = Prover(tuple)(challenge)
    used_us = (time.process_time_ns() - start_ns) // 1_000

    assert sum(proof.elapsed_us) <= used_us


def test_how_long_the_cores_took_together_is_told_and_what_others_had_meanwhile():
    challenge = make_challenge(3, SEED, cores=2, memory_bytes=0, took_us=0)
    start_ns = time.perf_counter_ns()
    with subprocess.Popen([sys.executable, "-c", "print(flush=True)\nwhile True: pass"],
                          stdout=subprocess.PIPE) as busy:  # fmt: skip
        busy.stdout.readline()
        proof = Prover(tuple)(challenge)
        busy.kill()
    wall_us = (time.perf_counter_ns() - start_ns) // 1_000

    assert max(proof.elapsed_us) <= proof.worked_us <= wall_us
    assert proof.others_us >= 10_000  # One step of the kernel's clock; it is 45 ms of work.


def test_an_unfair_challenge_is_not_worked_on():
    asked = []
    prover = Prover(lambda: asked.append(1) or ())

    assert prover(msgspec.structs.replace(CHALLENGE, rounds=2**40)) is None
    assert asked == []


def test_drivers_are_slow_and_not_asked_for_every_challenge():
    asked = []
    prover = Prover(lambda: asked.append(1) or (("GPU-1", 5),))
    first, second = prover(CHALLENGE), prover(CHALLENGE)

    assert first.devices == second.devices == (("GPU-1", 5),)
    assert len(asked) == 1


def test_drivers_are_asked_again_after_a_while(monkeypatch):
    asked = []
    prover = Prover(lambda: asked.append(1) or ())
    prover(CHALLENGE)
    monkeypatch.setattr(proving, "DEVICES_S", -1)
    prover(CHALLENGE)

    assert len(asked) == 2


def test_a_machine_without_the_memory_fails_and_does_not_crash(monkeypatch):
    monkeypatch.setattr(proving, "bytearray", _no_memory, raising=False)
    proof = Prover(tuple)(CHALLENGE)

    assert proof.memory_digest == b""
    assert judged(CHALLENGE, proof, 10**6).state == "failed"


def _no_memory(_):
    raise MemoryError


def test_no_thread_stays_behind():
    before = threading.active_count()
    Prover(tuple)(make_challenge(3, SEED, cores=8, memory_bytes=MEMORY_BYTES_MAX))

    assert threading.active_count() == before


def test_the_devices_are_those_of_the_drivers():
    assert all(isinstance(name, str) and size >= 0 for name, size in named_devices())
