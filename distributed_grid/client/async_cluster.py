"""A cluster and its jobs for asyncio programs: the twin of `cluster`, awaited.

Lives here: the async face. Any number of tasks may share one.
"""

import os
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable
from types import TracebackType
from typing import Any, Literal, ParamSpec, Self, TypeVar, Unpack, overload

from distributed_grid.client import across_calls, calls, mesh_calls
from distributed_grid.client.async_map_results import AsyncMapResults, AsyncPools
from distributed_grid.client.awaiting import AsyncCaller
from distributed_grid.client.blocking import ANSWER_S
from distributed_grid.client.cluster import JobHandle, OutputName, socket_path
from distributed_grid.client.map_workers import Applied, MapWishes, spread
from distributed_grid.client.mapping import plan_of
from distributed_grid.client.notebook import Table
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


class AsyncJobHandle:
    """A submitted job."""

    def __init__(self, cluster: "AsyncCluster", job_id: JobId, name: str) -> None:
        self.id = job_id
        self.name = name
        self._cluster = cluster

    async def state(self) -> JobState:
        """Where it is now."""
        return (await self.view()).state

    async def view(self) -> JobView:
        """Everything that is known of it now."""
        return await self._cluster.job(self)

    async def wait(self, timeout: float | str | None = None) -> JobView:  # noqa: ASYNC109
        """The job once it has ended; raises NotEnded, a TimeoutError, if that takes too long."""
        return await self._cluster.wait(self, timeout=timeout)

    async def cancel(self) -> JobView:
        """Cancel it."""
        return await self._cluster.cancel(self)

    async def logs(self, stream: OutputName = "stdout", *, index: int | None = None) -> bytes:
        """What it has written so far."""
        return await self._cluster.logs(self, stream, index=index)

    def follow(
        self, stream: OutputName = "stdout", *, index: int | None = None
    ) -> AsyncIterator[bytes]:
        """What it writes, as it writes it, until it has ended."""
        return self._cluster.follow(self, stream, index=index)

    async def explain(self) -> Explanation:
        """Why it is where it is."""
        return await self._cluster.explain(self)

    def __repr__(self) -> str:
        return f"<AsyncJobHandle {self.name} {self.id[:12]}>"


Job = AsyncJobHandle | JobHandle | JobView | str


class AsyncCluster:
    """The way to the agent of this machine."""

    def __init__(self, socket: str, *, answer_s: float = ANSWER_S) -> None:
        self.socket = socket  # Of the agent.
        self._open_caller = AsyncCaller(socket, answer_s=answer_s)
        self._pools = AsyncPools(self._open_caller)
        self._is_closed = False

    @property
    def _caller(self) -> AsyncCaller:
        self._refuse_closed()
        return self._open_caller

    def _refuse_closed(self) -> None:
        if self._is_closed:
            raise Closed(self.socket)

    async def submit(
        self,
        command: Command,
        *others: object,
        after: Iterable[Job] | Job = (),
        **wishes: Unpack[Wishes],
    ) -> AsyncJobHandle:
        """Submit a job: a list is executed as it is, a string runs under `/bin/sh -c`.

        `after` names jobs to wait for, each ended well unless `:any` or `:failed` follows. It is
        durable when this returns.
        """
        spec = await self._caller.run(submitted(command, others, after, wishes))
        return AsyncJobHandle(self, spec.id, spec.name)

    async def job(self, job: Job) -> JobView:
        """One job, by handle, id, name or prefix."""
        return await self._caller.run(calls.job(calls.job_word(job)))

    async def jobs(
        self, *, state: str = "", name: str = "", user: str = "", limit: int = 100
    ) -> tuple[JobView, ...]:
        """Jobs, newest first."""
        page = await self._caller.run(calls.jobs(state=state, name=name, user=user, limit=limit))
        return Table(page.jobs)

    @overload  # A word is iterable, too, and means one job.
    async def wait(  # type: ignore[overload-overlap]
        self,
        jobs: Job,
        timeout: float | str | None = None,  # noqa: ASYNC109
    ) -> JobView: ...

    @overload
    async def wait(
        self,
        jobs: Iterable[Job],
        timeout: float | str | None = None,  # noqa: ASYNC109
    ) -> list[JobView]: ...

    async def wait(
        self,
        jobs: Iterable[Job] | Job,
        timeout: float | str | None = None,  # noqa: ASYNC109
    ) -> Any:
        """A job once it has ended, or a list of them in their order, once all have.

        Raises NotEnded, a TimeoutError, if that takes too long. Those of a list have no story.
        """
        return await self._caller.run(waited(jobs, timeout))

    async def cancel(self, job: Job) -> JobView:
        """Cancel a job."""
        return await self._caller.run(calls.cancel(calls.job_word(job)))

    async def logs(
        self, job: Job, stream: OutputName = "stdout", *, index: int | None = None
    ) -> bytes:
        """What a job has written so far."""
        return await self._caller.run(calls.logs(calls.job_word(job), stream=stream, index=index))

    def follow(
        self, job: Job, stream: OutputName = "stdout", *, index: int | None = None
    ) -> AsyncIterator[bytes]:
        """What a job writes, as it writes it, until it has ended."""
        return self._caller.stream(Output(calls.job_word(job), stream=stream, index=index))

    async def explain(self, job: Job) -> Explanation:
        """Why a job is where it is, and what would help."""
        return await self._caller.run(calls.explain(calls.job_word(job)))

    async def status(self) -> NodeStatus:
        """This node in one glance."""
        return await self._caller.run(calls.status())

    async def nodes(self) -> tuple[NodeView, ...]:
        """Everyone in the mesh as this node sees it, itself first; only itself, if it is alone."""
        return Table((await self._caller.run(mesh_calls.nodes())).nodes)

    async def ticket(
        self, *, role: Role = "member", ttl: float | str = "24h", uses: int = 1, person: str = ""
    ) -> TicketMade:
        """A ticket that lets another machine in, its text to be carried over and kept secret.

        A machine of yours; with `person`, a new name or `id:` and digits, one of somebody else's.
        The first one founds a mesh, and names the file to keep for its recovery.
        """
        wanted = mesh_calls.ticket(role=role, ttl=ttl, uses=uses, person=person)
        return await self._caller.run(wanted)

    async def tickets(self) -> tuple[TicketView, ...]:
        """The tickets that this node issued."""
        return (await self._caller.run(mesh_calls.tickets())).tickets

    async def revoke_ticket(self, ticket_id: str) -> TicketView:
        """Void a ticket; whoever joined with it stays."""
        return await self._caller.run(mesh_calls.revoke_ticket(ticket_id))

    async def join(self, ticket: str) -> Joined:
        """Join the mesh of a ticket; again changes nothing.

        A machine that does not answer raises MeshUnreachable, one that says no MeshRefused.
        """
        return await self._caller.run(mesh_calls.join(ticket))

    async def leave(self, *, force: bool = False) -> None:
        """Leave the mesh; `force` also if nobody remains who could let this node in again."""
        await self._caller.run(mesh_calls.leave(force=force))

    async def kick(self, node: str) -> NodeView:
        """Remove a node, by id, name or prefix, from the mesh for good."""
        return await self._caller.run(mesh_calls.kick(node))

    async def rename(self, name: str) -> NodeView:
        """Call this node something else."""
        return await self._caller.run(mesh_calls.rename(name))

    async def requeue(self, job: Job) -> JobView:
        """Run a job that is untracked: nobody remembers whether it ended."""
        return await self._caller.run(across_calls.requeue(calls.job_word(job)))

    async def force(self, job: Job) -> JobView:
        """Go on with an at-most-once job that is stuck; it may run twice."""
        return await self._caller.run(across_calls.force(calls.job_word(job)))

    async def outputs(
        self, job: Job, to: str | os.PathLike[str] = ".", *, overwrite: bool = False
    ) -> OutputsBrought:
        """Put the files that a job left behind into a directory of this machine."""
        there = os.path.abspath(os.fspath(to))  # noqa: PTH100, ASYNC240  (without following links)
        word = calls.job_word(job)
        return await self._caller.run(across_calls.bring_outputs(word, there, overwrite=overwrite))

    async def safe(self, job: Job, timeout: float | str | None = 0) -> Safety:  # noqa: ASYNC109
        """Whether a job is on a second machine; waits for that, with None for ever."""
        return await self._caller.run(
            across_calls.safe(calls.job_word(job), timeout_ms=span_ms(timeout))
        )

    async def drain(
        self,
        node: str,
        timeout: float | str | None = 0,  # noqa: ASYNC109
        *,
        now: bool = False,
    ) -> DrainView:
        """Give the work of a node away; waits until it is empty, with None for ever.

        What has run there for long and cannot save its state ends there, unless it is to be `now`.
        """
        return await self._caller.run(
            across_calls.drain(node, timeout_ms=span_ms(timeout), now=now)
        )

    async def undrain(self, node: str) -> DrainView:
        """Let a node take work again."""
        return await self._caller.run(across_calls.undrain(node))

    async def snapshot(self) -> MeshSnapshot:
        """The nodes of the mesh as placement sees them from here, with the hash of that."""
        return await self._caller.run(across_calls.snapshot())

    def events(
        self, *, after: int | str | None = None, follow: bool = True
    ) -> AsyncIterator[Event]:
        """Events after the one of this id, then those to come, without end.

        Without `after` only those to come; without `follow` only those that were.
        """
        return self._caller.stream(Events(after=after, follow=follow))

    @overload
    def map(
        self,
        function: Callable[..., R],
        items: Iterable[Any] | AsyncIterable[Any],
        *more: Iterable[Any],
        ordered: Literal[True] = ...,
        workers: int | None = ...,
        retries: int = ...,
        chunk: int | None = ...,
        return_exceptions: bool = ...,
        **wishes: Unpack[MapWishes],
    ) -> AsyncMapResults[R]: ...

    @overload
    def map(
        self,
        function: Callable[..., R],
        items: Iterable[Any] | AsyncIterable[Any],
        *more: Iterable[Any],
        ordered: Literal[False],
        workers: int | None = ...,
        retries: int = ...,
        chunk: int | None = ...,
        return_exceptions: bool = ...,
        **wishes: Unpack[MapWishes],
    ) -> AsyncMapResults[tuple[int, R]]: ...

    def map(  # Each is a word of its own.
        self,
        function: Callable[..., R],
        items: Iterable[Any] | AsyncIterable[Any],
        *more: Iterable[Any],
        ordered: bool = True,
        workers: int | None = None,
        retries: int = 1,
        chunk: int | None = None,
        return_exceptions: bool = False,
        **wishes: Unpack[MapWishes],
    ) -> AsyncMapResults[Any]:
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
        return AsyncMapResults(self._pools, begun, items, return_exceptions=return_exceptions)

    async def call(self, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """One call in a worker process of one core; use `map` for many, or for other workers."""
        applied = Applied(function)
        [result] = [found async for found in self.map(applied, [(args, kwargs)], workers=1)]
        return result  # type: ignore[no-any-return]

    async def close(self) -> None:
        """Hang up; jobs go on, maps end."""
        self._is_closed = True
        await self._pools.close()
        await self._open_caller.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()


def connect_async(
    socket: str | os.PathLike[str] | None = None, *, answer_s: float = ANSWER_S
) -> AsyncCluster:
    """The cluster behind the agent of this machine, or behind the socket given, for asyncio."""
    return AsyncCluster(socket_path(socket), answer_s=answer_s)
