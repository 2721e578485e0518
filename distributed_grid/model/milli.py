"""Thousandths of a whole: cores, GPUs and custom kinds without a float.

Lives here: text to thousandths and back, exactly. Never here: bounds of one kind (`resources`).
"""

from decimal import Context, Decimal, Inexact, InvalidOperation

from distributed_grid.errors import BadValue

WHOLE = 1_000
MILLI_MAX = 1_000_000_000  # A million cores in one node; beyond it somebody mistyped.
NUMBER_CHARACTERS_MAX = 40  # A longer one is no amount, and costs time to parse.

_THOUSANDTH = Decimal("0.001")
_EXACT = Context(prec=2 * NUMBER_CHARACTERS_MAX, traps=[Inexact])  # Loses no digit in silence.


def parse(value: object, *, what: str = "amount") -> int:
    """Thousandths from `4`, `0.5` or `"0.5"`; finer than a thousandth is refused, not rounded."""
    number = decimal(value)
    if number is None or not number.is_finite():
        raise BadValue(value, expected=f"a number of {what}", remedy="Write it like 4 or 0.5")
    if number < 0:
        raise BadValue(value, expected=f"{what} of 0 or more", remedy="Amounts are not negative")
    if number > MILLI_MAX // WHOLE:
        raise BadValue(
            value, expected=f"at most {MILLI_MAX // WHOLE} {what}", remedy="Check the number"
        )
    try:
        return int(number.quantize(_THOUSANDTH, context=_EXACT) * WHOLE)
    except Inexact:
        raise BadValue(
            value, expected=f"{what} in steps of 0.001", remedy="Use at most three decimals"
        ) from None


def number(milli: int) -> int | float:
    """Thousandths as people read them: 4000 is 4, 500 is 0.5."""
    return milli // WHOLE if milli % WHOLE == 0 else milli / WHOLE


def text(milli: int) -> str:
    """Thousandths as text without needless zeros."""
    whole, rest = divmod(milli, WHOLE)
    return f"{whole}.{rest:03d}".rstrip("0") if rest else str(whole)


def decimal(value: object) -> Decimal | None:
    """A number as it was written, exactly; None for what is no number."""
    try:
        return Decimal(written(value).replace("_", "no number"))
    except InvalidOperation:
        return None


def written(value: object) -> str:
    """A number as somebody wrote it, or would have; empty for what is none or is too long."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return ""
    if isinstance(value, int) and abs(value) >= 10**NUMBER_CHARACTERS_MAX:
        return ""  # Python refuses to write some of those at all.
    # repr of a float is its shortest form: 0.1 becomes exactly a tenth.
    text = value.strip() if isinstance(value, str) else repr(value)
    return text if len(text) <= NUMBER_CHARACTERS_MAX else ""
