"""Everything that may be said on the job lane of a link.

Lives here: the union of its messages, bytes and back. Never here: what they mean.
"""

import msgspec

from distributed_grid.wire.across import AcrossMessage
from distributed_grid.wire.gangs import GangMessage
from distributed_grid.wire.questions import QuestionMessage
from distributed_grid.wire.register import RegisterMessage

JobMessage = AcrossMessage | GangMessage | RegisterMessage
LaneMessage = JobMessage | QuestionMessage  # What the kernel hears, and what people ask.

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[LaneMessage] = msgspec.msgpack.Decoder(LaneMessage)


def encode(message: LaneMessage) -> bytes:
    """A message as bytes, without a frame."""
    return _encoder.encode(message)


def decode(body: bytes) -> LaneMessage:
    """A message from bytes that any member may have sent; raises one of `wire.mesh.JUNK`."""
    return _decoder.decode(body)
