"""Jobs that never run twice at once, over real machines that are cut off, killed, and come back."""

from pathlib import Path

import pytest

from tests.mesh_jobs import PLAIN, Gate, job, once, over, submitted, told
from tests.mesh_lab import MeshLab, awaited, passed

pytestmark = pytest.mark.slow

NAMES = ("desk", "attic", "barn", "cellar")
LEASE_S = 9.5


class Witness:
    """What every process of a job writes down: itself, and whom it finds alive."""

    def __init__(self, directory: Path) -> None:
        self._runs, self._alive = directory / "runs", directory / "alive"
        self._runs.touch()
        self.gate = Gate(directory / "gate")

    @property
    def words(self) -> tuple[str, ...]:
        script = (
            f"for pid in $(cat {self._runs}); do kill -0 $pid && echo $pid >>{self._alive}; done; "
            f'echo $$ >>{self._runs}; exec flock --shared {self.gate.file} echo "$GRID_FENCE"'
        )
        return ("sh", "-c", script)

    @property
    def runs(self) -> list[int]:
        return [int(pid) for pid in self._runs.read_text().split()]

    @property
    def is_twice(self) -> bool:
        return self._alive.exists()

    def is_alive(self, number: int) -> bool:
        return Path(f"/proc/{self.runs[number]}/stat").exists()


@pytest.fixture
def lab():
    with MeshLab.on_wire(NAMES, config=PLAIN) as made:
        made.form(made.members)
        yield made


@pytest.fixture
def witness(tmp_path):
    return Witness(tmp_path)


def test_one_that_is_cut_off_ends_before_another_starts_and_there_is_one_end(lab, witness):
    desk = lab["desk"]
    word = submitted(desk, "--at-most-once", "--avoid", "desk", "--", *witness.words)
    first = once(desk, word, "running")["node"]
    awaited(lambda: witness.runs)
    lab.host(first).unplug()

    awaited(lambda: not witness.is_alive(0))
    assert len(witness.runs) == 1
    awaited(lambda: len(witness.runs) == 2)
    assert not witness.is_twice
    assert job(desk, word)["node"] != first

    lab.host(first).plug_in()
    lab.settled(lab.members)
    witness.gate.open()
    for member in lab.members:
        assert over(member, word) == {"succeeded"}
    assert len(witness.runs) == 2
    assert not witness.is_twice


def test_it_goes_on_when_its_home_dies(lab, witness):
    desk = lab["desk"]
    word = submitted(desk, "--at-most-once", "--avoid", "desk", "--", *witness.words)
    host = lab[once(desk, word, "running")["node"]]
    awaited(lambda: witness.runs)
    desk.kill()
    other = next(one for one in lab.members if one not in (desk, host))
    awaited(lambda: told(other, word, "taken over"))
    passed(2 * LEASE_S, watching=lambda: witness.is_alive(0) or pytest.fail("it was ended"))

    witness.gate.open()
    assert over(other, word) == {"succeeded"}
    assert len(witness.runs) == 1


@pytest.mark.rows("S0-87")
def test_without_its_voters_it_is_stuck_until_a_person_forces_it(lab, witness):
    desk, *others = lab.members
    word = submitted(desk, "--at-most-once", "--node", "desk", "--", *witness.words)
    once(desk, word, "running")
    awaited(lambda: witness.runs)
    for member in others:
        member.kill()
    awaited(lambda: not witness.is_alive(0))
    awaited(lambda: job(desk, word)["reason"].startswith("stuck: needs "))
    assert len(witness.runs) == 1

    desk.says("job", "force", "--yes", word)
    awaited(lambda: len(witness.runs) == 2)
    assert not witness.is_twice
    witness.gate.open()
    assert over(desk, word) == {"succeeded"}
    refused = desk("job", "force", "--yes", word)
    assert refused.returncode == 5
    assert "not stuck" in refused.stderr
