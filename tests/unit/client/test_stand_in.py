"""What stands in for an agent hears the end of its client."""

import socket

import pytest

from tests.agent_stand_in import answering, hangs_up, read_request


@pytest.mark.parametrize(
    "said", [b"", b"GET / HT", b"PUT / HTTP/1.1\r\ncontent-length: 9\r\n\r\nab"]
)
def test_a_client_that_has_gone_before_it_was_heard_is_not_waited_for(said):
    here, there = socket.socketpair()
    with here, there:
        here.sendall(said)
        here.shutdown(socket.SHUT_WR)

        with pytest.raises(ConnectionError, match="gone"):
            read_request(there)


def test_a_stand_in_goes_with_a_client_that_said_nothing(tmp_path):
    with answering(tmp_path / "door", hangs_up) as path, socket.socket(socket.AF_UNIX) as client:
        client.connect(path)
    # It has ended: the thread is joined by the end of the block.
