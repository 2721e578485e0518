"""Are bytes what people mean by them?"""

import pytest

from distributed_grid.errors import BadValue
from distributed_grid.model import bytesize
from distributed_grid.model.bytesize import GIB, PIB, TIB


@pytest.mark.parametrize(
    ("written", "size"),
    [
        ("16GiB", 16 * GIB),
        ("16 gib", 16 * GIB),
        ("16Gi", 16 * GIB),
        ("16G", 16 * 10**9),
        ("16GB", 16 * 10**9),
        ("500M", 500 * 10**6),
        ("1.5TiB", 3 * TIB // 2),
        ("2k", 2_000),
        ("2KiB", 2_048),
        ("1PiB", PIB),
        ("7", 7),
        ("7b", 7),
        (7, 7),
        (16e9, 16 * 10**9),
        (0, 0),
        ("1024 PiB", bytesize.BYTES_MAX),
    ],
)
def test_an_amount_of_bytes_is_read(written, size):
    assert bytesize.parse(written) == size


@pytest.mark.parametrize(
    "wrong",
    [
        *("", "much", "16XB", "16GiBs", "-1", -1, "1e30", "nan", float("nan"), float("inf"), True),
        *(
            None,
            [16],
            "1.2.3GiB",
            "0x10",
            "16 G iB",
            10**30,
            pytest.param(10**5_000, id="endless"),
            "9" * 21,
        ),
    ],
)
def test_what_is_no_amount_of_bytes_is_refused(wrong):
    with pytest.raises(BadValue) as caught:
        bytesize.parse(wrong)

    assert caught.value.expected == "an amount of bytes"


@pytest.mark.parametrize("huge", ["1025PiB", bytesize.BYTES_MAX + 1, "9" * 20])
def test_more_than_an_exbibyte_is_a_mistyped_unit(huge):
    with pytest.raises(BadValue, match="at most 1024 PiB"):
        bytesize.parse(huge)


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (1_023, "1023 B"),
        (1_024, "1 KiB"),
        (1_536, "1.5 KiB"),
        (24 * GIB, "24 GiB"),
        (GIB - 1, "1023.9 MiB"),
        (2 * TIB, "2 TiB"),
        (PIB, "1 PiB"),
    ],
)
def test_bytes_are_shown_in_the_largest_unit_that_fits(size, text):
    assert bytesize.text(size) == text
