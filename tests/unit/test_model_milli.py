"""Are thousandths exact?"""

import pytest

from distributed_grid.errors import BadValue
from distributed_grid.model import milli


@pytest.mark.parametrize(
    ("written", "thousandths"),
    [
        (0, 0),
        (4, 4_000),
        ("4", 4_000),
        (0.1, 100),
        ("0.001", 1),
        (" 9.5 ", 9_500),
        ("1e3", 1_000_000),
        ("1.500000", 1_500),
        (-0.0, 0),
        (1_000_000, milli.MILLI_MAX),
    ],
)
def test_a_number_is_read_exactly(written, thousandths):
    assert milli.parse(written) == thousandths


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        ("four", "a number of cores"),
        ("", "a number of cores"),
        ("1_000", "a number of cores"),
        ("0x10", "a number of cores"),
        (None, "a number of cores"),
        (True, "a number of cores"),
        ([4], "a number of cores"),
        ("nan", "a number of cores"),
        ("sNaN", "a number of cores"),
        (float("nan"), "a number of cores"),
        (float("inf"), "a number of cores"),
        ("-Infinity", "a number of cores"),
        ("1" * 41, "a number of cores"),
        pytest.param(10**5_000, "a number of cores", id="endless"),
        pytest.param(-(10**5_000), "a number of cores", id="endless-negative"),
        (-1, "cores of 0 or more"),
        ("-0.001", "cores of 0 or more"),
        (10**30, "at most 1000000 cores"),
        ("1000000.001", "at most 1000000 cores"),
        ("1e9999999", "at most 1000000 cores"),
        ("0.0001", "cores in steps of 0.001"),
        ("1e-9999999", "cores in steps of 0.001"),
        ("4.0000000000000000000000000000000001", "cores in steps of 0.001"),
    ],
)
def test_what_is_no_amount_is_refused_and_not_rounded(wrong, expected):
    with pytest.raises(BadValue) as caught:
        milli.parse(wrong, what="cores")

    assert caught.value.expected == expected


@pytest.mark.parametrize(
    ("amount", "number", "text"),
    [
        (4_000, 4, "4"),
        (500, 0.5, "0.5"),
        (1, 0.001, "0.001"),
        (0, 0, "0"),
        (123_456_789_001, 123_456_789.001, "123456789.001"),
        (999_999_001, 999_999.001, "999999.001"),
    ],
)
def test_thousandths_are_shown_without_needless_zeros(amount, number, text):
    assert milli.number(amount) == number
    assert milli.text(amount) == text
