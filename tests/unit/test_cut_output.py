import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributed_grid.wire.cut_output import (
    HEAD_BYTES,
    Span,
    head,
    marker_name,
    older_name,
    span_of,
)


@given(st.integers(0, 10**18), st.binary(max_size=100))
def test_an_older_part_says_where_it_begins_and_ends(start, body):
    data = head(start) + body

    assert span_of(data, len(data)) == Span(start, start + len(body), HEAD_BYTES)
    assert span_of(data[:HEAD_BYTES], len(data)) == span_of(data, len(data))


@pytest.mark.parametrize(
    "data", [b"", b"plain bytes of a job, and many of them", b"grid-cut ", b"grid-cut 12\n",
             b"grid-cut word and more words\n", head(5)[:-1], b"grid-cut -00000000000000006\n"]
)  # fmt: skip
def test_what_has_no_head_of_ours_begins_at_the_beginning(data):
    assert span_of(data, len(data)) == Span(0, len(data), 0)


def test_the_names_stand_beside_the_file():
    assert (older_name("/d/stdout"), marker_name("/d/stdout")) == ("/d/stdout.1", "/d/stdout.cut")
