"""Who may say it: for each message of the job lane which role, and to whom it must belong.

Lives here: the table; who looks after a job and who runs it, as far as this node knows. Never here:
records (`rights`), votes and leases (`register_voter`), what follows from a word.
Invariant: a word about an attempt counts only from the node that runs it, a word on a guest only
from who looks after its job; what is not in the table is not heard.
"""

from collections.abc import Callable
from types import MappingProxyType
from typing import Any, Final

from distributed_grid.kernel.across.guarding import Guarding
from distributed_grid.kernel.across.hosting import Hosting
from distributed_grid.kernel.across.orphans import Orphans
from distributed_grid.kernel.across.peers import Peer
from distributed_grid.kernel.across.rights import may_ask, may_spread
from distributed_grid.kernel.coordinator import Coordinator
from distributed_grid.kernel.ready import Ready
from distributed_grid.model.across import HERE
from distributed_grid.model.ids import JobId, NodeId
from distributed_grid.wire.across import (
    Begun,
    Confirmed,
    Copied,
    Copy,
    Dispensable,
    Granted,
    Halt,
    Holding,
    Idle,
    Inquiry,
    Line,
    NotCopied,
    NotGranted,
    NotTaken,
    Poll,
    Report,
    Reserve,
    Start,
    Taken,
    Waiting,
    Withdrawn,
)
from distributed_grid.wire.gangs import (
    CommitHold,
    Committed,
    Go,
    Held,
    Hold,
    NotHeld,
    ReleaseHold,
    Revoked,
)
from distributed_grid.wire.job_lane import JobMessage
from distributed_grid.wire.register import (
    Accept,
    Accepted,
    LeasesRenewed,
    NotAccepted,
    NotPromised,
    Prepare,
    Promised,
    Recollect,
    Recollected,
    RenewLeases,
)


class Speakers:
    """What one node knows of who may speak."""

    def __init__(
        self, coordinator: Coordinator, guarding: Guarding, hosting: Hosting, orphans: Orphans
    ) -> None:
        self._coordinator, self._guarding = coordinator, guarding
        self._hosting, self._orphans = hosting, orphans

    def may_say(self, peer: Peer, message: JobMessage, now_ms: int, ready: Ready) -> bool:
        """Whether it counts; of a guest whose home it may be, others are asked who that is."""
        if RULES[type(message)](self, peer, message):
            return True
        if (
            isinstance(message, Start | Halt | Poll | Go)
            and peer.may_submit
            and (guest := self._hosting.reporting.guest(message.lease)) is not None
        ):
            self._orphans.doubt(guest, peer.id, now_ms, ready)
        return False

    def host_of(self, job_id: JobId, lease: str) -> NodeId | None:
        """Who runs an attempt, or did; None: it is not known here."""
        job = self._coordinator.jobs.get(job_id)
        attempts = job.attempts if job is not None else []
        hosts = (one.host for one in attempts if one.lease == lease and one.host != HERE)
        return next(hosts, None)

    # The rules, by what a message is

    def compared(self, _peer: Peer, _word: Any) -> bool:
        """Its own room compares who says it with who was asked, who votes, or with a record."""
        return True

    def asks(self, peer: Peer, word: Reserve | Hold) -> bool:
        """Who may submit, for a job that is not known to be looked after by others."""
        record = self._guarding.find(word.job)
        return peer.may_submit and (record is None or may_spread(peer.id, record))

    def submits(self, peer: Peer, _word: Any) -> bool:
        """Who may submit; its own room compares it with who asked."""
        return peer.may_submit

    def steers(self, peer: Peer, word: Start | Halt | Poll | Go) -> bool:
        """Who looks after the job of a guest; what is none yet is compared with who asked."""
        return peer.may_submit and self._leads(peer.id, word.lease)

    def commits(self, peer: Peer, word: CommitHold) -> bool:
        """The same of all ranks of a gang."""
        return peer.may_submit and all(self._leads(peer.id, lease) for lease, _ in word.ranks)

    def _leads(self, node: NodeId, lease: str) -> bool:
        guest = self._hosting.reporting.guest(lease)
        # One that is over cannot be hurt, and whoever is home by now must hear how it ended.
        return guest is None or guest.has_ended or self._orphans.may_lead(node, guest)

    def runs(self, peer: Peer, word: Taken | NotTaken | Begun | Report) -> bool:
        """Who runs the attempt; of one that nobody knows whoever says that it is there."""
        return self.host_of(word.job, word.lease) in (None, peer.id)

    def rules(self, peer: Peer, word: Prepare | Accept) -> bool:
        """Who may submit, in its own name, on a job that it may know."""
        record = self._guarding.find(word.job)
        asked = word.epoch if isinstance(word, Prepare) else word.written.standing.version.epoch
        is_its_own = asked.node == peer.id
        return is_its_own and peer.may_submit and (record is None or may_ask(peer, record))


Rule = Callable[[Speakers, Peer, Any], bool]

_ROWS: Final[tuple[tuple[Rule, tuple[type, ...]], ...]] = (
    (Speakers.asks, (Reserve, Hold)),
    (Speakers.submits, (Withdrawn, ReleaseHold, Confirmed)),
    (Speakers.steers, (Start, Halt, Poll, Go)),
    (Speakers.commits, (CommitHold,)),
    (Speakers.runs, (Taken, NotTaken, Begun, Report)),
    (Speakers.rules, (Prepare, Accept)),
    (Speakers.compared, (Granted, Waiting, NotGranted, Held, NotHeld, Revoked, Committed)),
    (Speakers.compared, (Idle, Line)),
    (Speakers.compared, (Copy, Copied, NotCopied, Inquiry, Holding, Dispensable)),
    (Speakers.compared, (Promised, NotPromised, Accepted, NotAccepted)),
    (Speakers.compared, (RenewLeases, LeasesRenewed, Recollect, Recollected)),
)
RULES: Final = MappingProxyType({kind: rule for rule, kinds in _ROWS for kind in kinds})
