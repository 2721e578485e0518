"""The page about files says something about every key that a file may have."""

from pathlib import Path

import msgspec
import pytest

from distributed_grid.config.fleet import (
    AmountsEntry,
    CapabilitiesEntry,
    GpuEntry,
    NetworkEntry,
    NodeEntry,
    PowerEntry,
)
from distributed_grid.config.jobs import AvoidEntry, GpusEntry, JobEntry, WhereEntry

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "files.md"
NODE_SHAPES = (
    NodeEntry,
    CapabilitiesEntry,
    AmountsEntry,
    GpuEntry,
    PowerEntry,
    NetworkEntry,
)
JOB_SHAPES = (JobEntry, GpusEntry, WhereEntry, AvoidEntry)


@pytest.mark.rows("S1-38", "S1-114")
@pytest.mark.parametrize("shape", [*NODE_SHAPES, *JOB_SHAPES], ids=lambda shape: shape.__name__)
def test_every_key_of_a_file_is_documented(shape):
    text = PAGE.read_text("utf-8")

    missing = [
        field.encode_name
        for field in msgspec.structs.fields(shape)
        if f"{field.encode_name}:" not in text and f"`{field.encode_name}`" not in text
    ]

    assert missing == []
