"""Borrowing: a job on what owners offer, in the words of seed 003.

Lives here: kinds and amounts as people write them, waiting for an offer, and the reasons of each
node when none comes; one body for the command and for Python. Never here: sockets, clocks.
Invariant: a job that did not get its offer in time is cancelled before that is told.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from distributed_grid.client import across_calls, calls, mesh_calls, sharing_calls
from distributed_grid.client.calls import Call, decoded, request_for
from distributed_grid.client.specification import Wishes
from distributed_grid.client.why_waiting import BEGIN_S, LOOK_S, News
from distributed_grid.errors import (
    BadValue,
    Conflict,
    GridError,
    NeverFits,
    NotPermitted,
    UnknownName,
)
from distributed_grid.model import bytesize, duration, milli
from distributed_grid.model.ids import ID_DIGITS, JobId
from distributed_grid.model.job import JobSpec
from distributed_grid.model.resources import custom_kind
from distributed_grid.wire.api import JobView
from distributed_grid.wire.mesh_api import NodeView
from distributed_grid.wire.sharing import SharingStatus

WAIT_S_DEFAULT: Final = 300  # As long as an offer lives.
WAIT_S_MAX: Final = 10 * 365 * 86_400
LOOK_MS_FIRST: Final = 25  # Most jobs begin at once;
LOOK_MS_MAX: Final = 500  # the others are looked after twice a second.
NODES_ASKED_MAX: Final = 16  # For their reasons, when nobody lends: more would fill a page.
SYNONYMS: Final = {"gpus": "gpu", "cpus": "cpu", "cores": "cpu", "mem": "memory", "ram": "memory",
                   "disk": "storage"}  # fmt: skip
SIZES: Final = ("memory", "storage")
KINDS: Final = ("gpu", "memory", "cpu", "storage")


class NoResources(GridError, RuntimeError):
    """Nobody lent what a job asked for, with the reasons of each node."""

    exit_code = 3

    def __init__(self, wanted: str, *, reasons: Sequence[tuple[str, str]], waited_ms: int) -> None:
        self.wanted, self.reasons, self.waited_ms = wanted, tuple(reasons), waited_ms
        nodes = "; ".join(f"{node}: {why}" for node, why in reasons)
        within = f" within {duration.text(waited_ms)}" if waited_ms else ""
        more = "; wait longer with --wait-time" if waited_ms else ""
        super().__init__(
            f"No resources available for {wanted}{within} ({nodes})",
            remedy=f"See what is offered with: grid shared-status{more}",
        )


def kind_of(word: object) -> str:
    """The kind that a word means, in any case: gpu, memory, cpu, storage (disk), or one's own."""
    plain = str(getattr(word, "value", word)).strip().lower()
    kind = SYNONYMS.get(plain, plain)
    if kind in KINDS:
        return kind
    try:
        return custom_kind(kind)
    except BadValue:
        raise BadValue(
            word,
            expected="gpu, memory, cpu, storage or a kind of your own such as tpu",
            remedy="Use one of these words",
        ) from None


def loan(kind: str, amount: float | str) -> Wishes:
    """What to ask for: devices, cores, or GiB unless the amount names another unit."""
    if kind in SIZES:
        plain = milli.decimal(amount)
        size = bytesize.parse(amount if plain is None else f"{milli.written(amount)}GiB")
        _more_than_nothing(size, amount)
        return Wishes(cpus=0, memory=size) if kind == "memory" else Wishes(cpus=0, storage=size)
    share = milli.parse(amount, what={"gpu": "GPUs", "cpu": "cores"}.get(kind, kind))
    _more_than_nothing(share, amount)
    if kind == "cpu":
        if share % milli.WHOLE:
            raise BadValue(
                amount,
                expected="whole cores",
                remedy="Ask for 1, 2, 3 …; a part of a core: grid run --cpus 0.5",
            )
        return Wishes(cpus=milli.text(share))
    if kind == "gpu":
        return Wishes(cpus=0, gpus=milli.text(share))
    return Wishes(cpus=0, resources={kind: milli.text(share)})


def naming(job_id: str | None) -> Wishes:
    """A caller's own id: 64 hex digits are the id itself, anything else is the job's name."""
    if job_id is None:
        return Wishes()
    is_id = len(job_id) == ID_DIGITS and all(digit in "0123456789abcdefABCDEF" for digit in job_id)
    return Wishes(id=job_id) if is_id else Wishes(name=job_id)


def wanted_text(kind: str, amount: object) -> str:
    """What was asked for, in a few words."""
    unit = " GiB" if kind in SIZES and milli.decimal(amount) is not None else ""
    return f"{milli.written(amount)}{unit} {kind}"


def submitted(spec: JobSpec, *, kind: str, is_named: bool) -> Call[SharingStatus]:
    """Submit a job that borrows; refuses what can be seen to be in vain."""
    status = yield from sharing_calls.sharing()
    insists_elsewhere = bool(spec.require.nodes) and status.node not in spec.require.nodes
    if insists_elsewhere or not status.is_enabled:
        others = yield from _others()
        if not status.is_enabled and not others:
            raise NotPermitted(
                f"{status.node} does not lend",
                remedy="Its owner sets resource_sharing.enabled: true; your own jobs: grid run",
            )
        named = {word for node in others for word in (node.name, node.id)}
        if insists_elsewhere and named.isdisjoint(spec.require.nodes):
            raise NoResources(kind, reasons=reasons_of(status, spec, kind=kind), waited_ms=0)
    if is_named:
        yield from _refuse_second(spec.name)
    try:
        yield from calls.submit([spec])
    except NeverFits as error:
        raise _unknown_kind(error, kind, status) from None
    return status


def _others() -> Call[tuple[NodeView, ...]]:
    """The other machines of the mesh that are there."""
    mesh = yield from mesh_calls.nodes()
    return tuple(node for node in mesh.nodes if not node.is_self and node.health == "alive")


def begun(job: JobId, *, wait_ms: int, news: News | None = None) -> Call[JobView | None]:
    """The job once something was lent to it, or has ended; None if the time is over before.

    With `news`, why it waits is logged.
    """
    left_ms, look_ms = wait_ms, LOOK_MS_FIRST
    explain_ms = wait_ms - BEGIN_S * 1_000
    while True:
        ask_ms = max(min(look_ms, left_ms), 1)
        request = request_for("wait", job=f"id:{job}", wait_ms=ask_ms, timeout_ms=ask_ms)
        response = yield request
        view = decoded(response, JobView)
        if view.state != "waiting" or any(
            one.state in ("granted", "running") for one in view.attempts
        ):
            return view
        left_ms -= max(response.took_ms, 1)
        look_ms = min(look_ms * 2, LOOK_MS_MAX)
        if left_ms <= 0:
            return None
        if news is not None and left_ms <= explain_ms:
            explain_ms = left_ms - LOOK_S * 1_000
            yield from news.log(f"id:{job}")


def given_up(spec: JobSpec, *, kind: str, wanted: str, waited_ms: int) -> Call[NoResources]:
    """Cancel a job that got nothing, and say why it did not."""
    yield from calls.cancel(f"id:{spec.id}")
    status = yield from sharing_calls.sharing()
    others = yield from _others()
    said: list[tuple[str, str]] = []
    for node in others[:NODES_ASKED_MAX]:
        try:
            theirs = yield from across_calls.sharing_of(node.id)
            said.append((node.name, _why_not(theirs, spec, kind)))
        except GridError as error:
            said.append((node.name, error.message))
    reasons = reasons_of(status, spec, kind=kind, others=said)
    return NoResources(wanted, reasons=reasons, waited_ms=waited_ms)


def reasons_of(
    status: SharingStatus, spec: JobSpec, *, kind: str, others: Sequence[tuple[str, str]] = ()
) -> list[tuple[str, str]]:
    """Why each node does not lend this: this machine, the others, those that are not there."""
    here = {status.node, *(name for name, _ in others)}
    named = {*spec.require.nodes, *spec.prefer.nodes, *status.not_joined}
    return [
        (status.node, _why_not(status, spec, kind)),
        *others,
        *((name, not_joined(name)) for name in sorted(named - here)),
    ]


def not_joined(name: str) -> str:
    """What is to be said of a node that only the configuration knows."""
    by_hand = f"here: grid ticket, on {name}: grid join TICKET"
    return f"not joined; {by_hand}; or by ssh: grid bootstrap {name}"


def _why_not(status: SharingStatus, spec: JobSpec, kind: str) -> str:
    if spec.require.nodes and status.node not in spec.require.nodes:
        return "not one of the nodes insisted on"
    held_back = [
        f"{one.threshold} is {one.limit}, measured {one.measured}"
        + (f" ({one.device})" if one.device else "")
        for one in status.withheld
        if one.kind in (kind, "all") and one.threshold != "paused"
    ]
    if status.state != "open":
        return ", ".join([f"lending is {status.state}", *held_back])
    offered = sum(offer.amount for offer in status.offers if offer.kind == kind)
    amount = bytesize.text(offered) if kind in SIZES else milli.text(offered)
    return ", ".join([f"offers {amount} {kind}", *held_back])


def _refuse_second(name: str) -> Call[None]:
    for state in ("waiting", "running"):
        page = yield from calls.jobs(name=name, state=state, limit=1)
        if page.jobs:
            raise Conflict("job", name)


def _unknown_kind(error: NeverFits, kind: str, status: SharingStatus) -> GridError:
    """That nobody here has such a kind at all is another mistake than asking for too much."""
    missing = {what: has for what, _, has in error.shortfall}
    if missing.get(f"custom.{kind}") == 0:
        own: Iterable[str] = {offer.kind for offer in status.offers} - set(KINDS)
        return UnknownName("resource type", kind, known=[*KINDS, *sorted(own)])
    return error


def _more_than_nothing(value: int, amount: object) -> None:
    if not value:
        raise BadValue(amount, expected="an amount above zero", remedy="Ask for 1 or more")


def wait_ms_of(seconds: float | str | None) -> int:
    """How long to wait for an offer; None: for ever."""
    if seconds is None:
        return WAIT_S_MAX * 1_000
    span_ms = duration.parse(seconds)
    if span_ms > WAIT_S_MAX * 1_000:
        raise BadValue(seconds, expected="at most ten years", remedy="Check the unit")
    return span_ms
