"""`run-shared`, `shared-status` and `status` against a real agent that lends."""

import os
from pathlib import Path

import pytest

from tests.keeper_lab import wait_until
from tests.sharing_lab import LENDS, MACHINE, lending

NODES = "name: home\nnodes: [lab, gpu1]\n"


@pytest.fixture(scope="module")
def lab():
    with lending(NODES + LENDS + "node: {resources: {tpu: 4}}\n") as made:
        for name in ("train", "process_data", "parallel_task"):
            (made.dir / f"{name}.py").write_text(
                "import os, sys\n"
                f"print({name!r}, os.environ['CUDA_VISIBLE_DEVICES'], os.environ['GRID_CPUS'])\n"
                "print(*sys.argv[1:], file=sys.stderr)\n"
            )
        yield made


@pytest.mark.rows("S3-15", "S3-16", "S3-17", "S3-30", "S3-66", "S3-67", "S3-73")
@pytest.mark.parametrize(
    ("line", "output"),
    [
        ("--resource-type gpu --amount 1 --priority high python train.py", b"train H100#0000 0\n"),
        (
            "--resource-type memory --amount 4 --priority medium python process_data.py",
            b"process_data  0\n",
        ),
        (
            "--resource-type cpu --amount 2 --priority low python parallel_task.py",
            b"parallel_task  2\n",
        ),
        ("-r gpu -a 1 -n gpu1 -n gpu2 python train.py", b"train H100#0000 0\n"),
    ],
)
def test_the_four_lines_of_the_seed_run_as_printed(lab, line, output):
    done = lab("run-shared", *line.split())

    assert (done.returncode, done.stdout) == (0, output), done.stderr
    assert lab.json("shared-status")["allocations"] == []


def test_options_of_the_command_reach_it_unchanged(lab):
    done = lab("run-shared", "-r", "cpu", "-a", "1", "python", "train.py", "--task-id", "3", "-a")

    assert done.stderr == b"--task-id 3 -a\n"


@pytest.mark.rows("S3-22", "S3-46", "S3-82")
def test_several_gpus_are_named_devices_and_nobody_gets_the_same(lab):
    first = lab.borrow("gpu", "2", "-j", "first", "sh", "-c", "echo $GRID_GPUS; sleep 60")
    shown = lab.json("shared-status")
    second = lab("run-shared", "-r", "gpu", "-a", "1", "sh", "-c", "echo $GRID_GPUS")
    too_many = lab("run-shared", "-r", "gpu", "-a", "2", "-w", "0.3", "true")
    lab("cancel", "first")
    held, _ = first.communicate(timeout=30)
    after = lab.json("shared-status")

    assert held == b"H100#0000,H100#0001\n"
    assert second.stdout == b"H100#0002\n"
    assert [(one["resource_type"], one["amount"], one["name"]) for one in shown["allocations"]] == [
        ("gpu", 2, "first")
    ]
    assert gpus(shown) == ["H100#0002"]
    assert too_many.returncode == 125
    assert b"lab: offers 1 gpu" in too_many.stderr
    assert b"gpu1: not joined" in too_many.stderr
    assert (gpus(after), after["allocations"]) == (["H100#0000", "H100#0001", "H100#0002"], [])


def gpus(shown) -> list[str]:
    return [
        offer["conditions"]["gpu_id"]
        for offer in shown["offers"]
        if offer["resource_type"] == "gpu"
    ]


@pytest.mark.rows("S3-03")
def test_it_really_waits_for_an_offer(lab):
    holder = lab.borrow("gpu", "3", "-j", "holder", "sleep", "60")
    waits = lab.start(
        "run-shared", "-r", "gpu", "-a", "1", "-w", "60", "-j", "waits", "echo", "got"
    )
    while lab.state("waits") != "waiting":
        assert waits.poll() is None
    lab("cancel", "holder")
    out, err = waits.communicate(timeout=30)
    holder.communicate(timeout=30)

    assert (waits.returncode, out) == (0, b"got\n"), err


@pytest.mark.rows("S3-02", "S3-12", "S3-45", "S3-101", "S3-103")
def test_offers_of_every_kind_have_amount_total_expiry_and_conditions(lab):
    offers = {offer["resource_type"]: offer for offer in lab.json("shared-status")["offers"]}

    assert set(offers) == {"cpu", "memory", "gpu", "disk", "tpu"}
    assert (offers["cpu"]["amount"], offers["cpu"]["total"]) == (8, 8)
    assert (offers["memory"]["amount"], offers["memory"]["total"]) == (63, 64)
    assert (offers["tpu"]["amount"], offers["tpu"]["total"]) == (4, 4)
    assert all(offer["available_until"] > "2026" for offer in offers.values())
    assert offers["gpu"]["conditions"].keys() == {
        "gpu_id",
        "memory_free_mb",
        "memory_total_mb",
        "total",
    }


def test_custom_kinds_are_lent_too(lab):
    done = lab("run-shared", "-r", "TPU", "-a", "4", "true")
    unknown = lab("run-shared", "-r", "quantum", "-a", "1", "true")

    assert done.returncode == 0, done.stderr
    assert (unknown.returncode, b"no resource type named 'quantum'" in unknown.stderr) == (2, True)


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["-r", "gpu", "-a", "99"], 125, b"larger than this machine"),
        (["-r", "cpu", "-a", "1", "-p", "urgent"], 125, b"allow_urgent"),
        (["-r", "cpu", "-a", "1", "--no-preempt"], 125, b"allow_no_preempt"),
        (["-r", "cpu", "-a", "1", "-n", "gpu1", "--strict-nodes"], 125, b"gpu1: not joined"),
        (["-r", "cpu", "-a", "1", "--booking", "none"], 125, b"no booking 'none'"),
    ],
)
def test_what_is_not_possible_is_125_with_the_reason(lab, words, code, told):
    done = lab("run-shared", *words, "true")

    assert (done.returncode, done.stdout) == (code, b"")
    assert told in done.stderr


def test_a_job_id_is_taken_while_it_runs_and_free_afterwards(lab):
    running = lab.borrow("cpu", "1", "-j", "training_001", "sleep", "60")
    second = lab("run-shared", "-r", "cpu", "-a", "1", "-j", "training_001", "true")
    lab("cancel", "training_001")
    running.communicate(timeout=30)
    third = lab("run-shared", "-r", "cpu", "-a", "1", "-j", "training_001", "true")

    assert (second.returncode, b"is taken" in second.stderr) == (2, True)
    assert third.returncode == 0, third.stderr


@pytest.mark.rows("S3-04")
def test_borrowers_fill_the_machine(lab):
    tasks = [lab.borrow("cpu", "2", "-j", f"task-{number}", "sleep", "60") for number in range(4)]
    status = lab.json("status")
    lab("cancel", *(f"task-{number}" for number in range(4)))
    for task in tasks:
        task.communicate(timeout=30)

    assert (status["jobs_running"], status["cpu_milli_free"]) == (4, 0)


@pytest.mark.rows("S3-89")
def test_what_went_wrong_can_be_read_afterwards(lab):
    done = lab(
        "run-shared", "-r", "cpu", "-a", "1", "-j", "broken", "sh", "-c", "echo why >&2; exit 9"
    )
    view = lab.json("job", "broken")

    assert (done.returncode, done.stderr) == (9, b"why\n")
    assert lab("logs", "--stderr", "broken").stdout == b"why\n"
    assert (view["state"], view["reason"], view["attempts"][0]["exit_code"]) == (
        "failed",
        "exit code 9",
        9,
    )


LOOP = ("sh", "-c", "(while :; do :; done)")  # What a job starts is watched too.


def used_us(lab, name: str) -> int:
    return sum(attempt["user_us"] for attempt in lab.json("job", name)["attempts"])


@pytest.mark.rows("S0-66", "S3-91")
def test_what_a_job_uses_is_seen_while_it_runs(lab):
    # Not a borrower: on a busy machine those get next to nothing of a core.
    lab("run", "--detach", "--name", "wild", *LOOP)
    wait_until(lambda: used_us(lab, "wild") > 100_000, within_s=60)
    seen = lab.json("job", "wild")
    shown = lab("job", "wild").stdout.decode()
    lab("cancel", "wild")
    lab("wait", "wild")

    assert seen["state"] == "running"
    assert seen["attempts"][0]["memory_bytes_peak"] > 0
    assert "cpu so far" in shown
    assert "memory now" in shown
    assert "cpu time" in lab("job", "wild").stdout.decode()


@pytest.mark.rows("S3-91", "S3-92")
def test_a_job_that_runs_away_is_ended(lab):
    done = lab("run-shared", "-r", "cpu", "-a", "1", "--timeout", "5s", "-j", "away", *LOOP)
    attempt = lab.json("job", "away")["attempts"][0]

    assert done.returncode == 124
    assert attempt["how"] == "timeout"


@pytest.mark.rows("S3-71")
def test_memory_is_lent_only_where_so_much_of_it_is_free():
    used = MACHINE.replace("}]}", "}], load: {memory_percent: 40}}")
    with lending(LENDS, used) as lab:
        too_much = lab("run-shared", "-r", "memory", "-a", "40", "-w", "0.1", "echo", "no")
        holder = lab.borrow("memory", "30", "-j", "holder", "sleep", "60")
        left = lab("run-shared", "-r", "memory", "-a", "10", "-w", "0.1", "echo", "no")
        waits = lab.start("run-shared", "-r", "memory", "-a", "10", "-j", "waits", "echo", "got")
        wait_until(lambda: lab.state("waits") == "waiting")
        lab("cancel", "holder")
        out, err = waits.communicate(timeout=60)
        holder.communicate(timeout=60)

    assert (too_much.returncode, too_much.stdout) == (125, b"")
    assert b"lab: offers 37.4 GiB" in too_much.stderr, too_much.stderr
    assert (left.returncode, left.stdout) == (125, b"")
    assert (waits.returncode, out) == (0, b"got\n"), err


@pytest.mark.rows("S3-47", "S3-84", "S3-86")
def test_status_shows_who_is_online_and_who_has_not_joined(lab):
    status = lab.json("status")
    text = lab("status").stdout

    assert (status["total_nodes"], status["online_nodes"], status["total_gpus"]) == (2, 1, 3)
    assert [(node["name"], node["is_online"]) for node in status["nodes"]] == [
        ("lab", True),
        ("gpu1", False),
    ]
    assert b"gpu1: not joined; here: grid ticket, on gpu1: grid join TICKET" in text


@pytest.mark.rows("S3-97", "S3-98", "S3-99", "S3-100")
def test_a_borrowed_job_runs_as_we_do_politely_in_a_directory_of_its_own(lab):
    # It is put back a moment after its start.
    script = (
        'id -u; until [ "$(nice)" = 19 ]; do :; done; nice; echo $GRID_WORKDIR;'
        " cd $GRID_WORKDIR && touch mine"
    )
    runs = [lab("run-shared", "-r", "cpu", "-a", "1", "sh", "-c", script) for _ in range(2)]
    (uid, niceness, first), (_, _, second) = (run.stdout.decode().split() for run in runs)

    assert (int(uid), int(niceness)) == (os.getuid(), 19)
    assert first != second
    assert not Path(first).exists()
