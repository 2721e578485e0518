"""`grid logs ID`: what a job wrote, byte for byte.

Lives here: which stream, from where. Never here: keeping the output (the agent does).
"""

import click

from distributed_grid.cli.agent import (
    caller,
    data_dir_option,
    job_argument,
    json_option,
    print_json,
)
from distributed_grid.cli.foreground import STDOUT, tell_cuts, write_all
from distributed_grid.client import calls
from distributed_grid.client.blocking import Caller
from distributed_grid.client.streams import Output
from distributed_grid.errors import BadValue


@click.command("logs")
@job_argument()
@click.option("--follow", "-f", is_flag=True, help="Until the job has ended.")
@click.option("--stderr", is_flag=True, help="What it wrote to stderr, instead of stdout.")
@click.option("--index", type=click.IntRange(0, 10**9), metavar="N", help="Of an array.")
@click.option("--rank", type=click.IntRange(0, 10**9), metavar="N", help="Of a gang; else rank 0.")
@json_option
@data_dir_option
def command(
    *,
    word: str,
    follow: bool,
    stderr: bool,
    index: int | None,
    rank: int | None,
    as_json: bool,
    data_dir: str | None,
) -> None:
    """Print what a job wrote, byte for byte.

    A job that was tried again: everything, one try after the other. An index of an array: what its
    last try wrote. What was more than the agent keeps is cut at the start, which is told on stderr.
    """
    stream = "stderr" if stderr else "stdout"
    with caller(data_dir) as agent:
        if index is not None:
            word = _array_of(agent, word, index)
        if rank is not None:
            word, index = _gang_of(agent, word, rank), rank
        if not as_json:
            for data in agent.stream(Output(word, stream=stream, index=index, follow=follow)):
                write_all(STDOUT, data)
            if follow:
                tell_cuts(agent.run(calls.job(word)))
            return
        if follow:
            agent.run(calls.wait(word))
        job = agent.run(calls.job(word))
        written = agent.run(calls.logs(f"id:{job.id}", stream=stream, index=index))
    # Text is what JSON can carry; what is no UTF-8 shows as U+FFFD, and `bytes` tells the truth.
    print_json(
        {
            "id": job.id,
            "stream": stream,
            "index": index,
            "bytes": len(written),
            "text": written.decode(errors="replace"),
        }
    )


def _gang_of(agent: Caller, word: str, rank: int) -> str:
    """The job, if it is a gang at all; whether it has the rank, the agent says."""
    job = agent.run(calls.job(word))
    if job.gang == 1:
        remedy = f"Leave --rank out: {job.name} is no gang"
        raise BadValue(rank, expected="no rank", remedy=remedy)
    return f"id:{job.id}"


def _array_of(agent: Caller, word: str, index: int) -> str:
    """The job, if it is an array at all; whether it has the index, the agent says."""
    job = agent.run(calls.job(word))
    if job.array is None:
        remedy = f"Leave --index out: {job.name} is no array"
        raise BadValue(index, expected="no index", remedy=remedy)
    return f"id:{job.id}"
