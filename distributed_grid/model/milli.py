"""Thousandths of a whole: cores, GPUs and custom kinds without a float.

Lives here: text to thousandths and back, exactly. Never here: bounds of one kind (`resources`).
"""

from decimal import Decimal, InvalidOperation

from distributed_grid.errors import BadValue

WHOLE = 1_000
MILLI_MAX = 1_000_000_000  # A million cores in one node; beyond it somebody mistyped.


def parse(value: object, *, what: str = "amount") -> int:
    """Thousandths from `4`, `0.5` or `"0.5"`; finer than a thousandth is refused, not rounded."""
    number = decimal(value)
    if number is None or not number.is_finite():
        raise BadValue(value, expected=f"a number of {what}", remedy="Write it like 4 or 0.5")
    if number < 0:
        raise BadValue(value, expected=f"{what} of 0 or more", remedy="Amounts are not negative")
    if number * WHOLE > MILLI_MAX:
        raise BadValue(
            value, expected=f"at most {MILLI_MAX // WHOLE} {what}", remedy="Check the number"
        )
    thousandths = number * WHOLE
    if thousandths != int(thousandths):
        raise BadValue(
            value, expected=f"{what} in steps of 0.001", remedy="Use at most three decimals"
        )
    return int(thousandths)


def number(milli: int) -> int | float:
    """Thousandths as people read them: 4000 is 4, 500 is 0.5."""
    return milli // WHOLE if milli % WHOLE == 0 else milli / WHOLE


def text(milli: int) -> str:
    """Thousandths as text without needless zeros."""
    return f"{number(milli):g}" if milli % WHOLE else str(milli // WHOLE)


NUMBER_CHARACTERS_MAX = 40  # A longer one is no amount, and costs time to parse.


def decimal(value: object) -> Decimal | None:
    """A number as it was written, exactly; None for what is no number."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    # repr of a float is its shortest form: 0.1 becomes exactly a tenth.
    written = value.strip() if isinstance(value, str) else repr(value)
    if len(written) > NUMBER_CHARACTERS_MAX or "_" in written:
        return None
    try:
        return Decimal(written)
    except InvalidOperation:
        return None
