"""Is a claim verified by work alone, and a false one caught?"""

import random

import msgspec
import pytest

from distributed_grid.kernel.mesh import proving
from distributed_grid.kernel.mesh.proving import (
    MEMORY_BYTES_MAX,
    ROUNDS,
    ROUNDS_MAX,
    Verdict,
    best,
    challengers,
    combined,
    is_fair,
    judge_proof,
    make_challenge,
)
from distributed_grid.wire.mesh import MESSAGE_BYTES_MAX, Proof, encode
from tests.builders import an_id

SEED = b"0123456789abcdef"
MATERIAL = proving.round_material(SEED)
CORES = 4
CHALLENGE = make_challenge(7, SEED, cores=CORES, memory_bytes=1 << 20)
GPU = ("GPU-5f0c", 24 << 30)
PROOF = Proof(
    number=7,
    digests=tuple(
        b"".join(proving.round_digest(SEED, core, each, MATERIAL) for each in range(ROUNDS))
        for core in range(CORES)
    ),
    elapsed_us=(10_000,) * CORES,
    memory_digest=proving.memory_digest(SEED, 1 << 20),
    memory_us=1_000,
    devices=(GPU,),
)


def judged(wall_us=12_000, **what_matters):
    """An answer of 10 ms on each of four cores, unless told otherwise."""
    proof = msgspec.structs.replace(
        PROOF, **{k: what_matters.pop(k) for k in Proof.__struct_fields__ if k in what_matters}
    )
    arguments = {"sent_us": 5, "received_us": 5 + wall_us, "chance": random.Random(1).randrange}
    return judge_proof(CHALLENGE, proof, **(arguments | what_matters))


def test_who_does_the_work_on_all_cores_at_once_is_verified():
    assert judged() == Verdict(state="verified")
    assert judged(gpus=[GPU]) == Verdict(state="verified")


@pytest.mark.rows("S2-142")
def test_one_core_that_does_the_work_of_four_is_caught():
    verdict = judged(wall_us=41_000)

    assert (verdict.state, verdict.is_final) == ("failed", False)
    assert verdict.why == "4 cores are claimed, 1.0 worked at once"


@pytest.mark.parametrize(
    ("wall_us", "trip_us", "busy_milli", "state"),
    [
        (21_000, 0, 0, "verified"),
        (21_100, 0, 0, "failed"),
        (121_000, 100_000, 0, "verified"),
        (121_100, 100_000, 0, "failed"),
        (41_000, 0, 2_000, "claimed"),
        (41_100, 0, 2_000, "failed"),
        (900_000, 0, 4_000, "claimed"),
        (21_000, 0, 4_000, "verified"),
        (900_000, 0, 9_000, "claimed"),
        (12_000, 500_000, 0, "verified"),
    ],
)
def test_the_way_is_allowed_for_and_being_busy_excuses_but_verifies_nothing(
    wall_us, trip_us, busy_milli, state
):
    assert judged(wall_us=wall_us, trip_us=trip_us, busy_milli=busy_milli).state == state


@pytest.mark.parametrize(
    ("worked_us", "others_us", "state"),
    [
        (20_000, 0, "verified"),  # However late the answer came: two agents were busy, not these.
        (20_020, 0, "failed"),
        (40_000, 80_000, "claimed"),  # Two of four cores were others'; half of the rest worked.
        (40_000, 79_000, "failed"),
        (40_000, 10**12, "claimed"),
        (900_001, 0, "failed"),  # Longer than it was waited for.
        (-1, 0, "failed"),
    ],
)
def test_what_the_cores_took_counts_and_what_others_had_meanwhile_excuses(
    worked_us, others_us, state
):
    assert judged(wall_us=900_000, worked_us=worked_us, others_us=others_us).state == state


def test_a_quick_machine_is_asked_for_more_the_next_time():
    def rounds(cores: int, took_us: int | None) -> int:
        made = make_challenge(1, SEED, cores=cores, memory_bytes=0, took_us=took_us)
        assert is_fair(made)
        return made.rounds

    assert rounds(4, None) == ROUNDS
    assert rounds(4, proving.QUICK_US) == rounds(4, 0) == ROUNDS_MAX
    assert rounds(4, proving.QUICK_US + 1) == ROUNDS
    assert ROUNDS < rounds(proving.CORES_MAX, 1) < ROUNDS_MAX


def test_a_slow_core_may_take_as_much_longer_as_it_has_more_to_do():
    many = msgspec.structs.replace(CHALLENGE, rounds=2 * ROUNDS)
    proof = msgspec.structs.replace(
        PROOF,
        digests=tuple(
            b"".join(proving.round_digest(SEED, core, each, MATERIAL) for each in range(2 * ROUNDS))
            for core in range(CORES)
        ),
        elapsed_us=(7_000_000,) * CORES,
    )
    arguments = {"sent_us": 0, "received_us": 7_500_000, "chance": random.Random(1).randrange}

    assert judge_proof(many, proof, **arguments).state == "verified"
    assert judged(wall_us=7_500_000, elapsed_us=(7_000_000,) * CORES).state == "failed"


def test_one_core_has_nothing_to_do_at_once():
    challenge = make_challenge(7, SEED, cores=1, memory_bytes=1 << 20)
    proof = msgspec.structs.replace(PROOF, digests=PROOF.digests[:1], elapsed_us=(10_000,))
    verdict = judge_proof(
        challenge, proof, sent_us=0, received_us=900_000, chance=random.Random(1).randrange
    )

    assert verdict.state == "verified"


@pytest.mark.parametrize(
    "change",
    [
        {"number": 8},
        {"digests": PROOF.digests[:-1]},
        {"elapsed_us": PROOF.elapsed_us[:-1]},
        {"digests": PROOF.digests[:-1], "elapsed_us": PROOF.elapsed_us[:-1]},
        {"digests": (*PROOF.digests[:-1], PROOF.digests[-1][:-1])},
        {"digests": (), "elapsed_us": ()},
    ],
)
def test_an_answer_to_another_question_fails(change):
    assert judged(**change).why == "the answer does not fit the question"


@pytest.mark.parametrize(
    "elapsed_us",
    [(0, 1, 1, 1), (-5, 1, 1, 1), (12_001, 1, 1, 1), (10**9, 10**9, 10**9, 10**9)],
)
def test_times_that_cannot_be_fail(elapsed_us):
    assert judged(elapsed_us=elapsed_us).why == "it tells times that cannot be"


def test_a_core_slower_than_any_is_none():
    verdict = judged(wall_us=5_000_000, elapsed_us=(4_900_000,) * 4)

    assert (verdict.state, verdict.is_final) == ("failed", False)
    assert "slower" in verdict.why


def test_an_answer_that_comes_too_late_says_nothing():
    assert judged(wall_us=10_000_001) == Verdict(
        state="claimed", why="the answer came too late", is_final=False
    )


@pytest.mark.rows("S2-142")
def test_work_that_was_left_out_is_caught():
    lazy = (PROOF.digests[0], *(bytes(32 * ROUNDS) for _ in range(CORES - 1)))
    verdict = judged(digests=lazy)

    assert (verdict.state, verdict.is_final) == ("failed", True)
    assert "did not do its work" in verdict.why


def test_who_leaves_out_half_of_the_work_is_caught_most_of_the_time():
    half = tuple(digests[: 16 * ROUNDS] + bytes(16 * ROUNDS) for digests in PROOF.digests)
    caught = [
        judged(digests=half, chance=random.Random(number).randrange).state for number in range(40)
    ].count("failed")

    assert caught >= 34


def test_the_answers_of_one_core_are_none_of_another():
    first, second, *others = PROOF.digests

    assert judged(digests=(second, first, *others)).state == "failed"
    assert len({first, second, *others}) == CORES


def test_memory_that_did_not_keep_what_was_written_is_caught():
    for digest in (b"", bytes(32), proving.memory_digest(SEED, 2 << 20)):
        verdict = judged(memory_digest=digest)

        assert (verdict.state, verdict.is_final) == ("failed", True)
        assert "memory" in verdict.why


@pytest.mark.rows("S2-142")
@pytest.mark.parametrize(
    "claimed", [[("GPU-other", 24 << 30)], [("GPU-5f0c", 48 << 30)], [GPU, ("GPU-2", 1)]]
)
def test_a_device_that_the_driver_does_not_name_like_that_is_caught(claimed):
    verdict = judged(gpus=claimed)

    assert (verdict.state, verdict.is_final) == ("failed", True)
    assert verdict.why.startswith("its driver does not name GPU-")


def test_another_seed_has_other_answers():
    other = b"fedcba9876543210"

    assert proving.round_digest(other, 0, 0, MATERIAL) != PROOF.digests[0][:32]
    assert proving.round_material(other) != MATERIAL
    assert proving.memory_digest(other, 1 << 20) != PROOF.memory_digest


@pytest.mark.parametrize(
    ("cores", "memory_bytes", "asked", "touched"),
    [
        (8, 1 << 40, 8, MEMORY_BYTES_MAX),
        (0, 0, 1, 0),
        (1_000, 100_000, 64, 65_536),
    ],
)
def test_what_is_asked_is_bounded_and_fair(cores, memory_bytes, asked, touched):
    challenge = make_challenge(1, SEED, cores=cores, memory_bytes=memory_bytes)

    assert (challenge.cores, challenge.memory_bytes) == (asked, touched)
    assert is_fair(challenge)


@pytest.mark.parametrize(
    "change",
    [
        {"seed": b""},
        {"seed": bytes(4_096)},
        {"cores": 0},
        {"cores": 65},
        {"rounds": 0},
        {"rounds": ROUNDS_MAX + 1},
        {"cores": 64, "rounds": 25},
        {"rounds": 2**60},
        {"memory_bytes": -65_536},
        {"memory_bytes": 1 << 40},
        {"memory_bytes": 1},
    ],
)
def test_nobody_can_be_asked_for_a_year_of_work(change):
    assert not is_fair(msgspec.structs.replace(CHALLENGE, **change))


def test_the_largest_answer_fits_into_a_message():
    largest = Proof(
        number=2**62,
        digests=(bytes(32 * (proving.DIGESTS_MAX // proving.CORES_MAX)),) * proving.CORES_MAX,
        worked_us=2**40,
        others_us=2**40,
        elapsed_us=(2**40,) * proving.CORES_MAX,
        memory_digest=bytes(32),
        devices=tuple((f"GPU-{'x' * 36}", 2**40) for _ in range(64)),
    )

    assert len(encode(largest)) < MESSAGE_BYTES_MAX


def test_three_others_ask_and_nobody_chooses_who():
    members = [an_id(number) for number in (1, 2, 3, 8, 9)]

    assert challengers(an_id(1), members) == (an_id(3), an_id(2), an_id(9))
    assert challengers(an_id(1), members[::-1]) == (an_id(3), an_id(2), an_id(9))
    assert challengers(an_id(1), [an_id(1)]) == ()
    assert challengers(an_id(1), [an_id(1), an_id(2)]) == (an_id(2),)


GOOD = Verdict(state="verified")
BAD = Verdict(state="failed", why="wrong")
MOMENT = Verdict(state="failed", why="few", is_final=False)
BUSY = Verdict(state="claimed", why="busy", is_final=False)


@pytest.mark.parametrize(
    ("verdicts", "expected"),
    [
        ([], None),
        ([MOMENT], None),
        ([MOMENT, MOMENT], None),
        ([MOMENT, MOMENT, MOMENT], MOMENT),
        ([MOMENT, BUSY, MOMENT], BUSY),
        ([MOMENT, GOOD], GOOD),
        ([MOMENT, BAD], BAD),
        ([GOOD], GOOD),
    ],
)
def test_a_bad_moment_counts_only_if_every_moment_was_one(verdicts, expected):
    assert best(verdicts) == expected


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        ([], "claimed"),
        (["verified"], "verified"),
        (["failed"], "failed"),
        (["verified", "failed"], "claimed"),
        (["verified", "failed", "failed"], "failed"),
        (["verified", "failed", "verified"], "verified"),
        (["claimed", "claimed", "verified"], "verified"),
        (["claimed", "nonsense"], "claimed"),
    ],
)
def test_challengers_decide_by_majority_and_a_tie_stays_a_claim(states, expected):
    assert combined(states) == expected
