"""A job that saves its state goes on with it on another machine, over real agents and processes.

The job counts its attempts by what it saved: each adds one to the number that it finds.
"""

import contextlib

import pytest

from tests.mesh_jobs import ENDED, PLAIN, Gate, job, listed, once, over, submitted, told, tries
from tests.mesh_lab import MeshLab, awaited

pytestmark = pytest.mark.slow

NAMES = ("desk", "attic", "barn", "cellar")


@pytest.fixture(scope="module")
def fleet():
    with MeshLab.on_wire(NAMES, config=PLAIN) as made:
        made.form(made.members)
        yield made


@pytest.fixture
def lab(fleet):
    yield fleet
    for member in fleet.members:
        with contextlib.suppress(OSError):
            member("cancel", *(word for word, now in listed(member).items() if now not in ENDED))
    fleet.bring_up(member for member in fleet.members if not member.pids())
    fleet.settled(fleet.members)
    told_all(fleet.members[0], "undrain", *NAMES)


def told_all(member, word: str, *names: str) -> None:
    for name in names:
        member.says(word, name)


class Counter:
    """A job whose state is a number, and what each of its processes found."""

    def __init__(self, directory):
        self._found = directory / "found"
        self._found.touch()
        self.gate = Gate(directory / "gate")

    def submitted(self, member, *words: str) -> str:
        script = (
            "count=$(cat $GRID_CHECKPOINT_DIR/deep/count || echo 0); count=$((count + 1)); "
            "trap 'mkdir -p $GRID_CHECKPOINT_DIR/deep; "
            "echo $count >$GRID_CHECKPOINT_DIR/deep/count; exit' USR1; "
            f"echo $count >>{self._found}; flock --shared {self.gate.file} true & wait; "
            "echo counted $count"
        )
        # Who was drained for the last test may still count as that.
        options = ("--preempt-signal", "USR1", "--wait-for-capacity", *words)
        return submitted(member, *options, "--", "sh", "-c", script)

    @property
    def found(self) -> list[int]:
        return [int(word) for word in self._found.read_text().split()]


@pytest.fixture
def counter(tmp_path):
    made = Counter(tmp_path)
    yield made
    made.gate.open()


def moved(lab, counter, word: str) -> str:
    """Drain the node on which it runs; the node on which it goes on."""
    asked = next(member for member in lab.members if member.pids())
    node, before = once(asked, word, "running")["node"], len(counter.found)
    asked.says("drain", node)
    awaited(lambda: len(counter.found) > before, lambda: job(asked, word))
    awaited(lambda: job(asked, word)["node"] not in (None, node), lambda: job(asked, word))
    return once(asked, word, "running")["node"]


def states(member, word: str) -> list[str]:
    return [detail for _, detail in told(member, word, "its state")]


def saved_in(member) -> list[str]:
    return [one.name for one in (member.home / "checkpoints").iterdir()]


@pytest.mark.rows("S0-70", "S0-71")
def test_it_goes_on_from_guest_to_guest_and_nothing_is_left_when_it_has_ended(lab, counter):
    desk = lab["desk"]
    word = counter.submitted(desk, "--avoid", "desk")
    awaited(lambda: counter.found)
    first = once(desk, word, "running")["node"]
    second = moved(lab, counter, word)
    third = moved(lab, counter, word)

    assert tries(desk, word) == [first, second, third]
    assert counter.found == [1, 2, 3]
    assert states(desk, word) == [
        f"as attempt 1 on {first} saved it",
        f"as attempt 2 on {second} saved it",
    ]
    counter.gate.open()
    assert over(desk, word) == {"succeeded"}
    assert desk.says("logs", word) == "counted 3\n"
    awaited(lambda: not any(saved_in(member) for member in lab.members))


@pytest.mark.rows("S0-71")
def test_it_leaves_its_home_and_comes_back_to_newer_state_than_it_left_there(lab, counter):
    desk = lab["desk"]
    told_all(desk, "drain", *NAMES[1:])
    word = counter.submitted(desk)
    awaited(lambda: counter.found)
    assert once(desk, word, "running")["node"] == "desk"
    desk.says("undrain", "barn")
    assert moved(lab, counter, word) == "barn"
    desk.says("undrain", "desk")
    assert moved(lab, counter, word) == "desk"

    assert counter.found == [1, 2, 3]
    counter.gate.open()
    assert over(desk, word) == {"succeeded"}
    assert desk.says("logs", word) == "counted 3\n"
    awaited(lambda: not saved_in(desk))


@pytest.mark.rows("S0-71", "S0-90")
def test_if_home_and_host_die_it_goes_on_from_the_last_state_that_came_home(lab, counter):
    desk = lab["desk"]
    word = counter.submitted(desk, "--avoid", "desk")
    awaited(lambda: counter.found)
    first = once(desk, word, "running")["node"]
    second = moved(lab, counter, word)
    desk.kill()
    lab[second].kill()
    awaited(lambda: len(counter.found) == 3)

    left = [member for member in lab.members if member.pids()]
    assert counter.found == [1, 2, 2]
    assert states(left[0], word)[-1] == f"as attempt 1 on {first} saved it"
    counter.gate.open()
    for member in left:
        assert over(member, word) == {"succeeded"}
