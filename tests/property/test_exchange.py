"""Whatever bytes arrive, cut in whatever way: one outcome, and never anything but three kinds."""

from hypothesis import given
from hypothesis import strategies as st

from distributed_grid.client.exchange import (
    CHUNK_LINE_BYTES_MAX,
    HEAD_BYTES_MAX,
    BadAnswer,
    Broken,
    Exchange,
    Gathering,
    Request,
)

BODIES = st.binary(max_size=300)
HEADS = st.sampled_from(
    [
        b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n",
        b"HTTP/1.1 404\r\nServer: x\r\nConnection: close\r\nContent-Length:%d\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nx: " + b"y" * HEAD_BYTES_MAX + b"\r\ncontent-length: %d\r\n\r\n",
    ]
)
CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: Chunked\r\n\r\n"


@st.composite
def answers(draw) -> bytes:
    """An answer, with a length or in chunks; some are beyond a limit."""
    if draw(st.booleans()):
        body = draw(BODIES)
        return draw(HEADS) % len(body) + body
    extension = draw(st.sampled_from([b"", b";a=b", b";" + b"e" * CHUNK_LINE_BYTES_MAX]))
    parts = draw(st.lists(BODIES.filter(len), max_size=4))
    chunks = [b"%x%s\r\n%s\r\n" % (len(part), extension, part) for part in parts]
    return CHUNKED + b"".join(chunks) + b"0\r\n\r\n"


@st.composite
def damaged(draw) -> bytes:
    """An answer in which something is missing, or something is too much."""
    data = draw(answers())
    at = draw(st.integers(0, min(len(data), 400)))
    return data[:at] + draw(st.binary(max_size=6)) + data[at + draw(st.integers(0, 6)) :]


def outcome(parts: list[bytes]) -> object:
    """What a driver would make of these reads, and of the close that follows."""
    exchange, gathering = Exchange(), Gathering()
    exchange.ask(Request("GET", "/"))
    try:
        for part in [*filter(None, parts), b""]:
            if (response := gathering.add(exchange.hear(part))) is not None:
                return response
    except (BadAnswer, Broken) as error:
        return type(error), str(error)
    raise AssertionError("an end was heard, and nothing came of it")


def cut(data: bytes, sizes: list[int]) -> list[bytes]:
    parts = []
    for size in sizes:
        parts.append(data[:size])
        data = data[size:]
    return [*parts, data]


@given(data=answers() | damaged() | st.binary(max_size=200), sizes=st.lists(st.integers(1, 90)))
def test_the_outcome_is_the_same_however_the_bytes_are_cut(data, sizes):
    assert outcome(cut(data, sizes)) == outcome([data])


@given(data=answers())
def test_the_outcome_is_the_same_byte_by_byte(data):
    short = data[-600:] if len(data) < HEAD_BYTES_MAX else data[:600]

    assert outcome([bytes([byte]) for byte in short]) == outcome([short])
