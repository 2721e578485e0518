"""Dask's Executor: two processes with one thread each, warm; a future for each call."""

import json
import statistics
import sys
import time

from benchmarks.peers.work import WIDTH, trivial


def main(calls: int, rounds: int) -> None:
    """Measure and print."""
    import dask
    from distributed import Client, LocalCluster

    dask.config.set({"distributed.worker.profile.enabled": False})
    took = []
    with (
        LocalCluster(
            n_workers=WIDTH, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
        Client(cluster) as client,
        client.get_executor(pure=False) as executor,
    ):
        for _ in range(rounds + 1):
            start = time.perf_counter()
            futures = [executor.submit(trivial, number) for number in range(calls)]
            assert [future.result() for future in futures][-1] == calls
            took.append(time.perf_counter() - start)
    print(json.dumps({"warm_s": statistics.median(took[1:])}))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:3]))
