"""A job's specification as it leaves the machine it was submitted on.

Lives here: what of it travels, and under whose name. Never here: files (`edges.artifacts`), who
gets it.
Invariant: of the submitter's environment nothing leaves the machine but what was given by name.
"""

import msgspec

from distributed_grid.model.job import Array, JobSpec


def certified(spec: JobSpec, node: str) -> JobSpec:
    """The same job, whose user is told with the node that knows them: `ada@desk`."""
    if not node or not spec.user or "@" in spec.user:
        return spec
    return msgspec.structs.replace(spec, user=f"{spec.user}@{node}")


def local(spec: JobSpec, node: str) -> JobSpec:
    """The same on a node itself: its own users are called by their names alone."""
    return msgspec.structs.replace(spec, user=spec.user.removesuffix(f"@{node}"))


def offered(spec: JobSpec) -> JobSpec:
    """The same job as an owner hears of it: which indices it runs is told when it starts.

    So whoever knows no lists of ranges can run a chunk of one.
    """
    array = spec.array
    if array is None or array.stop is not None:
        return spec
    return msgspec.structs.replace(spec, array=Array(stop=len(array.indices), width=array.width))


def travelling(spec: JobSpec) -> JobSpec:
    """The same job, without what it inherited where it was submitted."""
    work = spec.work
    if work is None or work.is_abroad:
        return spec
    told = {name: work.env[name] for name in work.told if name in work.env}
    return msgspec.structs.replace(
        spec, work=msgspec.structs.replace(work, env=told, is_abroad=True)
    )
