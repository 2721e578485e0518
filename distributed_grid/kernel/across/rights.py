"""What other nodes may say and ask about the records of jobs, by their roles.

Lives here: whose word on a job is heard, and who is told of it. Never here: roles themselves and
certificates (`kernel.mesh`), what a role may lend or borrow (`hosting`, `holds`).
Invariant: whoever only works or is only a guest learns nothing of jobs that are none of its own and
do not run there, and changes nothing of them; who is not known here has no say at all. Members are
trusted: a record is not signed.
"""

from distributed_grid.kernel.across.peers import Peer
from distributed_grid.kernel.across.record import HOLDERS_MAX, JobRecord
from distributed_grid.kernel.across.record_bytes import is_readable, spec_of
from distributed_grid.kernel.across.record_parts import note_of, standing_of
from distributed_grid.model.ids import NodeId


def is_keeper(peer: Peer | None) -> bool:
    """Whether it may hold records of others and take their jobs over: an admin, or a member."""
    return peer is not None and peer.may_submit and peer.may_lend


def may_tell(peer: Peer | None, record: JobRecord, known: JobRecord | None) -> bool:
    """Whether a record is heard from this node; `known` is what is here of the job."""
    if peer is None:
        return False
    if not peer.may_submit or not (may_spread(peer.id, record) or _votes(peer.id, record, known)):
        return False
    if peer.may_lend:
        return True
    if known is None:
        return _speaks_for(peer, record)
    is_same = record.is_summary or record.spec == known.spec
    return _is_named(peer.id, known) and (is_same or _speaks_for(peer, record))


def may_spread(node: NodeId, record: JobRecord) -> bool:
    """Whether a member tells others of a job unasked; who only votes on it answers, no more."""
    is_cut = len(record.holders) >= HOLDERS_MAX  # Of so many some names are not written down.
    return is_cut or _is_named(node, record)


def may_ask(peer: Peer | None, record: JobRecord) -> bool:
    """Whether it is told what is known of a job: members are, others of their own part in it."""
    if peer is None:
        return False
    if is_keeper(peer) or _is_named(peer.id, record):
        return True
    return any(note_of(body).host == peer.id for body in record.attempts.values())


def _is_named(node: NodeId, record: JobRecord) -> bool:
    """Whether it looks after the job, or did, or was to hold its record."""
    return node == record.home or node in record.holders


def _votes(node: NodeId, *records: JobRecord | None) -> bool:
    """Whether it votes on the job by one of these: it may know an end that no holder knows."""
    told = [standing_of(record.standing).votes for record in records if record is not None]
    return any(one.node == node for votes in told if votes for one in (*votes.voters, *votes.next))


def _speaks_for(peer: Peer, record: JobRecord) -> bool:
    """Whether the job is one of the node's own people: a guest vouches for nobody else."""
    if record.is_summary:
        user = standing_of(record.standing).user
    elif is_readable(record):
        user = spec_of(record).user
    else:
        return False
    _, at, node = user.rpartition("@")
    return node == peer.name if at else record.home == peer.id
