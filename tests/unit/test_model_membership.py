"""What a node may be called."""

import pytest

from distributed_grid.errors import BadValue
from distributed_grid.model.membership import node_name


@pytest.mark.parametrize("name", ["desk", "a", "my laptop", "größe", "x" * 64, "ä" * 32, "a-b.c:d"])
def test_a_name_that_prints_is_taken_as_it_is(name):
    assert node_name(name) == name


@pytest.mark.parametrize(
    "name", ["", " ", " desk", "desk ", "x" * 65, "ä" * 33, "a\nb", "\x1b[1m", "\udcff", "-rf",
             "id:abc", "name:abc"]
)  # fmt: skip
def test_a_name_that_does_not_print_or_could_not_be_found_is_refused(name):
    with pytest.raises(BadValue) as refused:
        node_name(name)

    assert refused.value.field == "name"
