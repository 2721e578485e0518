"""Spoilt bytes for all that reads bytes of others: only what is documented is raised, and soon.

`make fuzz` tries a million; `python -m tests.words.fuzzing --seed N` shows a finding again.
"""

import asyncio
import socket

import msgspec
import pytest

from distributed_grid.edges.runner.agent_link import AgentLink
from distributed_grid.edges.runner.agent_process import AgentProcess
from distributed_grid.edges.runner.door import SOCKET_FILE, Door, standing_in
from distributed_grid.errors import BadTicket, BadValue
from distributed_grid.web.bodies import plain
from distributed_grid.wire.frames import Unframer, framed
from distributed_grid.wire.ticket import PREFIX, VERSION, _checksum, _letters, read_ticket
from tests.words.fuzzing import fuzz, tried
from tests.words.readers import Reader, decoders


def no_text(**fields: str) -> bytes:
    """Of the right kind, but that one of its texts is none."""
    return msgspec.msgpack.encode(fields).replace(b"xyz", b"x\xffz")


NO_TEXT = no_text(type="adopt", cwd="xyz")
DEEP = b"\x91" * 100_000
JUNK = [NO_TEXT, DEEP, b"\xc1"]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_spoilt_bytes_are_read_or_refused_as_it_is_documented(seed, tmp_path):
    assert fuzz(seed, 5_000, str(tmp_path)) == []


def test_every_decoder_of_the_package_is_among_the_readers():
    found = decoders()

    places = {name.rpartition(".")[0].removeprefix("distributed_grid.") for name in found}
    assert {"wire.job_lane", "wire.mesh", "wire.artifacts", "wire.ticket"} <= places
    assert {"edges.runner.door", "edges.runner.agent_link", "web.bodies"} <= places
    assert {"kernel.across.record_bytes", "kernel.mesh.roster", "model.artifact"} <= places


def _broken(data: bytes) -> None:
    raise ZeroDivisionError(data.hex())


def test_what_is_not_documented_is_a_finding():
    reader = Reader("one", _broken, (b"",), (ValueError,))

    assert tried(reader, b"x") == "ZeroDivisionError: 78"


@pytest.mark.parametrize("junk", JUNK)
def test_the_keepers_door_closes_on_junk_and_lives(junk, tmp_path):
    door = Door(str(tmp_path))
    with socket.socket(socket.AF_UNIX) as caller, standing_in(str(tmp_path)):
        caller.connect(SOCKET_FILE)
        descriptor = door.open()
        caller.sendall(framed(junk)[:60_000] if junk is DEEP else framed(junk))
        caller.shutdown(socket.SHUT_WR)

        asked = []
        while door.answer(descriptor, asked.append):
            pass

    assert asked == []
    assert door.callers == {}
    door.close()


@pytest.mark.parametrize("junk", [no_text(type="stop", attempt="xyz"), DEEP[:20_000], b"\xc1"])
def test_the_keeper_takes_junk_of_its_agent_for_the_end_of_the_line(junk):
    ours, theirs = socket.socketpair()
    agent = AgentProcess(("true",), {}, "/")
    agent.line = ours
    theirs.sendall(framed(junk))

    with ours, theirs:
        assert agent.read() is None


@pytest.mark.parametrize("junk", [no_text(type="hello", keeper_id="xyz"), DEEP, b"\xc1"])
def test_an_agent_takes_junk_of_its_keeper_for_the_end_of_the_line(junk):
    async def heard() -> bool:
        ours, theirs = socket.socketpair()
        link = AgentLink(*await asyncio.open_unix_connection(sock=ours), Unframer())
        writer = (await asyncio.open_unix_connection(sock=theirs))[1]
        writer.write(framed(junk))
        writer.close()
        return await link.receive() == ()

    assert asyncio.run(heard())


def test_a_ticket_that_somebody_made_of_junk_is_no_ticket():
    body = msgspec.msgpack.encode([b"m" * 32, [b"n" * 32, ["abc"], ""], [], b"s" * 16, 1])
    body = body.replace(b"abc", b"a\xffc")
    data = bytes([VERSION]) + len(body).to_bytes(2, "big") + body

    with pytest.raises(BadTicket):
        read_ticket(PREFIX + _letters(data + _checksum(data)))


def test_a_body_that_is_no_text_is_refused_as_no_json():
    with pytest.raises(BadValue):
        plain(b'{"jobs": "\xff"}')
