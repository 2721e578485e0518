"""joblib's batches on the mesh: importing this registers the backend `"grid"`.

Lives here: joblib's idea of a backend, over `Executor`. Never here: workers, sending, waiting.

    import distributed_grid.joblib
    with joblib.parallel_config("grid"):
        GridSearchCV(model, grid, n_jobs=-1).fit(x, y)
"""

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from joblib.parallel import AutoBatchingMixin, ParallelBackendBase, register_parallel_backend

from distributed_grid.client.blocking import Caller
from distributed_grid.client.calls import status
from distributed_grid.client.cluster import Cluster, connect
from distributed_grid.client.futures.executor import Executor
from distributed_grid.client.mapping import cores_around


class GridBackend(AutoBatchingMixin, ParallelBackendBase):  # type: ignore[misc]
    """Runs joblib's calls on the mesh; all that `Executor` takes may be given to it.

    `n_jobs=-1` is a worker for each core of all machines; `cpus=2` makes half as many.
    """

    supports_retrieve_callback = True
    supports_inner_max_num_threads = True
    default_n_jobs = -1

    def __init__(
        self,
        nesting_level: int | None = None,
        inner_max_num_threads: int | None = None,
        cluster: Cluster | None = None,
        **wishes: Any,
    ) -> None:
        super().__init__(nesting_level=nesting_level, inner_max_num_threads=inner_max_num_threads)
        self._cluster, self._wishes = cluster or connect(), wishes
        self._executor: Executor | None = None  # Kept warm from call to call.
        self._workers, self._cpus = 0, float(wishes.get("cpus", 1))

    def effective_n_jobs(self, n_jobs: int | None) -> int:
        """How many workers."""
        if n_jobs == 0:
            raise ValueError("n_jobs == 0 in Parallel has no meaning")
        if n_jobs is not None and n_jobs > 0:
            return n_jobs
        with Caller(self._cluster.socket) as caller:
            milli = caller.run(status()).cpu_milli_total + caller.run(cores_around())
        every = int(milli / 1_000 / max(self._cpus, 0.1))
        return max(every + 1 + (-1 if n_jobs is None else n_jobs), 1)

    def configure(self, n_jobs: int = 1, parallel: Any = None, **_: Any) -> int:
        """Before a call of `Parallel`."""
        self.parallel = parallel
        workers = self.effective_n_jobs(n_jobs)
        if self._executor is None or workers != self._workers:
            self.end()
            threads = self.inner_max_num_threads or int(self._cpus) or 1
            env = dict.fromkeys(self.MAX_NUM_THREADS_VARS, str(threads))
            env |= self._wishes.get("env") or {}
            wishes = {"name": "joblib", **self._wishes, "env": env}
            self._workers = workers
            self._executor = Executor(workers, cluster=self._cluster, **wishes)
        return workers

    def submit(
        self, func: Callable[[], Any], callback: Callable[[Future[Any]], None] | None = None
    ) -> Future[Any]:
        """Run a batch."""
        assert self._executor is not None, "it was configured"
        future = self._executor.submit(_run, func)
        if callback is not None:
            future.add_done_callback(callback)
        return future

    def retrieve_result_callback(self, out: Future[Any]) -> Any:
        """What a batch gave."""
        return out.result()

    def terminate(self) -> None:
        """After a call."""
        self.reset_batch_stats()

    def abort_everything(self, ensure_ready: bool = True) -> None:
        """A batch raised, or somebody lost patience: nobody wants the others."""
        self.end()
        if ensure_ready:
            self.configure(n_jobs=self.parallel.n_jobs, parallel=self.parallel)

    def end(self) -> None:
        """End its workers, whatever they do."""
        if self._executor is not None:
            self._executor.terminate_workers()
            self._executor = None


def _run(batch: Callable[[], Any]) -> Any:
    """A batch is an argument: functions are kept by the workers, and it holds data."""
    return batch()


register_parallel_backend("grid", GridBackend)
