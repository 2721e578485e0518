"""Records on accounts: who has how many here, what makes room, and what is in memory."""

import msgspec
import pytest

from distributed_grid.kernel.accounts import LIMITS, TOO_MUCH, Allowance
from distributed_grid.kernel.across.guarding import read
from distributed_grid.kernel.across.held import held_job, homeless
from distributed_grid.kernel.across.peers import Peer
from distributed_grid.kernel.across.record_bytes import encode, spec_of
from distributed_grid.kernel.across.shelf import BLOCK_BYTES, ENDED_MS, LARGE_BYTES, Shelf
from distributed_grid.kernel.ready import Ready
from distributed_grid.model.ids import JobId, job_id_of
from distributed_grid.model.job import Work
from distributed_grid.wire.across import Copied, Copy, Dispensable, Inquiry, NotCopied
from tests.unit.across.guard_lab import Mesh, node

MIB = 1 << 20


def large(mesh: Mesh, number: int, name: str = "job", size: int = 2 * LARGE_BYTES):
    job = mesh.submit(number, name, work=Work(argv=("#" * size,), cwd="/"))
    mesh.settle()
    return job


def shelf(mesh: Mesh, number: int) -> Shelf:
    return mesh[number].guarding.shelf


def in_memory(mesh: Mesh, number: int) -> int:
    return shelf(mesh, number)._memory.total


def room_for(mesh: Mesh, number: int, most: int) -> None:
    shelf(mesh, number).accounts.limits = Allowance(most, most, most, most, 0)


def words_to(mesh: Mesh, number: int, kind: type) -> list:
    found = []
    mesh.lost = lambda _sender, to, word: (
        to == node(number) and isinstance(word, kind) and found.append(word)
    )
    return found


def test_a_large_record_is_on_disk_and_not_in_memory():
    mesh = Mesh(2)
    small, big = mesh.submit(1, "small"), large(mesh, 1)
    held = shelf(mesh, 2)

    assert held.unfinished[big].here is None
    assert not held._unsaved
    assert in_memory(mesh, 2) == held.unfinished[small].size
    assert encode(held.find(big)) == mesh[2].disk_held[big]
    held.check()


def test_until_the_disk_has_it_a_large_record_is_in_memory():
    mesh = Mesh(2)
    mesh[2].save = lambda ready: ready
    job = large(mesh, 1)

    assert job not in mesh[2].disk_held
    assert shelf(mesh, 2).find(job).job == job
    ready = Ready()
    assert shelf(mesh, 2).save(job, ready)
    assert read(ready.save_held[job]).job == job


def test_an_older_write_that_is_over_lets_no_newer_one_go():
    mesh = Mesh(2)
    job = large(mesh, 1)
    older = dict(mesh[2].disk_held)
    mesh[2].save = lambda ready: ready
    mesh.change(1, job)
    mesh.settle()
    shelf(mesh, 2).saved(older)

    assert shelf(mesh, 2).find(job).version.seq == 2


def test_a_large_record_that_the_disk_has_lost_is_unknown():
    mesh = Mesh(2)
    job, other = large(mesh, 1), large(mesh, 1, "other")
    mesh[2].disk_held.pop(job)
    mesh[2].disk_held[other] = b"junk"

    assert shelf(mesh, 2).find(job) is None
    assert shelf(mesh, 2).find(other) is None
    assert not mesh[2].guarding.cancel(job, mesh.now_ms, Ready())
    mesh.crash(1)
    mesh.look()
    mesh.pass_ms(10_000)

    assert mesh[2].names("taken over") == []
    assert not shelf(mesh, 2).unfinished


def test_a_large_record_is_taken_over_from_the_disk():
    mesh = Mesh(2)
    job = large(mesh, 1)
    mesh.crash(1)
    mesh.look()
    mesh.pass_ms(10_000)

    assert mesh[2].names("taken over") == [job]
    assert len(mesh[2].jobs[job].spec.work.argv[0]) == 2 * LARGE_BYTES


def test_a_large_record_is_handed_to_an_earlier_name_from_the_disk():
    mesh = Mesh(3)
    job = large(mesh, 1)
    first, second = mesh.record(1, job).guardians
    numbers = {node(number): number for number in (2, 3)}
    mesh.machines[first].disk_held.clear()
    mesh.start(numbers[first])
    mesh.crash(1)
    mesh.look()
    mesh.pass_ms(10_000)

    assert mesh.machines[first].names("taken over") == [job]
    assert mesh.machines[second].names("taken over") == []


def test_lists_read_large_records_but_not_too_many(monkeypatch):
    mesh = Mesh(2)
    jobs = {large(mesh, 1, f"job-{number}") for number in range(3)}
    mesh[2].takes_over = False
    mesh.crash(1)
    mesh.look()
    guarding = mesh[2].guarding

    assert {job.spec.id for job in homeless(guarding, guarding.verdicts.peers)} == jobs
    assert held_job(guarding, "job-1").spec.name == "job-1"
    monkeypatch.setattr("distributed_grid.kernel.across.held.READ_BYTES_MAX", 5 * LARGE_BYTES)
    assert len(list(homeless(guarding, guarding.verdicts.peers))) == 2
    mesh[2].disk_held.clear()
    assert list(homeless(guarding, guarding.verdicts.peers)) == []


def test_the_answer_whether_it_is_still_held_writes_nothing_large_again():
    mesh = Mesh(2)
    small, big = mesh.submit(1, "small"), large(mesh, 1)
    ready = mesh.tell(node(1), node(2), Inquiry(jobs=(small, big), is_short=True))

    assert list(ready.save_held) == [small]
    assert [type(word) for _, word in ready.send] == [Copied, Copied]
    assert shelf(mesh, 2).save("0" * 32, ready) is False


def test_a_guest_gets_little_and_is_told_that_it_is_too_much():
    mesh = Mesh(2, n1={"may_lend": False})
    said = words_to(mesh, 1, NotCopied)
    jobs = [large(mesh, 1, f"job-{number}", size=6 * MIB) for number in range(3)]

    assert [job in shelf(mesh, 2).unfinished for job in jobs] == [True, True, False]
    assert said[0].why.startswith(TOO_MUCH)
    assert shelf(mesh, 2).accounts[node(1)] <= LIMITS["records"].guest


def test_a_sender_at_its_limit_leaves_others_their_room():
    mesh = Mesh(3, n1={"may_lend": False})
    for number in range(3):
        large(mesh, 1, f"job-{number}", size=6 * MIB)
    job = large(mesh, 3, "honest", size=6 * MIB)

    assert job in shelf(mesh, 2).unfinished


def test_what_is_dropped_makes_room():
    mesh = Mesh(2)
    job = large(mesh, 1)
    size = shelf(mesh, 2).unfinished[job].size
    room_for(mesh, 2, size)
    version = shelf(mesh, 2).unfinished[job].version
    mesh.tell(node(1), node(2), Dispensable(job=job, version=version))
    other = large(mesh, 1, "other")

    assert set(shelf(mesh, 2).unfinished) == {other}
    shelf(mesh, 2).check()


def test_how_a_job_ended_is_heard_though_there_is_no_room():
    mesh = Mesh(2)
    job = large(mesh, 1)
    room_for(mesh, 2, shelf(mesh, 2).unfinished[job].size)
    mesh.end(1, job, "succeeded")
    mesh.settle()

    assert not shelf(mesh, 2).unfinished
    assert shelf(mesh, 2).find(job).results


@pytest.mark.parametrize("is_total", [False, True], ids=["of the sender", "of all"])
def test_what_is_over_makes_room_for_what_goes_on(is_total):
    mesh = Mesh(3)
    home = 3 if is_total else 1
    ended = [large(mesh, home, f"ended-{number}") for number in range(2)]
    for job in ended:
        mesh.end(home, job, "succeeded")
    mesh.settle()
    held = shelf(mesh, 2)
    room_for(mesh, 2, held.accounts.total)
    going_on = [large(mesh, 1, f"going-on-{number}") for number in range(2)]

    assert set(held.unfinished) == set(going_on)
    assert all(held.find(job) is None or held.find(job).is_summary for job in ended)
    held.check()


def test_what_is_over_and_lost_by_the_disk_makes_room_too():
    mesh = Mesh(2)
    job = large(mesh, 1)
    mesh.end(1, job, "succeeded")
    mesh.settle()
    mesh[2].disk_held.clear()
    mesh.pass_ms(ENDED_MS + 60_000, step_ms=60_000)

    assert shelf(mesh, 2).kept(job) is None


def test_a_whole_record_that_ended_is_summed_up_before_anything_is_refused():
    mesh = Mesh(2)
    job = large(mesh, 1)
    mesh.end(1, job, "succeeded")
    mesh.settle()
    held, summary = shelf(mesh, 2), 4 * BLOCK_BYTES
    room_for(mesh, 2, held.accounts.total + summary)
    other = large(mesh, 1, "other")

    assert set(held.unfinished) == {other}
    assert held.find(job).is_summary


def test_of_what_ended_at_home_only_the_summary_stays_in_memory_if_it_is_large():
    mesh = Mesh(2)
    small, big = mesh.submit(1, "small"), large(mesh, 1)
    for job in (small, big):
        mesh.end(1, job, "succeeded")
    mesh.settle()

    assert not shelf(mesh, 1).find(small).is_summary
    assert shelf(mesh, 1).find(big).is_summary


def test_after_a_start_accounts_are_those_of_before():
    mesh = Mesh(3, n1={"may_lend": False})
    jobs = [mesh.submit(1, "small"), large(mesh, 1)]
    other = large(mesh, 3, "other")
    held = shelf(mesh, 2)
    before = held.accounts[node(1)], held.accounts[node(3)], in_memory(mesh, 2)
    mesh.start(2)
    held = shelf(mesh, 2)

    assert (held.accounts[node(1)], held.accounts[node(3)], in_memory(mesh, 2)) == before
    assert {*jobs, other} == held.unfinished.keys()
    held.check()


def test_a_record_is_on_the_account_of_who_brought_it_whoever_it_names():
    mesh = Mesh(3, n1={"may_lend": False})
    job = mesh.submit(1, user="ann@" + node(1)[:4])
    record = mesh.record(1, job)
    epoch = msgspec.structs.replace(record.version.epoch, node=node(3))
    version = msgspec.structs.replace(record.version, epoch=epoch)
    spec = msgspec.structs.replace(spec_of(record), id=JobId(record.job[::-1]))
    forged = msgspec.structs.replace(
        record, version=version, job=spec.id, spec=msgspec.msgpack.encode(spec)
    )
    mesh.tell(node(1), node(2), Copy(record=encode(forged)))
    kept = shelf(mesh, 2).unfinished[forged.job]

    assert (kept.home, kept.sender) == (node(3), node(1))
    mesh.start(2)
    assert shelf(mesh, 2).unfinished[forged.job].sender == node(1)


def test_a_wish_of_this_node_leaves_the_record_on_its_account():
    mesh = Mesh(2)
    job = mesh.submit(1)
    mesh.settle()
    mesh.act(mesh[2], lambda ready: mesh[2].guarding.cancel(job, mesh.now_ms, ready))

    assert shelf(mesh, 2).unfinished[job].sender == node(1)


def test_who_sends_nothing_new_does_not_get_the_record_on_its_account():
    mesh = Mesh(3)
    job = mesh.submit(1)
    mesh.settle()
    record = shelf(mesh, 2).find(job)
    mesh.tell(node(3), node(2), Copy(record=encode(record)))

    assert shelf(mesh, 2).unfinished[job].sender == node(1)


def test_room_is_asked_for_by_rank():
    held, ready = Shelf(), Ready()
    held.accounts.limits = Allowance(0, 10 * MIB, 20 * MIB, 20 * MIB, 0)
    mesh = Mesh(2)
    record = mesh.record(1, mesh.submit(1))
    guest = Peer(id=node(1), name="eve", may_lend=False)
    member = Peer(id=node(1), name="eve")

    assert not held.has_room(record, 1, guest, 0, ready)
    assert held.has_room(record, 1, member, 0, ready)


def test_what_a_disk_has_lost_is_handed_to_nobody():
    mesh = Mesh(3)
    job = large(mesh, 1)
    first, second = mesh.record(1, job).guardians
    mesh.machines[first].disk_held.clear()
    mesh.machines[second].disk_held.clear()
    mesh.start(2 if first == node(2) else 3)
    copies = words_to(mesh, 2 if first == node(2) else 3, Copy)
    mesh.crash(1)
    mesh.look()
    mesh.pass_ms(20_000)

    assert not copies
    assert not mesh.machines[second].guarding.shelf.unfinished


def test_room_is_made_in_small_steps(monkeypatch):
    monkeypatch.setattr("distributed_grid.kernel.across.shelf.RECLAIMED_MAX", 1)
    mesh = Mesh(2)
    ended = [mesh.submit(1, f"ended-{number}") for number in range(3)]
    for job in ended:
        mesh.end(1, job, "succeeded")
    mesh.settle()
    held = shelf(mesh, 2)
    room_for(mesh, 2, held.accounts.total)
    job = large(mesh, 1)

    assert job not in held.unfinished
    assert [held.find(one).is_summary for one in ended] == [True, False, False]


def test_of_large_records_of_others_only_so_many_are_taken_over_at_a_time(monkeypatch):
    monkeypatch.setattr("distributed_grid.kernel.across.meeting.TAKEN_BYTES_MAX", 5 * LARGE_BYTES)
    mesh = Mesh(2)
    jobs = {large(mesh, 1, f"job-{number}") for number in range(3)} | {mesh.submit(1, "small")}
    mesh.settle()
    mesh.crash(1)
    mesh.look()
    mesh.pass_ms(30_000)
    taken = set(mesh[2].names("taken over"))

    assert len(taken) == 3
    assert job_id_of("small") in taken
    for job in taken:
        mesh.end(2, job, "succeeded")
    mesh.pass_ms(30_000)
    assert set(mesh[2].names("taken over")) == jobs


@pytest.mark.parametrize("more", range(0, 1_024, 128))
def test_how_a_job_ended_is_heard_also_if_that_makes_its_record_longer(more):
    mesh = Mesh(2)
    job = large(mesh, 1, size=LARGE_BYTES + more)
    room_for(mesh, 2, shelf(mesh, 2).accounts.total)
    mesh.end(1, job, "succeeded")
    mesh.settle()

    assert not shelf(mesh, 2).unfinished


def test_what_has_no_room_in_memory_is_on_disk_only():
    mesh = Mesh(2)
    shelf(mesh, 2)._memory.limits = Allowance(0, 0, 0, 0, 0)
    job = mesh.submit(1)
    mesh.settle()

    assert in_memory(mesh, 2) == 0
    assert shelf(mesh, 2).find(job).job == job


def test_what_is_not_on_disk_as_a_record_stays_in_memory_whatever_room_there_is():
    mesh = Mesh(2)
    shelf(mesh, 1)._memory.limits = Allowance(0, 0, 0, 0, 0)
    jobs = [mesh.submit(1), large(mesh, 1, "large")]
    for job in jobs:
        mesh.end(1, job, "succeeded")
    mesh.settle()

    assert not mesh[1].guarding.holders.own
    assert [shelf(mesh, 1).find(job).job for job in jobs] == jobs
