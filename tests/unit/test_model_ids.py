"""What is an id, and what is none?"""

import hashlib

import pytest

from distributed_grid.errors import BadValue
from distributed_grid.model import ids

GOOD = "5f0c" + "0" * 60


@pytest.mark.parametrize("read", [ids.node_id, ids.job_id])
def test_64_hex_digits_are_an_id_and_upper_case_means_the_same(read):
    assert read(GOOD) == GOOD
    assert read(GOOD.upper()) == GOOD
    assert read("1" * 64) == "1" * 64


@pytest.mark.parametrize(
    "wrong",
    [
        "",
        "5f0c",
        GOOD[:-1],
        GOOD + "0",
        "g" + GOOD[1:],
        GOOD[:-1] + "\n",
        " " + GOOD[1:],
        "٤" * 64,
        None,
        True,
        1.5,
        [GOOD],
    ],
)
def test_anything_else_is_refused(wrong):
    with pytest.raises(BadValue) as caught:
        ids.node_id(wrong)

    assert "64 hex digits" in caught.value.expected


def test_an_id_that_became_a_number_is_told_to_wear_quotes():
    with pytest.raises(BadValue) as caught:
        ids.node_id(int("1" * 64))

    assert caught.value.remedy == "Put the id in quotes"


def test_the_length_of_a_short_id_is_told():
    with pytest.raises(BadValue, match="has 4 characters"):
        ids.node_id("5f0c")


def test_a_job_without_an_id_has_that_of_its_name():
    assert ids.job_id_of("training-job") == hashlib.sha256(b"training-job").hexdigest()
