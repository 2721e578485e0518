"""What a job wrote on another machine can be read after that machine is lost."""

import pytest

from tests.mesh_jobs import PLAIN, Gate, job, once, over, submitted, told
from tests.mesh_lab import MeshLab, awaited

pytestmark = pytest.mark.slow

LINES = 200_000  # Of eight bytes: more than is kept of it.


@pytest.fixture
def lab():
    with MeshLab.on_wire(["desk", "attic", "barn"], PLAIN) as made:
        made.form(made.members)
        yield made


def is_kept(member, word: str) -> bool:
    return not job(member, word)["output_only_on"]


@pytest.mark.rows("S0-90", "S0-91")
def test_the_output_outlives_the_machine_that_wrote_it(lab):
    desk, attic, barn = lab.members
    short = submitted(desk, "--node", "attic", "--", "sh", "-c", "echo out; echo err >&2")
    silent = submitted(desk, "--node", "attic", "true")
    long = submitted(desk, "--node", "attic", "--", "seq", "-w", "1000000", str(1000000 + LINES))
    failed = submitted(desk, "--node", "attic", "--array", "0-3", "--", "sh", "-c",
                       "echo $GRID_ARRAY_INDEX; exit $((GRID_ARRAY_INDEX % 2))")  # fmt: skip
    only = submitted(desk, "--node", "attic", "--", "echo", "only there")
    (desk.home / "jobs" / only).write_text("")  # Where its copy would be.
    words = (short, silent, long, failed, only)
    assert over(desk, *words) == {"succeeded", "failed"}
    awaited(lambda: all(is_kept(desk, word) for word in (short, silent, long)))
    copied = desk.home / "jobs" / failed
    awaited(lambda: len(list(copied.glob("copy.*"))) == 2, lambda: list(copied.parent.rglob("*")))
    assert "only on attic" in desk.says("job", only)
    assert "only on" not in barn.says("job", short)
    assert barn.says("logs", long).count("\n") == LINES + 1
    attic.kill()
    awaited(lambda: desk.health()["attic"] == "dead")

    for member in (desk, barn):
        assert member.says("logs", short) == "out\n"
        assert member.says("logs", "--stderr", short) == "err\n"
        assert member.says("logs", "--follow", silent) == ""
        assert member.says("logs", "--index", "3", failed) == "3\n"
        first, *rest = member.says("logs", long).splitlines()
        assert first == "[grid: the 538.5 KiB before this were not copied from attic]"
        assert rest[-1] == str(1000000 + LINES)
        refused = member("logs", only)
        assert refused.returncode != 0
        assert "attic" in refused.stderr
        assert "only there" in refused.stderr

    barn.kill()
    awaited(lambda: desk.health()["barn"] == "dead")
    assert desk.says("logs", short) == "out\n", "also alone"
    assert "only there" in desk("logs", only).stderr

    (desk.home / "jobs" / only).unlink()
    attic.up()
    awaited(lambda: is_kept(desk, only), lambda: job(desk, only), 60)
    assert desk.says("logs", only) == "only there\n"


@pytest.mark.rows("S0-91")
def test_what_ended_at_its_home_can_be_read_when_that_is_gone(lab):
    desk, attic, barn = lab.members
    good = submitted(desk, "--node", "desk", "--", "sh", "-c", "echo out; echo err >&2")
    bad = submitted(desk, "--node", "desk", "--", "sh", "-c", "echo bad; exit 3")
    assert over(desk, good, bad) == {"succeeded", "failed"}
    kept = [member.home / "jobs" / word for member in (attic, barn) for word in (good, bad)]
    awaited(lambda: sum(any(one.glob("copy.*")) for one in kept) == 2, lambda: kept)
    desk.kill()
    awaited(lambda: attic.health()["desk"] == barn.health()["desk"] == "dead")

    for member in (attic, barn):
        assert job(member, good)["state"] == "succeeded"
        assert (job(member, bad)["state"], job(member, bad)["exit_code"]) == ("failed", 3)
        assert member.says("logs", good) == "out\n"
        assert member.says("logs", "--stderr", good) == "err\n"
        assert member.says("logs", "--follow", bad) == "bad\n"


@pytest.mark.rows("S0-91")
def test_who_took_a_job_over_has_what_it_wrote_when_it_is_alone(lab, tmp_path):
    desk, attic, barn = lab.members
    gate = Gate(tmp_path / "gate")
    word = submitted(desk, "--node", "attic", *gate.words("echo", "kept"))
    once(desk, word, "running")
    desk.kill()
    _, by = awaited(lambda: told(barn, word, "taken over"), lambda: job(barn, word))[-1]
    gate.open()
    home = lab[by.removeprefix("by ")]
    assert over(home, word) == {"succeeded"}
    awaited(lambda: is_kept(home, word), lambda: job(home, word))
    other = barn if home is attic else attic
    other.kill()
    awaited(lambda: home.health()[other.name] == "dead")

    assert home.says("logs", word) == "kept\n"
