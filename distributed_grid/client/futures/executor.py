"""`concurrent.futures.Executor` on the mesh.

Lives here: the face that Python programs know. Never here: sending and waiting (`feeder`).

    with distributed_grid.Executor() as executor:
        future = executor.submit(pow, 2, 10)
        print(future.result())
"""

import concurrent.futures
import itertools
import weakref
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from functools import partial
from typing import Any, ParamSpec, TypeVar, Unpack

from distributed_grid.client.blocking import Caller, Line
from distributed_grid.client.cluster import Cluster, socket_path
from distributed_grid.client.futures.applying import Applying
from distributed_grid.client.futures.feeder import Feeder
from distributed_grid.client.futures.future import CallFuture
from distributed_grid.client.futures.submissions import Submissions
from distributed_grid.client.map_pools import HeldPool
from distributed_grid.client.map_workers import WorkerPool, WorkerWishes, worker_spec
from distributed_grid.client.mapping import plan_of

P = ParamSpec("P")
R = TypeVar("R")


class Executor(concurrent.futures.Executor):
    """Runs calls in worker processes of the mesh, as `ProcessPoolExecutor` does on one machine.

    For any number of threads. `max_workers` is a limit; without one there are as many as there is
    room for. `cpus`, `memory` and the like are for each worker. A call whose worker died is run
    again `retries` times. An agent that restarts loses nothing. What calls print is shown here
    when they end, unless `prints=False`.
    """

    def __init__(
        self,
        max_workers: int | None = None,
        *,
        cluster: Cluster | None = None,
        initializer: Callable[..., Any] | None = None,
        initargs: tuple[Any, ...] = (),
        retries: int = 1,
        prints: bool = True,
        **wishes: Unpack[WorkerWishes],
    ) -> None:
        if initializer is not None and not callable(initializer):
            raise TypeError("initializer must be a callable")
        socket = socket_path(None) if cluster is None else cluster.socket
        function = Applying(initializer, initargs)
        plan = plan_of(
            None, ordered=False, workers=max_workers, retries=retries, chunk=None, prints=prints
        )
        wishes.setdefault("name", "executor")
        spec = worker_spec(function, wishes, socket=socket)
        held: HeldPool[Line] = HeldPool(WorkerPool(spec))
        calls = Submissions(held.pool, function, plan=plan, name=spec.name)
        self._shared = calls.shared
        self._feeder = Feeder(Caller(socket), held, calls)
        # Collected without shutdown: what was submitted is done, then the workers end.
        weakref.finalize(self, self._feeder.shut).atexit = False

    def submit(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> "Future[R]":
        """Schedule a call; its future is running once it is on its way to a worker."""
        future: CallFuture[R] = CallFuture(self._shared)
        self._feeder.add((future, fn, args, kwargs))
        return future

    def map(
        self,
        fn: Callable[..., R],
        *iterables: Iterable[Any],
        timeout: float | None = None,
        chunksize: int = 1,
    ) -> Iterator[R]:
        """The results in order; `chunksize` items make one call."""
        if chunksize < 1:
            raise ValueError("chunksize must be >= 1.")
        if chunksize == 1:
            return super().map(fn, *iterables, timeout=timeout)
        chunks = _chunks(zip(*iterables, strict=False), chunksize)
        found = super().map(partial(_each, fn), chunks, timeout=timeout)
        return itertools.chain.from_iterable(found)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more calls; with `wait` until all are done, then the workers end."""
        self._feeder.shut(cancel=cancel_futures)
        if wait:
            self._feeder.join()

    def terminate_workers(self) -> None:
        """End the workers, whatever they do; what is not done raises BrokenExecutor."""
        self._feeder.shut(at_once=True)
        self._feeder.join()


def _chunks(items: Iterator[tuple[Any, ...]], size: int) -> Iterator[tuple[tuple[Any, ...], ...]]:
    while chunk := tuple(itertools.islice(items, size)):
        yield chunk


def _each(function: Callable[..., R], chunk: tuple[tuple[Any, ...], ...]) -> list[R]:
    return [function(*items) for items in chunk]
