"""`grid run-shared`: a command on what owners offer (seed 003).

Lives here: options, and waiting for an offer. Never here: what the words mean and why nothing is
lent (`client.borrowing`), copying output (`foreground`).
"""

import time
from typing import Any

import click

from distributed_grid.cli import foreground
from distributed_grid.cli.agent import caller, data_dir_option, json_option
from distributed_grid.cli.importance_options import (
    importance_of,
    importance_options,
    priority_option,
)
from distributed_grid.cli.interrupts import Interrupts
from distributed_grid.cli.placing_options import where_options
from distributed_grid.cli.placing_words import placing_wishes, told_of
from distributed_grid.cli.running import ended_as_json, lost_sight, refused, submit
from distributed_grid.client import borrowing
from distributed_grid.client.blocking import Caller, Woken
from distributed_grid.client.specification import Wishes, specification
from distributed_grid.errors import GridError
from distributed_grid.model.job import JobSpec


@click.command("run-shared", context_settings={"allow_interspersed_args": False})
@click.option(
    "--resource-type",
    "-r",
    "kind",
    required=True,
    metavar="TYPE",
    help="gpu, memory, cpu, storage, or a kind of your own.",
)
@click.option(
    "--amount", "-a", required=True, metavar="N", help="Devices, cores, or GiB; 512MiB is fine too."
)
@priority_option("--priority", "-p")
@click.option(
    "--preferred-nodes", "-n", "nodes", multiple=True, metavar="NODE", help="There if possible."
)
@click.option("--strict-nodes", is_flag=True, help="On these nodes or nowhere.")
@click.option(
    "--wait-time",
    "-w",
    default=str(borrowing.WAIT_S_DEFAULT),
    show_default=True,
    metavar="SECONDS",
    help="How long to wait for an offer; then 125, with the reasons of each node.",
)
@click.option("--timeout", metavar="SPAN", help="5m; then it is ended, and counts as failed.")
@click.option("--job-id", "-j", metavar="NAME", help="What to call it; one of a name at a time.")
@click.option("--config", "-c", metavar="FILE", help="Its nodes and execution settings.")
@importance_options
@where_options
@json_option
@data_dir_option
@click.argument("words", nargs=-1, required=True, type=click.UNPROCESSED, metavar="CMD...")
@click.pass_context
def command(ctx: click.Context, /, **told: Any) -> None:
    """Run a command on resources that owners lend while they do not need them.

    Options end at the first word of the command. Its output is yours, and so is its exit code, as
    with `grid run`. The job gives way when the owner comes back, and goes on later.
    """
    with (
        Interrupts() as interrupts,
        caller(told["data_dir"], wake_fd=interrupts.fileno()) as agent,
    ):
        code = _run(agent, interrupts, told)
    ctx.exit(code)


def _run(agent: Caller, interrupts: Interrupts, told: dict[str, Any]) -> int:
    kind = borrowing.kind_of(told["kind"])
    wait_ms = borrowing.wait_ms_of(told["wait_time"])
    spec = specification(told["words"], _wishes(kind, told))
    wanted = borrowing.wanted_text(kind, told["amount"])
    foreground.explain_wait(agent, [f"id:{spec.id}"], spec.name)
    call = borrowing.submitted(spec, kind=kind, is_named=told["job_id"] is not None)
    try:
        submit(agent, call, spec, interrupts)
        _await_offer(agent, spec, interrupts, kind=kind, wanted=wanted, wait_ms=wait_ms)
    except foreground.Left as left:
        return left.code
    except GridError as error:
        return refused(spec, error, as_json=told["as_json"])
    try:
        if told["as_json"]:
            return ended_as_json(foreground.wait(agent, spec.id, spec.name, interrupts))
        return foreground.finish(foreground.watch(agent, spec.id, spec.name, interrupts))
    except foreground.Left as left:
        return left.code
    except (GridError, OSError) as error:
        return lost_sight(spec, error)


def _await_offer(
    agent: Caller, spec: JobSpec, interrupts: Interrupts, *, kind: str, wanted: str, wait_ms: int
) -> None:
    """Until something is lent; raises NoResources when the time is over, Left after Ctrl-C."""
    deadline = time.monotonic() + wait_ms / 1_000
    while True:
        left_ms = max(int((deadline - time.monotonic()) * 1_000), 0)
        try:
            if agent.run(borrowing.begun(spec.id, wait_ms=left_ms)) is not None:
                return
            raise agent.run(borrowing.given_up(spec, kind=kind, wanted=wanted, waited_ms=wait_ms))
        except Woken:
            foreground.leave_or_go_on(agent, spec.id, spec.name, interrupts)


def _wishes(kind: str, told: dict[str, Any]) -> Wishes:
    wishes: Wishes = {
        **borrowing.loan(kind, told["amount"]),
        **borrowing.naming(told["job_id"]),
        **importance_of(told),
        **placing_wishes(told_of(told)),
        "shared": True,
        "preferred_nodes": told["nodes"],
        "strict_nodes": told["strict_nodes"],
    }
    if told["config"] is not None:
        from distributed_grid.config.cluster_config import ClusterConfig
        from distributed_grid.orchestration.running import configured

        wishes |= configured(ClusterConfig.from_yaml(told["config"]))
    if told["timeout"] is not None:
        wishes["timeout"] = told["timeout"]
    return wishes
