"""Floods of one sender: it is told too much, memory and disk stay bounded, others are served.

Two liars, a guest and a member, say as much as their links carry; two honest machines work on.
"""

import threading
import time

import msgspec
import pytest

from distributed_grid.kernel.accounts import LIMITS, TOO_MUCH
from distributed_grid.kernel.across.meeting import TAKEN_BYTES_MAX
from distributed_grid.model.across import Epoch
from distributed_grid.wire.across import Copied, NotCopied, NotGranted, Reserve
from distributed_grid.wire.questions import Answer, Question
from tests import lies
from tests.liar import Liar
from tests.mesh_jobs import PLAIN, Gate, over, submitted
from tests.mesh_lab import Member, MeshLab, awaited, passed

pytestmark = pytest.mark.slow

RECORDS, RECORD_BYTES = 60, 8 << 20
ENTRIES, QUESTIONS = 3_000, 300
# Of an agent while a member has its whole account full: what waits, what is read, what is written.
MORE_BYTES = 220 << 20
SERVED_S = 30  # An honest job: a second alone, more on two cores that others use as well.
FLOOD_S = 120


@pytest.fixture(scope="module")
def fleet():
    with MeshLab.on_wire(["desk", "attic", "guest", "member"], config=PLAIN) as lab:
        liars = {role: Liar(lab[role]) for role in ("guest", "member")}
        lab.form([lab["desk"], lab["attic"]])
        for role, liar in liars.items():
            ticket = lab["desk"].ticket("--for", f"{role}-person", "--role", role)
            liar.member.up("--join", ticket)
        lab.settled(lab.members)
        yield lab, liars


def serves(desk: Member) -> float:
    """An honest job from another machine runs here; how long that took."""
    began = time.monotonic()
    assert over(desk, submitted(desk, "--node", "attic", "true"), within_s=SERVED_S) == {
        "succeeded"
    }
    return time.monotonic() - began


def answered(liar: Liar) -> list[Copied | NotCopied]:
    return [word for _, word in liar.heard() if isinstance(word, Copied | NotCopied)]


def meanwhile(liar: Liar, attic: Member, messages: list) -> threading.Thread:
    """Say all of it beside what goes on here."""
    words = threading.Thread(target=lambda: liar.says(attic, *messages, within_s=FLOOD_S))
    words.start()
    return words


@pytest.mark.parametrize("role", ["guest", "member"])
def test_a_flood_of_records_takes_up_its_sender_s_account_and_no_more(fleet, role):
    lab, liars = fleet
    desk, attic, liar = lab["desk"], lab["attic"], liars[role]
    [pid] = attic.pids("agent")
    before = attic.rss_bytes()
    size_before = (attic.home / "grid.db").stat().st_size
    most = 0
    for first in range(0, RECORDS, 4):
        words = meanwhile(liar, attic, [
            lies.a_heavy_record(liar.me, role, f"{role} {number}", RECORD_BYTES)
            for number in range(first, first + 4)
        ])  # fmt: skip
        while words.is_alive():
            most = max(most, attic.rss_bytes())
            passed(0.1)
        if first % 20 == 0:
            serves(desk)
        most = max(most, attic.rss_bytes())
    answers = answered(liar)
    taken = sum(isinstance(word, Copied) for word in answers)
    refused = [word for word in answers if isinstance(word, NotCopied)]
    serves(desk)
    print(f"{role}: {taken} taken, {len(refused)} refused, RSS {before >> 20} MiB, {most >> 20} MiB "
          f"at most, {attic.rss_bytes() >> 20} MiB after")  # fmt: skip

    # Who is missed for a moment while it floods has some of its jobs looked after here.
    most_taken = getattr(LIMITS["records"], role) + TAKEN_BYTES_MAX
    assert 1 <= taken <= most_taken // RECORD_BYTES
    assert refused
    assert all(word.why.startswith(TOO_MUCH) for word in refused)
    assert most - before < MORE_BYTES
    grown = (attic.home / "grid.db").stat().st_size - size_before
    assert grown < most_taken + (64 << 20)
    assert attic.pids("agent") == [pid]
    attic.down()
    attic.up()
    lab.settled(lab.members)
    print(f"{role}: {attic.rss_bytes() >> 20} MiB after a start")
    liar.says(attic, lies.a_heavy_record(liar.me, role, f"{role} again", RECORD_BYTES))
    said = awaited(lambda: answered(liar)[len(answers) :])
    assert isinstance(said[0], NotCopied), "its account is as full as before the start"
    assert attic.rss_bytes() - before < MORE_BYTES


def test_a_flood_of_reservations_and_questions_is_refused_and_honest_jobs_run(fleet, tmp_path):
    lab, liars = fleet
    desk, attic, liar = lab["desk"], lab["attic"], liars["guest"]
    usual_s = min(serves(desk) for _ in range(3))
    gate = Gate(tmp_path / "gate")
    held = [submitted(attic, "--node", "attic", *gate.words("true")) for _ in range(2)]
    passed(1)
    epoch = Epoch(1, liar.me)
    specs = [lies.a_spec(f"flood {number}", work=None) for number in range(ENTRIES)]
    flood: list = [
        msgspec.msgpack.encode(Reserve(job=spec.id, epoch=epoch, number=1, spec=spec))
        for spec in specs
    ]
    flood += [
        Question(number=10_000 + number, operation="wait", query={"job": "id:" + specs[0].id})
        for number in range(QUESTIONS)
    ]
    words = meanwhile(liar, attic, flood)
    words.join()
    passed(2)
    said = [word for _, word in liar.heard()]
    no_room = [word for word in said if isinstance(word, NotGranted)]
    unanswered = [word for word in said if isinstance(word, Answer)]
    gate.open()
    assert over(attic, *held) == {"succeeded"}
    took_s = [serves(desk) for _ in range(3)]
    print(f"usual {usual_s:.2f} s, then {min(took_s):.2f} s; {len(no_room)} entries and "
          f"{len(unanswered)} questions refused")  # fmt: skip

    assert any(word.reasons[0].startswith(TOO_MUCH) for word in no_room)
    assert min(took_s) < 3 * usual_s + 1
