"""A member with a valid key turns hostile: nobody else is hurt, whatever its role.

Three real agents, and three liars: one of each role that is no admin's. Liars are agents as well,
each on a host of its own: they are alive, heartbeats and all, while they lie.
"""

import itertools
import os
import time
from pathlib import Path

import pytest

from distributed_grid.client import calls
from distributed_grid.client.blocking import Caller
from distributed_grid.client.specification import specification
from distributed_grid.model.ids import JobId
from distributed_grid.wire.across import Copied, Granted, Idle, Inquiry, NotCopied
from tests import lies
from tests.liar import Liar
from tests.mesh_jobs import PLAIN, Gate, heal, job, once, over, submitted
from tests.mesh_lab import Member, MeshLab, awaited, passed

pytestmark = pytest.mark.slow

HONEST = ("desk", "attic", "barn")
ROLES = ("member", "worker", "guest")
SERVED_S = 30  # An honest job: a second alone, more on two cores that others use as well.
FORGED = int(os.environ.get("GRID_FORGED_RUNS", "50"))  # At-most-once jobs that are lied about.
LET_IN_S = 90.0  # Whoever was refused: the longer the more often that was.
TAKEN_OVER_S = 8  # From the death of a home to the job at its holder, or not.
FLOOD, FLOOD_BYTES = 40, 8 << 20  # Records of one guest.
ROOM_BYTES = 400 << 20  # What an agent may have in memory during a flood.


@pytest.fixture(scope="module")
def fleet():
    with MeshLab.on_wire([*HONEST, *ROLES], config=PLAIN) as made:
        liars = {role: Liar(made[role]) for role in ROLES}
        honest = [made[name] for name in HONEST]
        made.form(honest)
        for role, liar in liars.items():
            ticket = made["desk"].ticket("--for", f"{role}-person", "--role", role)
            liar.member.up("--join", ticket)
        made.settled(made.members)
        yield made, liars


@pytest.fixture
def whole(fleet):
    """All are up before, and honest work goes on afterwards."""
    made, _ = fleet
    made.bring_up(member for member in made.members if not member.pids())
    made.settled([made[name] for name in HONEST])
    yield made
    heal(made)
    serves(made)
    for name in HONEST:
        assert "Traceback" not in made[name].log


@pytest.fixture
def lab(whole):
    """The same, and nobody's agent ended."""
    before = {name: whole[name].pids("agent", "keeper") for name in HONEST}
    yield whole
    assert {name: whole[name].pids("agent", "keeper") for name in HONEST} == before


@pytest.fixture
def gate(tmp_path):
    made = Gate(tmp_path / "gate")
    yield made
    made.open()


def serves(lab: MeshLab) -> None:
    """Each honest node takes a job, and each runs one."""
    names = [*HONEST, HONEST[0]]
    pairs = [(lab[home], host) for home, host in itertools.pairwise(names)]
    words = [(home, submitted(home, "--node", host, "true")) for home, host in pairs]
    for home, word in words:
        assert over(home, word, within_s=SERVED_S) == {"succeeded"}


@pytest.mark.parametrize("role", ROLES)
def test_absurd_messages_end_and_hold_up_nobody(lab, fleet, role):
    """Each to another node: whoever says what cannot be read is let in again only after a while."""
    liar, desk = fleet[1][role], lab["desk"]
    word = submitted(desk, "--node", "attic", "true")
    assert over(desk, word) == {"succeeded"}
    victims = itertools.cycle(lab[name] for name in HONEST)
    for lie, messages in lies.absurd(liar.me, word, role).items():
        victim = next(victims)
        [pid] = victim.pids("agent")
        assert liar.says(victim, *messages, within_s=LET_IN_S) == len(messages), lie
        passed(0.2)
        quick = submitted(victim, "--node", victim.name, "true")

        assert over(victim, quick, within_s=SERVED_S) == {"succeeded"}, lie
        assert victim.pids("agent") == [pid], lie


@pytest.mark.parametrize("role", ["member", "guest"])
def test_a_job_with_nothing_to_run_is_refused(lab, fleet, role):
    liar, desk = fleet[1][role], lab["desk"]
    reserve, start = lies.without_work(liar.me, role)
    liar.says(desk, reserve)
    passed(1)
    for _, message in liar.heard():
        if isinstance(message, Granted) and message.job == reserve.job:
            liar.says(desk, lies.bent(start, lease=message.lease, number=message.number))
            passed(1)
    # What is granted or not: what counts is that nobody ended, which `lab` sees to.


@pytest.mark.parametrize("role", ["member", "guest"])
def test_records_that_cannot_be_carried_on_hurt_no_holder(whole, fleet, role):
    """The liar hands them over and dies: whoever took one is its next home, also after a start."""
    liar, desk = fleet[1][role], whole["desk"]
    messages = lies.records(liar.me, liar.member.name, liar.id_of(desk), role)
    for message in messages.values():
        assert liar.says(desk, message, within_s=LET_IN_S) == 1
        passed(0.2)
    [pid] = desk.pids("agent")
    liar.member.kill()
    awaited(lambda: desk.health().get(role) == "dead")
    passed(TAKEN_OVER_S)
    assert desk.pids("agent") == [pid]
    serves(whole)
    desk.down()
    desk.up()
    whole.settled([whole[name] for name in HONEST])
    after = desk.pids("agent")
    passed(TAKEN_OVER_S)
    assert desk.pids("agent") == after


@pytest.mark.parametrize("role", ["member", "guest"])
def test_an_epoch_of_somebody_else_shuts_no_job_out(lab, fleet, role, gate):
    liar, desk, attic = fleet[1][role], lab["desk"], lab["attic"]
    words = [specification(["true"], {"node": "attic", "cwd": "/"}) for _ in range(3)]
    for spec in words:
        liar.says(attic, lies.shut_out(liar.me, spec.id))
    passed(0.5)
    with Caller(str(desk.home / "agent.sock")) as agent:
        agent.run(calls.submit(words))

    assert over(desk, *(spec.id for spec in words), within_s=SERVED_S) == {"succeeded"}


def test_words_about_an_attempt_of_another_change_nothing(lab, fleet, gate, tmp_path):
    liar, desk, ran = fleet[1]["member"], lab["desk"], tmp_path / "ran"
    script = ("sh", "-c", f"echo $$ >>{ran}; exec flock --shared {gate.file} true; exit 3")
    word = submitted(desk, "--node", "attic", "--", *script)
    once(desk, word, "running")
    record = awaited(lambda: (r := liar.learn(desk, word)) and r.attempts and r)
    [lease] = record.attempts
    for victim in ("desk", "attic"):
        liar.says(lab[victim], *lies.forged(liar.me, word, lease, 1))
    passed(3)
    assert job(desk, word)["state"] == "running"
    gate.open()

    assert over(desk, word) == {"succeeded"}
    assert len(ran.read_text().split()) == 1


def test_a_guest_is_not_told_of_jobs_of_others(lab, fleet, gate):
    desk = lab["desk"]
    word = submitted(desk, "--node", "attic", *gate.words("true"))
    once(desk, word, "running")
    for role in ("worker", "guest"):
        assert fleet[1][role].learn(desk, word) is None
        assert fleet[1][role].learn(lab["attic"], word) is None
    gate.open()
    assert over(desk, word) == {"succeeded"}


def test_a_flood_of_records_is_refused_and_others_are_served(lab, fleet):
    liar, desk = fleet[1]["guest"], lab["desk"]
    name = liar.member.name
    for number in range(FLOOD):
        tag = f"{time.monotonic_ns()}"
        liar.says(desk, lies.a_heavy_record(liar.me, name, tag, FLOOD_BYTES))
        if number % 8 == 7:
            serves(lab)
            assert desk.rss_bytes() < ROOM_BYTES
    told = [message for _, message in liar.heard()]

    assert any(isinstance(message, NotCopied) for message in told)
    assert sum(isinstance(message, Copied) for message in told) < FLOOD
    assert (desk.home / "grid.db").stat().st_size < ROOM_BYTES


def test_questions_without_end_hold_up_nobody(lab, fleet):
    liar, desk = fleet[1]["guest"], lab["desk"]
    ask = Inquiry(jobs=tuple(JobId(f"{n:064x}") for n in range(200)))
    for _ in range(10):
        liar.says(desk, *[ask] * 20, *[Idle(cpu_milli=1, memory_bytes=1)] * 50)
        serves(lab)


class Runs:
    """What every process of some jobs writes down: that it runs, and who else of its job does."""

    def __init__(self, directory: Path) -> None:
        self._file, self._twice = directory / "runs", directory / "twice"
        self._file.touch()
        self._locks = directory / "locks"
        self._locks.mkdir()

    def words(self, tag: str, gate: Gate) -> list[str]:
        # The lock is the process's and its children's for as long as any of them lives.
        script = (
            f"exec 9>{self._locks}/{tag}; flock -n 9 || echo {tag} >>{self._twice}; "
            f"echo {tag} >>{self._file}; exec flock --shared {gate.file} true"
        )
        return ["sh", "-c", script]

    def count(self) -> dict[str, int]:
        tags = self._file.read_text().split()
        return {tag: tags.count(tag) for tag in tags}

    @property
    def twice(self) -> list[str]:
        return self._twice.read_text().split() if self._twice.exists() else []


def test_at_most_once_holds_against_a_liar_while_the_owner_is_cut_off(lab, fleet, gate, tmp_path):
    """Each job has begun on the owner; of a third each the liar says another lie, to everybody."""
    liar, desk, attic, barn = fleet[1]["member"], lab["desk"], lab["attic"], lab["barn"]
    runs = Runs(tmp_path)
    specs = [
        specification(
            runs.words(f"t{number}", gate),
            {"cpus": 0.02, "at_most_once": True, "node": ["attic", "barn"], "max_losses": 100,
             "cwd": "/tmp"},
        )
        for number in range(FORGED)
    ]  # fmt: skip
    submit(desk, specs)
    awaited(lambda: len(runs.count()) == FORGED, lambda: len(runs.count()), 60)
    owners = {spec.id: once(desk, spec.id, "running")["node"] for spec in specs}
    cut_off = max((attic, barn), key=lambda one: list(owners.values()).count(one.name))
    other = barn if cut_off is attic else attic
    lied = 0
    for number, spec in enumerate(specs):
        record = awaited(lambda s=spec: (r := liar.learn(desk, s.id)) and r.attempts and r)
        for lease in record.attempts:
            messages = lies.forged(liar.me, spec.id, lease, 1)
            some = messages[number % 3 : number % 3 + 1] + messages[3:]
            for victim in (desk, other, cut_off):
                lied += liar.says(victim, *some)
    lab.host(cut_off.name).unplug()
    begin = time.monotonic()
    moved = [tag for spec, tag in zip(specs, tags(FORGED), strict=True)
             if owners[spec.id] == cut_off.name]  # fmt: skip
    awaited(lambda: all(runs.count()[tag] >= 2 for tag in moved), runs.count, 120)
    took_s = time.monotonic() - begin
    lab.host(cut_off.name).plug_in()
    lab.settled([lab[name] for name in HONEST])
    gate.open()

    assert over(desk, *(spec.id for spec in specs), within_s=120) == {"succeeded"}
    assert runs.twice == []
    assert lied >= 4 * 3 * FORGED
    assert took_s >= LEASE_S - CUT_S, "they waited for the leases to end"
    stayed = set(tags(FORGED)) - {*moved}
    assert {runs.count()[tag] for tag in stayed} <= {1}, "no lie moved any other"


LEASE_S = 9.5
CUT_S = 3.0  # A lease is renewed each 2.5 s: so much of it may have passed.


def tags(count: int) -> list[str]:
    return [f"t{number}" for number in range(count)]


def submit(member: Member, specs) -> None:
    with Caller(str(member.home / "agent.sock")) as agent:
        agent.run(calls.submit(specs))
