import h11
import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributed_grid.client.exchange import (
    HEAD_BYTES_MAX,
    BadAnswer,
    Broken,
    End,
    Exchange,
    Gathering,
    Head,
    Request,
    Response,
)

ASK = Request("GET", "/health")
CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"


def asked() -> Exchange:
    exchange = Exchange()
    exchange.ask(ASK)
    return exchange


def served(body: bytes, *, chunks: int) -> bytes:
    """What a real server writes: h11's other side."""
    server = h11.Connection(h11.SERVER)
    server.receive_data(Exchange().ask(ASK))
    server.next_event()
    server.next_event()
    headers = (
        [("content-length", str(len(body)))] if not chunks else [("transfer-encoding", "chunked")]
    )
    size = max(len(body) // max(chunks, 1), 1)
    parts = [server.send(h11.Response(status_code=200, headers=headers))]
    parts += [server.send(h11.Data(data=body[i : i + size])) for i in range(0, len(body), size)]
    return b"".join(part for part in [*parts, server.send(h11.EndOfMessage())] if part)


@given(body=st.binary(max_size=2_000), chunks=st.integers(0, 5), cuts=st.lists(st.integers(1, 80)))
def test_an_answer_is_the_same_however_its_bytes_arrive(body, chunks, cuts):
    data, exchange, gathering, response = served(body, chunks=chunks), asked(), Gathering(), None
    for size in [*cuts, len(data)]:
        part, data = data[:size], data[size:]
        if part:
            response = gathering.add(exchange.hear(part)) or response

    assert response == Response(200, body)
    assert exchange.is_reusable


def test_a_second_question_follows_on_the_same_connection():
    exchange = asked()
    first = exchange.hear(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")
    exchange.ask(ASK)
    second = exchange.hear(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")

    assert first == [Head(200), b"{}", End()]
    assert second == [Head(404), End()]


def test_a_connection_that_the_server_closes_is_not_used_again():
    exchange = asked()
    exchange.hear(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")

    assert not exchange.is_reusable


@pytest.mark.parametrize(
    "said", [b"", b"HTTP/1.1 200", b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nab"]
)
def test_an_end_in_the_middle_is_broken_and_not_nonsense(said):
    exchange = asked()
    if said:
        exchange.hear(said)

    with pytest.raises(Broken):
        exchange.hear(b"")


@pytest.mark.parametrize(
    "said",
    [
        b"SSH-2.0-OpenSSH_9.6\r\n\r\n",
        b"\x00\x01\x02\x03" * 20 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: -4\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\nx: " + b"y" * 100_000,
        b"HTTP/1.1 200 OK\r\nx: " + b"y" * HEAD_BYTES_MAX + b"\r\ncontent-length: 0\r\n\r\n",
        b"S",  # At once: a stranger who says no more must not cost half a minute.
        b"HTTP/2 200\r\n",
        b"HTTP/1.0 200 OK\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 2000 OK\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 2.0 OK\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n folded: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nnonsense\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length : 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n: 0\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 1_0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: " + b"9" * 16 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: gzip\r\n\r\n",
        CHUNKED[:-2] + b"transfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        CHUNKED + b"\r\n",
        CHUNKED + b"0x1\r\n",
        CHUNKED + b"-1\r\n",
        CHUNKED + b"f" * 16 + b"\r\n",
        CHUNKED + b"1;" + b"x" * 300,
        CHUNKED + b"1\r\nab\r\n",
        CHUNKED + b"0\r\ntrailer: 1\r\n\r\n",
    ],
)
def test_what_is_no_http_is_a_bad_answer(said):
    with pytest.raises(BadAnswer):
        asked().hear(said)


def test_a_head_may_be_as_long_as_the_limit():
    line = b"HTTP/1.1 204 None\r\nx: "
    exchange = asked()

    assert exchange.hear(line + b"y" * (HEAD_BYTES_MAX - len(line)) + b"\r\n\r\n") == [
        Head(204),
        End(),
    ]
    assert exchange.is_reusable


def test_what_follows_an_answer_unasked_spoils_the_connection_and_not_the_answer():
    exchange = asked()
    pieces = exchange.hear(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}HTTP/1.1 200 OK\r\n")

    assert pieces == [Head(200), b"{}", End()]
    assert not exchange.is_reusable


def test_an_answer_without_a_question_is_a_bad_one():
    exchange = Exchange()

    with pytest.raises(BadAnswer, match="without a question"):
        exchange.hear(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
    assert not exchange.is_reusable


def test_a_stream_is_told_as_it_comes():
    exchange = asked()

    assert exchange.hear(CHUNKED.replace(b"chunked", b"Chunked") + b"5\r\nab") == [Head(200), b"ab"]
    assert exchange.hear(b"c") == [b"c"]
    assert exchange.hear(b"de\r\n1;x=y\r\nf\r") == [b"de", b"f"]
    assert exchange.hear(b"\n0\r\n\r") == []
    assert exchange.hear(b"\n") == [End()]
    assert exchange.is_reusable


def test_an_answer_beyond_the_limit_is_refused_before_it_is_held():
    gathering = Gathering(bytes_max=10)
    gathering.add([Head(200), b"12345"])

    with pytest.raises(BadAnswer, match="longer than 10 bytes"):
        gathering.add([b"678901"])


@given(
    method=st.sampled_from(["GET", "POST"]),
    body=st.binary(max_size=100),
    target=st.text("abc/?=&%:.-", min_size=1).map("/".__add__),
)
def test_a_real_server_reads_what_is_asked(method, body, target):
    server = h11.Connection(h11.SERVER)
    server.receive_data(Exchange().ask(Request(method, target, body, media="text/plain")))
    head, *parts = [server.next_event(), server.next_event()]
    while not isinstance(parts[-1], h11.EndOfMessage):
        parts.append(server.next_event())
        assert len(parts) < 5

    assert (head.method, head.target) == (method.encode(), target.encode())
    assert dict(head.headers).get(b"content-type") == (b"text/plain" if body else None)
    assert b"".join(part.data for part in parts if isinstance(part, h11.Data)) == body
    assert isinstance(parts[-1], h11.EndOfMessage)


def test_a_request_names_its_length_and_carries_its_body():
    sent = Exchange().ask(Request("POST", "/v1/jobs", b'{"jobs":[]}'))

    assert sent.startswith(b"POST /v1/jobs HTTP/1.1\r\n")
    assert b"content-length: 11\r\n" in sent.lower()
    assert sent.endswith(b'{"jobs":[]}')
