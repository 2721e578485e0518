"""`grid rerun JOB`: a job that has ended once more, as a job of its own.

Lives here: the words. Never here: what its specification is (the node where it was submitted).
"""

import click

from distributed_grid.cli.agent import (
    caller,
    data_dir_option,
    job_argument,
    json_option,
    print_json,
)
from distributed_grid.client import across_calls
from distributed_grid.client.specification import new_id


@click.command("rerun")
@job_argument()
@click.option("--failed", is_flag=True, help="Of an array only the indices that failed.")
@json_option
@data_dir_option
def command(*, word: str, failed: bool, as_json: bool, data_dir: str | None) -> None:
    """Run a job that has ended again, as a new job, and print its id.

    It is submitted where it was before, from its directory as it is now. Indices keep their
    numbers. To wait for it: grid wait $(grid rerun sweep --failed)
    """
    with caller(data_dir) as agent:
        view = agent.run(across_calls.rerun(word, new_id(), only_failed=failed))
    if as_json:
        print_json(view)
    else:
        click.echo(view.id)
