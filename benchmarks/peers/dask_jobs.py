"""Dask: a local cluster of two processes with one thread each, the fastest for processes."""

import json
import sys
import time

from benchmarks.peers.work import WIDTH, spawn_true, trivial


def main(jobs: int, separate: int, calls: int) -> None:
    """Measure and print."""
    import dask
    from distributed import Client, LocalCluster

    dask.config.set({"distributed.worker.profile.enabled": False})
    with (
        LocalCluster(
            n_workers=WIDTH, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
        Client(cluster) as client,
    ):
        client.gather(client.map(trivial, range(WIDTH * 4), pure=False))
        start = time.perf_counter()
        client.gather(client.map(spawn_true, range(jobs), pure=False))
        array_s = time.perf_counter() - start
        start = time.perf_counter()
        futures = [client.submit(spawn_true, number, pure=False) for number in range(separate)]
        client.gather(futures)
        separate_s = time.perf_counter() - start
        start = time.perf_counter()
        client.gather(client.map(trivial, range(calls), pure=False))
        map_s = time.perf_counter() - start
    print(json.dumps({"array_s": array_s, "separate_s": separate_s, "map_s": map_s}))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:4]))
