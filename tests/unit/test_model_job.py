"""A specification of a stranger has its bounds; one of an earlier version means what it meant."""

import msgspec
import pytest

from distributed_grid.model.job import COPIES_MAX, GANG_MAX, JobSpec, Shipment


def read(**fields: object) -> JobSpec:
    told = {"id": "ab" * 32, "name": "train", **fields}
    return msgspec.json.decode(msgspec.json.encode(told), type=JobSpec)


def test_a_job_of_an_earlier_version_runs_anywhere_once_by_one_process():
    spec = read()

    assert (spec.policy, spec.locality, spec.at_most_once, spec.copies) == ("", "", False, 0)
    assert (spec.gang, spec.origin, spec.ship, spec.outputs) == (1, None, None, ())
    assert (spec.overwrite, spec.python_env) == (False, "")


def test_what_is_within_bounds_is_taken():
    ship = Shipment(manifest="c" * 64, size_bytes=1, files=1)
    spec = read(gang=GANG_MAX, copies=COPIES_MAX, ship=ship, locality="zone", outputs=["*.csv"])

    assert (spec.gang, spec.copies, spec.ship, spec.outputs) == (1_024, 4, ship, ("*.csv",))


@pytest.mark.parametrize(
    "fields",
    [
        {"gang": 0},
        {"gang": GANG_MAX + 1},
        {"copies": -1},
        {"copies": COPIES_MAX + 1},
        {"policy": "x" * 65},
        {"locality": "planet"},
        {"outputs": [""]},
        {"outputs": ["x" * 4_097]},
        {"outputs": ["x"] * 257},
        {"python_env": "x" * 129},
        {"ship": {"manifest": "x" * 129, "size_bytes": 1, "files": 1}},
        {"ship": {"manifest": "x", "size_bytes": -1, "files": 1}},
        {"ship": {"manifest": "x", "size_bytes": 2**62, "files": 1}},
        {"ship": {"manifest": "x", "size_bytes": 1, "files": 10**8}},
    ],
    ids=lambda fields: f"{next(iter(fields))}",
)
def test_what_is_out_of_bounds_is_refused_while_it_is_read(fields):
    with pytest.raises(msgspec.ValidationError):
        read(**fields)
