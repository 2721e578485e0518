"""Everything that may be said on the job lane of a link.

Lives here: the union of its messages, bytes and back; that
specifications in them are sound. Never here: what they mean.
"""

import msgspec

from distributed_grid.model.ids import JobId
from distributed_grid.model.job import JobSpec
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
    if isinstance(message, (Reserve, Start, Hold)):
        _check(message.job, message.spec)
        if message.spec.work is None and isinstance(message, Start):
            raise msgspec.ValidationError("nothing to run")
    elif isinstance(message, Line):
        for _, job, _, spec in message.waiting:
            _check(job, spec)
    return message


def _check(job: JobId, spec: JobSpec) -> None:
    check(spec)
    if spec.id != job:
        raise msgspec.ValidationError("the specification of another job")
