"""HyperQueue: server and worker in one process, two cores; output is not kept."""

import json
import sys
import tempfile
import time

from benchmarks.peers.work import TRUE, WIDTH


def main(jobs: int, separate: int, _: int = 0) -> None:
    """Measure and print."""
    from hyperqueue import Job
    from hyperqueue.cluster import LocalCluster, WorkerConfig

    def batch(count: int) -> Job:
        job = Job()
        for _ in range(count):
            job.program([TRUE], stdout=None, stderr=None)
        return job

    with tempfile.TemporaryDirectory() as folder, LocalCluster(folder) as cluster:
        cluster.start_worker(WorkerConfig(cores=WIDTH))
        client = cluster.client()
        client.wait_for_jobs([client.submit(batch(WIDTH))])
        start = time.perf_counter()
        client.wait_for_jobs([client.submit(batch(jobs))])
        array_s = time.perf_counter() - start
        start = time.perf_counter()
        client.wait_for_jobs([client.submit(batch(1)) for _ in range(separate)])
        separate_s = time.perf_counter() - start
    print(json.dumps({"array_s": array_s, "separate_s": separate_s, "map_s": None}))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:4]))
