"""`grid logs ID`: what a job wrote, byte for byte.

Lives here: which stream, from where. Never here: keeping the output (the agent does).
"""

from collections.abc import Sequence
from typing import Final

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
from distributed_grid.client.specification import array_of
from distributed_grid.client.streams import Output
from distributed_grid.errors import BadValue, GridError
from distributed_grid.wire.api import JobView

FAILED: Final = "No index of {} has failed; see what the others wrote: --index N or --all."


@click.command("logs")
@job_argument()
@click.option("--follow", "-f", is_flag=True, help="Until the job has ended.")
@click.option("--stderr", is_flag=True, help="What it wrote to stderr, instead of stdout.")
@click.option("--index", type=click.IntRange(0, 10**9), metavar="N", help="Of an array.")
@click.option("--all", "everything", is_flag=True, help="Of an array: every index, not the failed.")
@click.option("--rank", type=click.IntRange(0, 10**9), metavar="N", help="Of a gang; else rank 0.")
@json_option
@data_dir_option
@click.pass_context
def command(
    ctx: click.Context,
    *,
    word: str,
    follow: bool,
    stderr: bool,
    index: int | None,
    everything: bool,
    rank: int | None,
    as_json: bool,
    data_dir: str | None,
) -> None:
    """Print what a job wrote, byte for byte.

    A job that was tried again: everything, one try after the other. An array: what its failed
    indices wrote, stdout and then stderr, each after a line with its index. An index of an array:
    what its last try wrote. What was more than the agent keeps is cut at the start, which is told
    on stderr.
    """
    stream = "stderr" if stderr else "stdout"
    with caller(data_dir) as agent:
        if index is not None:
            word = _array_of(agent, word, index)
        if rank is not None:
            word, index = _gang_of(agent, word, rank), rank
        if index is None and (job := agent.run(calls.job(word))).array is not None:
            job = agent.run(calls.wait(f"id:{job.id}")) if follow else job
            streams = ("stderr",) if stderr else ("stdout", "stderr")
            ctx.exit(_of_array(agent, job, streams, everything=everything, as_json=as_json))
        if everything:
            raise click.UsageError("--all is of an array, without --index.")
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


def _of_array(
    agent: Caller, job: JobView, streams: Sequence[str], *, everything: bool, as_json: bool
) -> int:
    """What indices of an array wrote, each after a line with its number; the exit code."""
    assert job.array is not None, "as above"
    whys = dict(zip([at for at, _ in job.array.failed_indices], job.array.reasons, strict=False))
    indices = array_of(job.array.indices).indices if everything else list(whys)
    code, found = 0, []
    for index in indices:
        why = f" ({whys[index]})" if index in whys else ""
        try:
            texts = [
                agent.run(calls.logs(f"id:{job.id}", stream=stream, index=index))
                for stream in streams
            ]
        except GridError as error:  # What a machine that is gone has keeps nobody from the rest.
            click.echo(f"grid: index {index}: {error}", err=True)
            code = code or error.exit_code
            continue
        if not as_json:
            write_all(STDOUT, f"==> {job.name} {index}{why} <==\n".encode())
            for text in filter(None, texts):
                write_all(STDOUT, text if text.endswith(b"\n") else text + b"\n")
        told = zip(streams, (text.decode(errors="replace") for text in texts), strict=True)
        found.append({"index": index, "why": whys.get(index, ""), **dict(told)})
    if as_json:
        print_json(found)
    if not indices:
        click.echo(f"grid: {FAILED.format(job.name)}", err=True)
    elif not everything and job.array.failed > len(whys):
        left = job.array.failed - len(whys)
        click.echo(f"grid: {left} more failed: see --all, and --index for one", err=True)
    return code


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
