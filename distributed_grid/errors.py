"""Every error a person can meet.

    GridError                  carries a message, a remedy and an exit code
    ├── BadValue               a word that does not mean an amount, an id, a duration
    ├── BadInput               a file, and the path inside it, that cannot be used
    ├── UnknownName            a policy, filter, node or setting nobody registered
    ├── NotEnough              more was taken than there is
    ├── BrokenPlugin           somebody's own policy or filter failed
    ├── NoAgent                nothing answers on this machine's socket
    ├── AgentLeft              it was told to go while somebody waited for its answer
    ├── AgentRuns              an agent serves this data directory already
    ├── NotFound               no job, node or lease of that name
    ├── Ambiguous              a name or prefix that means two of them
    ├── NeverFits              a job that no node here can ever run
    ├── Conflict               the same id for two different things
    ├── BookingConflict        a booking that does not fit beside the others
    ├── Overloaded             a bounded queue is full
    ├── CallFailed             a call of a map failed, and its exception cannot be brought here
    │   ├── WorkerDied         the call ended the process that ran it
    │   └── NotPicklable       a function, an item or a result that cannot travel
    ├── MapEnded               a whole map ended before its calls did
    ├── Closed                 a cluster was used after it was closed
    ├── NotInMesh              this node is alone
    ├── MeshUnreachable        a machine of the mesh does not answer
    ├── MeshRefused            it answers, and says no
    ├── BadTicket              a text that is no ticket, or not a whole one
    ├── IdentityMoved          the key in the data directory belongs to another machine
    └── NotPermitted           the owner does not allow it

Lives here: what went wrong, and what to do about it. Never here: printing, exit calls.
Invariant: every error has a remedy, carries its facts as fields, and reads as one line that is
safe to print, whatever names of people's files and packages it repeats.
"""

from collections.abc import Sequence
from typing import Any, ClassVar, Final

from distributed_grid.refusals import REFUSALS, TICKET_FAULTS, TicketFault

EXIT_USAGE: Final = 2  # Of every command: a wrong word, a file that cannot be used.
PLACE: Final = "place."  # Before what a job wants of a node, beside the resources.
EXIT_GRID: Final = 125  # Of a job: Grid itself failed, refused, cancelled, lost or skipped it.


class GridError(Exception):
    """The root of everything Grid raises on purpose."""

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *, remedy: str) -> None:
        self.message = _printable(message)
        self.remedy = _printable(remedy)
        super().__init__(self.message)

    def __str__(self) -> str:
        return f"{self.message}. {self.remedy}."

    def __reduce__(self) -> tuple[Any, ...]:
        # Not by the constructor, which wants its facts by name.
        return _again, (type(self), vars(self))


def _again(kind: type[GridError], facts: dict[str, Any]) -> GridError:
    error = kind.__new__(kind, facts["message"])
    vars(error).update(facts)
    return error


class BadValue(GridError, ValueError):
    """A word that does not mean what it should: an amount, an id, a duration."""

    exit_code = 2

    def __init__(
        self,
        value: object,
        *,
        expected: str,
        remedy: str,
        field: str = "",
        errors: tuple[dict[str, str], ...] = (),
    ) -> None:
        self.value = value
        self.expected = expected
        self.field = field  # Where it stands, if whoever noticed knows.
        message = f"expected {expected}, got {shown(value)}"
        if errors:  # Of a body, all at once: path, expected and got.
            self.errors = errors
            told = [f"{e['path']}: expected {e['expected']}, got {e['got']}" for e in errors]
            message = "; ".join(told[:5] + [f"and {len(told) - 5} more"] * (len(told) > 5))
        super().__init__(message, remedy=remedy)


class BadInput(GridError):
    """A file that cannot be used, with the path inside it."""

    exit_code = 2

    def __init__(self, file: str, *, path: str, problem: str, remedy: str, line: int = 0) -> None:
        self.file = file
        self.path = path
        self.problem = problem
        self.line = line  # 0: not known.
        where = f"{file}:{line}" if line else file
        super().__init__(f"{where}: {_cut(path)}: {problem}", remedy=remedy)


class UnknownName(GridError):
    """A name nobody registered; says which names there are."""

    exit_code = 2

    def __init__(self, kind: str, name: str, *, known: Sequence[str]) -> None:
        self.kind, self.name, self.known = kind, name, tuple(known)
        super().__init__(
            f"there is no {kind} named {shown(name)}", remedy=f"Known: {', '.join(known) or 'none'}"
        )


class NotEnough(GridError):
    """More was taken than there is."""

    exit_code = 3

    def __init__(self, what: str, *, wanted: int, has: int) -> None:
        self.what, self.wanted, self.has = what, wanted, has
        super().__init__(
            f"wanted {counted(what, wanted)}, there is {counted(what, has)}",
            remedy="Ask for less, or wait until something is given back",
        )


class BrokenPlugin(GridError):
    """Somebody's own policy or filter failed; the rest of Grid is fine."""

    def __init__(self, kind: str, name: str, *, why: str) -> None:
        self.kind, self.name, self.why = kind, name, why
        mend = "Mend or remove the package that registers it"
        super().__init__(
            f"the {kind} {shown(name)} failed: {_cut(why, WHY_CHARACTERS_MAX)}",
            remedy=f"{mend}, or choose another policy" if kind == "policy" else mend,
        )


class NoAgent(GridError):
    """Nothing answers on this machine's socket."""

    exit_code = 4

    def __init__(self, socket: str, *, why: str) -> None:
        self.socket, self.why = socket, why
        super().__init__(
            f"no agent answers at {socket} ({why})", remedy="Start one with: grid up --detach"
        )


class AgentLeft(GridError):
    """The agent was told to go while somebody waited for its answer."""

    exit_code = 4

    def __init__(self) -> None:
        super().__init__(
            "the agent goes down; what runs goes on unless it was told to stop",
            remedy="Start it again with: grid up --detach",
        )


class AgentRuns(GridError):
    """An agent serves this data directory already."""

    def __init__(self, data_dir: str, *, pid: int) -> None:
        self.data_dir, self.pid = data_dir, pid
        super().__init__(
            f"an agent (pid {pid}) already serves {data_dir}",
            remedy="Use it, stop it with: grid down, or give another --data-dir",
        )


class NotFound(GridError):
    """No job, node or lease of that name."""

    exit_code = 3

    def __init__(self, kind: str, name: str) -> None:
        self.kind, self.name = kind, name
        remedies = {
            "booking": "List them with: grid offer show",
            "path": "See what there is at /openapi.json",
            "ticket": "List them with: grid ticket list",
        }
        remedy = remedies.get(kind, f"List them with: grid {kind}s")
        super().__init__(f"there is no {kind} {shown(name)}", remedy=remedy)


class Ambiguous(GridError):
    """A name or prefix that means two of them."""

    exit_code = 2

    def __init__(self, kind: str, name: str, *, matches: Sequence[str]) -> None:
        self.kind, self.name, self.matches = kind, name, tuple(matches)
        super().__init__(
            f"{shown(name)} means {len(matches)} {kind}s: {', '.join(matches[:5])}",
            remedy="Write more of the id, or id:… or name:…" if kind == "job" else "Write its id",
        )


class NeverFits(GridError):
    """A job that no node here can ever run."""

    exit_code = 3

    def __init__(
        self, job: str, *, shortfall: Sequence[tuple[str, int, int]], dead: Sequence[str] = ()
    ) -> None:
        self.job, self.shortfall, self.dead = job, tuple(shortfall), tuple(dead)
        if dead:
            super().__init__(
                f"{', '.join(map(shown, dead))} could run job {shown(job)}, and is dead",
                remedy="Start it; there: grid up --detach. To wait for it: --wait-for-capacity",
            )
            return
        places = [what.removeprefix(PLACE) for what, _, _ in shortfall if what.startswith(PLACE)]
        if places:
            super().__init__(
                f"no node that is here is as job {shown(job)} wants it: {', '.join(places)}",
                remedy="See who is there with: grid nodes. To wait for one: --wait-for-capacity",
            )
            return
        parts = "; ".join(
            f"wants {counted(what, wanted)}, has {counted(what, has)}"
            for what, wanted, has in shortfall
        )
        super().__init__(
            f"job {shown(job)} is larger than this machine ({parts})",
            remedy="Ask for less, or wait for a larger machine with --wait-for-capacity",
        )


class TooFewCopies(GridError):
    """A job that was to be on more disks than took it."""

    exit_code = 3

    def __init__(self, copies: int, *, wanted: int) -> None:
        self.copies, self.wanted = copies, wanted
        super().__init__(
            f"only {copies} of {wanted} copies were made within a second; the job was cancelled",
            remedy="See who is alive (grid nodes), or submit with fewer --copies",
        )


class Conflict(GridError):
    """The same id for two different things."""

    exit_code = 2

    def __init__(self, kind: str, name: str) -> None:
        self.kind, self.name = kind, name
        super().__init__(
            f"the {kind} id {shown(name)} is taken by another {kind}",
            remedy="Take another one, or leave it out: one is made",
        )


class BookingConflict(GridError):
    """A booking that does not fit beside those that overlap it."""

    exit_code = 3

    def __init__(
        self, name: str, *, others: Sequence[str], missing: Sequence[tuple[str, int, int]]
    ) -> None:
        self.name, self.others, self.missing = name, tuple(others), tuple(missing)
        parts = ", ".join(
            f"wants {counted(what, wanted)}, left are {counted(what, left)}"
            for what, wanted, left in missing
        )
        beside = f"beside {', '.join(others)}" if others else "on this machine"
        super().__init__(
            f"booking {shown(name)} does not fit {_cut(beside, WHY_CHARACTERS_MAX)} ({parts})",
            remedy="Choose another time, ask for less, or remove one of the others"
            if others
            else "Ask for less",
        )


class Overloaded(GridError):
    """A bounded queue is full."""

    def __init__(self, what: str, *, most: int) -> None:
        self.what, self.most = what, most
        super().__init__(
            f"there are already {most} {what}", remedy="Wait until some have ended, or use an array"
        )


class NotPermitted(GridError):
    """The owner does not allow it."""

    exit_code = 5

    def __init__(self, what: str, *, remedy: str) -> None:
        self.what = what
        super().__init__(f"not permitted: {what}", remedy=remedy)


class CallFailed(GridError):
    """A call of a map failed, and its exception cannot be brought here as it was."""

    def __init__(self, index: int, *, why: str, remedy: str, remote_traceback: str = "") -> None:
        self.index = index  # Of the item; -1: the function itself.
        self.why = why
        self.remote_traceback = remote_traceback
        super().__init__(f"call {index} failed: {why}" if index >= 0 else why, remedy=remedy)


class WorkerDied(CallFailed):
    """A call ended the process that ran it, as often as it was tried."""

    def __init__(self, index: int, *, how: str, tries: int) -> None:
        self.how, self.tries = how, tries
        times = "once" if tries == 1 else f"{tries} times"
        super().__init__(
            index,
            why=f"its worker died ({how}), {times}",
            remedy="Run this item alone; if it was ended for its memory, give memory=",
        )


class NotPicklable(CallFailed):
    """A function, an item or a result that cannot travel between processes."""

    def __init__(self, index: int, *, what: str, why: str, remote_traceback: str = "") -> None:
        self.what = what
        super().__init__(
            index,
            why=f"the {what} cannot be sent: {why}",
            remedy="Send plain data, and open files, sockets and locks inside the function",
            remote_traceback=remote_traceback,
        )


class MapEnded(GridError):
    """A whole map ended before its calls did."""

    def __init__(self, name: str, *, why: str) -> None:
        self.name, self.why = name, why
        super().__init__(
            f"{name} ended: {why}", remedy=f"See what its workers wrote: grid logs --stderr {name}"
        )


class Closed(GridError, RuntimeError):
    """A cluster was used after it was closed."""

    def __init__(self, socket: str) -> None:
        self.socket = socket
        super().__init__(
            f"the cluster at {socket} was closed here, and asks nothing any more",
            remedy="Ask before close(), or inside the `with` block, or connect() again",
        )


class NotInMesh(GridError):
    """This node is alone."""

    exit_code = 3

    def __init__(self) -> None:
        super().__init__(
            "this node is in no mesh",
            remedy="Join one with: grid join TICKET, or let others join it with: grid ticket",
        )


class MeshUnreachable(GridError):
    """A machine of the mesh does not answer: that is no refusal."""

    def __init__(self, node: str, *, tried: Sequence[str] = (), why: str = "") -> None:
        self.node, self.tried, self.why = node, tuple(tried), why
        where = f" at {', '.join(tried[:4])}" if tried else ""
        because = f" ({_cut(why, WHY_CHARACTERS_MAX)})" if why else ""
        super().__init__(
            f"{shown(node)} cannot be reached{where}{because}",
            remedy="See that it is up (grid status), and that UDP gets through to its port, which"
            " grid up --listen ADDRESS:PORT sets",
        )


class MeshRefused(GridError):
    """A machine of the mesh answers, and says no."""

    exit_code = 5

    def __init__(self, node: str, *, reason: str, detail: str = "") -> None:
        self.node, self.reason, self.detail = node, reason, detail
        sentence, remedy = REFUSALS.get(
            reason, (f"it says {shown(reason)}", "Compare grid version on both machines")
        )
        more = f" ({_cut(detail, WHY_CHARACTERS_MAX)})" if detail else ""
        super().__init__(f"{shown(node)} refuses: {sentence}{more}", remedy=remedy)


class BadTicket(GridError):
    """A text that is no ticket, or not a whole one. It is not repeated: it may hold a secret."""

    exit_code = 2

    def __init__(self, fault: TicketFault) -> None:
        self.fault = fault
        message, remedy = TICKET_FAULTS[fault]
        super().__init__(message, remedy=remedy)


class IdentityMoved(GridError):
    """The key in the data directory was made on another machine, or this one became another."""

    def __init__(self, data_dir: str, *, node: str) -> None:
        self.data_dir, self.node = data_dir, node
        super().__init__(
            f"{data_dir} holds the identity of another machine (node {node[:8]})",
            remedy=(
                "If it is a copy, remove it, or become a new node here with: grid up --new-identity; "
                "if this is the same node for good, say so with: grid up --moved-here"
            ),
        )


SHOWN_CHARACTERS_MAX = 60  # One line of a terminal, with room for the sentence around it.
WHY_CHARACTERS_MAX = 200  # Somebody's own exception: long enough to find it, short of a page.


def shown(value: object) -> str:
    """A value as a person may see it in one line: quoted, cut, without control characters."""
    try:
        return _cut(repr(value))
    except ValueError:  # Python does not write integers of more than 4,300 digits.
        return "a number of thousands of digits"


def counted(what: str, value: int) -> str:
    """An amount as people write it, from how the wire does: `cpu_milli` 1500 is 1.5 cores."""
    name, _, unit = what.rpartition("_")
    if unit == "bytes":
        return f"{_binary(value)} of {name}"
    plain = {"cpu_milli": "cores", "gpu_milli": "GPUs"}.get(what, what.removeprefix("custom."))
    if unit == "milli" or plain != what:
        whole, rest = divmod(value, 1_000)
        return f"{whole}.{rest:03d}".rstrip("0").rstrip(".") + f" {plain}"
    return f"{value} {plain}"


def _binary(size_bytes: int) -> str:
    for shift, unit in ((50, "PiB"), (40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")):
        if size_bytes >> shift:
            tenths = size_bytes * 10 >> shift
            return f"{tenths // 10}.{tenths % 10} {unit}".replace(".0 ", " ")
    return f"{size_bytes} B"


def _cut(text: str, characters_max: int = SHOWN_CHARACTERS_MAX) -> str:
    return text if len(text) <= characters_max else text[: characters_max - 1] + "…"


def _printable(text: str) -> str:
    """Text without line ends, terminal escapes and the like; those are escaped."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
