"""Are spans of time what people mean by them?"""

import pytest

from distributed_grid.errors import BadValue
from distributed_grid.model import duration


@pytest.mark.parametrize(
    ("written", "span_ms"),
    [
        ("60s", 60_000),
        ("60", 60_000),
        (60, 60_000),
        (0.5, 500),
        ("250ms", 250),
        ("5m", 300_000),
        ("5 min", 300_000),
        ("1.5h", 5_400_000),
        ("2d", 172_800_000),
        ("0", 0),
    ],
)
def test_a_span_is_read(written, span_ms):
    assert duration.parse(written) == span_ms


@pytest.mark.parametrize(
    "wrong",
    [
        "",
        "soon",
        "-1s",
        "1w",
        "1h30m",
        True,
        None,
        [1],
        float("nan"),
        pytest.param(10**5_000, id="endless"),
        "1e3",
    ],
)
def test_what_is_no_span_is_refused(wrong):
    with pytest.raises(BadValue) as caught:
        duration.parse(wrong)

    assert caught.value.expected == "a span of time"


def test_more_than_a_century_is_a_mistyped_unit():
    assert duration.parse("36500d") == duration.DURATION_MS_MAX
    with pytest.raises(BadValue, match="century"):
        duration.parse("36501d")


@pytest.mark.parametrize(
    ("span_ms", "text"),
    [
        (0, "0ms"),
        (999, "999ms"),
        (1_500, "1.5s"),
        (60_000, "1m"),
        (90_000, "1m30s"),
        (3_600_000, "1h"),
        (5_400_000, "1h30m"),
        (86_400_000, "1d"),
        (90_000_000, "1d1h"),
    ],
)
def test_a_span_is_shown_in_two_units_at_most(span_ms, text):
    assert duration.text(span_ms) == text
