"""Everything that may be said on the job lane of a link.

Lives here: the union of its messages, bytes and back; that
specifications in them are sound. Never here: what they mean.
"""

import msgspec

from distributed_grid.model.soundness import check
from distributed_grid.wire.across import AcrossMessage, Line, Reserve, Start
from distributed_grid.wire.gangs import GangMessage, Hold
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
    message = _decoder.decode(body)
    match message:
        case Reserve() | Hold() | Start():
            check(message.spec)
            if message.spec.id != message.job:
                raise msgspec.ValidationError("the specification of another job")
            if isinstance(message, Start) and message.spec.work is None:
                raise msgspec.ValidationError("nothing to run")
        case Line():
            for _, _, _, spec in message.waiting:
                check(spec)
    return message
