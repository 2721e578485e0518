"""A job that must leave, with a directory that is not there."""

from functools import partial

import pytest

from distributed_grid.edges.artifacts import CannotShip
from distributed_grid.model.job import Where
from tests.unit.agent.luggage_lab import Lab, in_a_lab
from tests.unit.artifacts.lab import plant


@pytest.fixture
def lab(tmp_path):
    return partial(in_a_lab, lambda: Lab(tmp_path))


def test_a_directory_that_is_not_there_is_refused_where_it_would_leave_and_only_there(
    lab, tmp_path
):
    async def test(lab):
        gone = tmp_path / "gone"
        specs = [lab.a_spec(gone, name, require=Where(nodes=("node-2",))) for name in ("a", "b")]
        with pytest.raises(CannotShip, match=r"gone cannot be sent.*no such directory") as caught:
            await lab.setting_out.taken((*specs,))
        assert "--cwd" in caught.value.remedy
        assert "gridignore" not in caught.value.remedy
        assert lab.setting_out.bare == set()

        either = lab.a_spec(gone, "c", require=Where(nodes=("node-1", "node-2")))
        assert await lab.setting_out.taken((either,)) == (either,)
        plant(gone, {})
        assert await lab.setting_out.taken((specs[0],)) == (specs[0],)
        lab.home.submit(specs[0])
        gone.rmdir()  # It was there when the job was taken.
        assert await lab.setting_out.taken((specs[0],)) == (specs[0],)

    lab(test)
