"""A cluster and its jobs, as Python programs hold them.

Lives here: the blocking face. Its asyncio twin is `async_cluster`.

    with distributed_grid.connect() as cluster:
        job = cluster.submit("python train.py", gpus=1)
        print(job.wait().exit_code)
"""

import os
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import Any, Literal, ParamSpec, Self, TypeVar, Unpack, overload

from distributed_grid.client import across_calls, calls, door, mesh_calls
from distributed_grid.client.blocking import ANSWER_S, Caller
from distributed_grid.client.map_results import MapResults, Pools
from distributed_grid.client.map_workers import Applied, MapWishes, spread
from distributed_grid.client.mapping import plan_of
from distributed_grid.client.notebook import Table
from distributed_grid.client.pipeline import Pipeline
from distributed_grid.client.specification import Command, Wishes
from distributed_grid.client.streams import Events, Output
from distributed_grid.client.submission import span_ms, submitted, waited
from distributed_grid.errors import Closed
from distributed_grid.model.ids import JobId
from distributed_grid.model.membership import Role
from distributed_grid.wire.across_api import DrainView, MeshSnapshot, OutputsBrought, Safety
from distributed_grid.wire.api import Event, Explanation, JobState, JobView, NodeStatus
from distributed_grid.wire.mesh_api import Joined, NodeView, TicketMade, TicketView

P = ParamSpec("P")
R = TypeVar("R")

OutputName = Literal["stdout", "stderr"]


class JobHandle:
    """A submitted job."""

    def __init__(self, cluster: "Cluster", job_id: JobId, name: str) -> None:
        self.id = job_id
        self.name = name
        self._cluster = cluster

    @property
    def state(self) -> JobState:
        """Where it is now."""
        return self.view().state

    def view(self) -> JobView:
        """Everything that is known of it now."""
        return self._cluster.job(self)

    def wait(self, timeout: float | str | None = None) -> JobView:
        """The job once it has ended; raises NotEnded, a TimeoutError, if that takes too long."""
        return self._cluster.wait(self, timeout=timeout)

    def cancel(self) -> JobView:
        """Cancel it."""
        return self._cluster.cancel(self)

    def logs(self, stream: OutputName = "stdout", *, index: int | None = None) -> bytes:
        """What it has written so far."""
        return self._cluster.logs(self, stream, index=index)

    def follow(self, stream: OutputName = "stdout", *, index: int | None = None) -> Iterator[bytes]:
        """What it writes, as it writes it, until it has ended."""
        return self._cluster.follow(self, stream, index=index)

    def explain(self) -> Explanation:
        """Why it is where it is."""
        return self._cluster.explain(self)

    def __repr__(self) -> str:
        return f"<JobHandle {self.name} {self.id[:12]}>"

    def _repr_html_(self) -> str:
        return Table([self.view()])._repr_html_()


Job = JobHandle | JobView | str  # A handle, a view, or a word: id, name, prefix.


class Cluster:
    """The way to the agent of this machine, for any number of threads, also after a fork.

    The results of one map, and one `follow`, belong to one thread.
    """

    def __init__(self, socket: str, *, answer_s: float = ANSWER_S) -> None:
        self.socket = socket  # Of the agent.
        self._open_caller = Caller(socket, answer_s=answer_s)
        self._pools = Pools(self._open_caller)
        self._is_closed = False

    @property
    def _caller(self) -> Caller:
        self._refuse_closed()
        return self._open_caller

    def _refuse_closed(self) -> None:
        if self._is_closed:
            raise Closed(self.socket)

    def submit(
        self,
        command: Command,
        *others: object,
        after: Iterable[Job] | Job = (),
        **wishes: Unpack[Wishes],
    ) -> JobHandle:
        """Submit a job: a list is executed as it is, a string runs under `/bin/sh -c`.

        `after` names jobs to wait for, each ended well unless `:any` or `:failed` follows. It is
        durable when this returns.
        """
        spec = self._caller.run(submitted(command, others, after, wishes))
        return JobHandle(self, spec.id, spec.name)

    def pipeline(self) -> Pipeline:
        """Submit many jobs without waiting for each: a context whose `submit` returns at once.

        They are durable when the block ends, which raises the first refusal, if there was one.
        """
        return Pipeline(self._caller, lambda spec: JobHandle(self, spec.id, spec.name))

    def job(self, job: Job) -> JobView:
        """One job, by handle, id, name or prefix."""
        return self._caller.run(calls.job(calls.job_word(job)))

    def jobs(
        self, *, state: str = "", name: str = "", user: str = "", limit: int = 100
    ) -> tuple[JobView, ...]:
        """Jobs, newest first."""
        found = calls.jobs(state=state, name=name, user=user, limit=limit)
        return Table(self._caller.run(found).jobs)

    @overload  # A word is iterable, too, and means one job.
    def wait(  # type: ignore[overload-overlap]
        self, jobs: Job, timeout: float | str | None = None
    ) -> JobView: ...

    @overload
    def wait(self, jobs: Iterable[Job], timeout: float | str | None = None) -> list[JobView]: ...

    def wait(self, jobs: Iterable[Job] | Job, timeout: float | str | None = None) -> Any:
        """A job once it has ended, or a list of them in their order, once all have.

        Raises NotEnded, a TimeoutError, if that takes too long. Those of a list have no story.
        """
        return self._caller.run(waited(jobs, timeout))

    def cancel(self, job: Job) -> JobView:
        """Cancel a job."""
        return self._caller.run(calls.cancel(calls.job_word(job)))

    def logs(self, job: Job, stream: OutputName = "stdout", *, index: int | None = None) -> bytes:
        """What a job has written so far."""
        return self._caller.run(calls.logs(calls.job_word(job), stream=stream, index=index))

    def follow(
        self, job: Job, stream: OutputName = "stdout", *, index: int | None = None
    ) -> Iterator[bytes]:
        """What a job writes, as it writes it, until it has ended."""
        return self._caller.stream(Output(calls.job_word(job), stream=stream, index=index))

    def explain(self, job: Job) -> Explanation:
        """Why a job is where it is, and what would help."""
        return self._caller.run(calls.explain(calls.job_word(job)))

    def status(self) -> NodeStatus:
        """This node in one glance."""
        return self._caller.run(calls.status())

    def nodes(self) -> tuple[NodeView, ...]:
        """Everyone in the mesh as this node sees it, itself first; only itself, if it is alone."""
        return Table(self._caller.run(mesh_calls.nodes()).nodes)

    def ticket(
        self, *, role: Role = "member", ttl: float | str = "24h", uses: int = 1, person: str = ""
    ) -> TicketMade:
        """A ticket that lets another machine in, its text to be carried over and kept secret.

        A machine of yours; with `person`, a new name or `id:` and digits, one of somebody else's.
        The first one founds a mesh, and names the file to keep for its recovery.
        """
        wanted = mesh_calls.ticket(role=role, ttl=ttl, uses=uses, person=person)
        return self._caller.run(wanted)

    def tickets(self) -> tuple[TicketView, ...]:
        """The tickets that this node issued."""
        return self._caller.run(mesh_calls.tickets()).tickets

    def revoke_ticket(self, ticket_id: str) -> TicketView:
        """Void a ticket; whoever joined with it stays."""
        return self._caller.run(mesh_calls.revoke_ticket(ticket_id))

    def join(self, ticket: str) -> Joined:
        """Join the mesh of a ticket; again changes nothing.

        A machine that does not answer raises MeshUnreachable, one that says no MeshRefused.
        """
        return self._caller.run(mesh_calls.join(ticket))

    def leave(self, *, force: bool = False) -> None:
        """Leave the mesh; `force` also if nobody remains who could let this node in again."""
        self._caller.run(mesh_calls.leave(force=force))

    def kick(self, node: str) -> NodeView:
        """Remove a node, by id, name or prefix, from the mesh for good."""
        return self._caller.run(mesh_calls.kick(node))

    def rename(self, name: str) -> NodeView:
        """Call this node something else."""
        return self._caller.run(mesh_calls.rename(name))

    def requeue(self, job: Job) -> JobView:
        """Run a job that is untracked: nobody remembers whether it ended."""
        return self._caller.run(across_calls.requeue(calls.job_word(job)))

    def force(self, job: Job) -> JobView:
        """Go on with an at-most-once job that is stuck; it may run twice."""
        return self._caller.run(across_calls.force(calls.job_word(job)))

    def outputs(
        self, job: Job, to: str | os.PathLike[str] = ".", *, overwrite: bool = False
    ) -> OutputsBrought:
        """Put the files that a job left behind into a directory of this machine."""
        there = os.path.abspath(os.fspath(to))  # noqa: PTH100  (without following links)
        word = calls.job_word(job)
        return self._caller.run(across_calls.bring_outputs(word, there, overwrite=overwrite))

    def safe(self, job: Job, timeout: float | str | None = 0) -> Safety:
        """Whether a job is on a second machine; waits for that, with None for ever."""
        return self._caller.run(across_calls.safe(calls.job_word(job), timeout_ms=span_ms(timeout)))

    def drain(self, node: str, timeout: float | str | None = 0, *, now: bool = False) -> DrainView:
        """Give the work of a node away; waits until it is empty, with None for ever.

        What has run there for long and cannot save its state ends there, unless it is to be `now`.
        """
        return self._caller.run(across_calls.drain(node, timeout_ms=span_ms(timeout), now=now))

    def undrain(self, node: str) -> DrainView:
        """Let a node take work again."""
        return self._caller.run(across_calls.undrain(node))

    def snapshot(self) -> MeshSnapshot:
        """The nodes of the mesh as placement sees them from here, with the hash of that."""
        return self._caller.run(across_calls.snapshot())

    def events(self, *, after: int | str | None = None, follow: bool = True) -> Iterator[Event]:
        """Events after the one of this id, then those to come, without end.

        Without `after` only those to come; without `follow` only those that were.
        """
        return self._caller.stream(Events(after=after, follow=follow))

    @overload
    def map(
        self,
        function: Callable[..., R],
        items: Iterable[Any],
        *more: Iterable[Any],
        ordered: Literal[True] = ...,
        workers: int | None = ...,
        retries: int = ...,
        chunk: int | None = ...,
        return_exceptions: bool = ...,
        **wishes: Unpack[MapWishes],
    ) -> MapResults[R]: ...

    @overload
    def map(
        self,
        function: Callable[..., R],
        items: Iterable[Any],
        *more: Iterable[Any],
        ordered: Literal[False],
        workers: int | None = ...,
        retries: int = ...,
        chunk: int | None = ...,
        return_exceptions: bool = ...,
        **wishes: Unpack[MapWishes],
    ) -> MapResults[tuple[int, R]]: ...

    def map(  # Each is a word of its own.
        self,
        function: Callable[..., R],
        items: Iterable[Any],
        *more: Iterable[Any],
        ordered: bool = True,
        workers: int | None = None,
        retries: int = 1,
        chunk: int | None = None,
        return_exceptions: bool = False,
        **wishes: Unpack[MapWishes],
    ) -> MapResults[Any]:
        """The results of a function for many items, run by worker processes.

        With several iterables it gets one item of each, as in the builtin: the shortest counts.
        In the order of the items; with `ordered=False` as pairs `(index, result)` as they come.
        Items may be a generator of any length: only some are on their way at a time. `cpus`,
        `memory` and the like are for each worker. An exception of a call is raised where its result
        would be (`return_exceptions=True`: given instead), the worker's traceback as its cause. A
        call whose worker died is run again `retries` times. `chunk` fixes how many calls a worker
        takes at once. What calls print is shown here when they end, unless `prints=False`; with
        `progress=True` also how far it is, on a terminal or in a notebook.
        """
        self._refuse_closed()
        function, items = spread(function, items, more)
        plan = plan_of(
            items,
            ordered=ordered,
            workers=workers,
            retries=retries,
            chunk=chunk,
            prints=wishes.pop("prints", True),
            progress=wishes.pop("progress", False),
        )
        begun = self._pools.begin(function, wishes, plan)
        return MapResults(self._pools, begun, items, return_exceptions=return_exceptions)

    def call(self, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """One call in a worker process of one core; use `map` for many, or for other workers."""
        applied = Applied(function)
        [result] = self.map(applied, [(args, kwargs)], workers=1)
        return result  # type: ignore[no-any-return]

    def close(self) -> None:
        """Hang up; jobs go on, maps end."""
        self._is_closed = True
        self._pools.close()
        self._open_caller.close()

    def _repr_html_(self) -> str:
        return Table(self.nodes())._repr_html_()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def connect(socket: str | os.PathLike[str] | None = None, *, answer_s: float = ANSWER_S) -> Cluster:
    """The cluster behind the agent of this machine, or behind the socket given.

    `answer_s` is how long an answer may take. Nothing is sent before the first question.
    """
    return Cluster(socket_path(socket), answer_s=answer_s)


def socket_path(told: str | os.PathLike[str] | None) -> str:
    """The socket given, or the usual one."""
    return door.home_of(None).socket if told is None else os.fspath(told)
