"""Which job or node a person means, by its id, its name, or the beginning of its id.

Lives here: the rules of names. `id:` and `name:` force one of the two, of a job.
Invariant: a job and the attempts at it that run here for another home are one job.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from distributed_grid.errors import Ambiguous, NotFound
from distributed_grid.kernel.jobs import Job
from distributed_grid.model.ids import ID_DIGITS, NodeId

PREFIX_MIN: Final = 4  # Shorter ones mean something else tomorrow.


def find_job(word: str, jobs: Iterable[Job]) -> Job:
    """The job that a word means: unfinished ones before finished ones, else the newest."""
    kind, _, rest = word.partition(":")
    wanted = rest if kind in ("id", "name") and rest else word
    forced = kind if wanted is rest else ""
    known = list(jobs)
    if forced != "name" and len(wanted) == ID_DIGITS:
        for job in known:
            if job.spec.id == wanted:
                return job
    if forced != "id":
        named = _each_once(job for job in known if job.spec.name == wanted)
        if named:
            return _preferred(wanted, named)
    if forced != "name" and len(wanted) >= PREFIX_MIN:
        found = [job for job in known if job.spec.id.startswith(wanted.lower())]
        if len(found) > 1:
            raise Ambiguous("job", word, matches=[job.spec.id[:16] for job in found])
        if found:
            return found[0]
    raise NotFound("job", word)


def _each_once(jobs: Iterable[Job]) -> list[Job]:
    """A guest has the name of its job: itself first, else the newest attempt that goes on."""

    def order(job: Job) -> tuple[bool, bool, int, str]:
        return job.spec.origin is None, not job.has_ended, job.submitted_ms, job.spec.id

    return list({_called(job): job for job in sorted(jobs, key=order)}.values())


def _called(job: Job) -> str:
    return job.spec.origin.job if job.spec.origin else job.spec.id


def _preferred(name: str, jobs: list[Job]) -> Job:
    unfinished = [job for job in jobs if not job.has_ended]
    if len(unfinished) > 1:
        raise Ambiguous("job", name, matches=[job.spec.id[:16] for job in unfinished])
    return (
        unfinished[0] if unfinished else max(jobs, key=lambda job: (job.submitted_ms, job.spec.id))
    )


def node_among(word: str, known: Mapping[NodeId, str]) -> NodeId | None:
    """The one of these nodes, with their names, that a word means. Raises Ambiguous.

    A name does not come before an id: somebody could take the beginning of another's for a name.
    """
    found = [
        node
        for node, name in known.items()
        if word in (node, name) or (len(word) >= PREFIX_MIN and node.startswith(word.lower()))
    ]
    if len(found) > 1:
        raise Ambiguous("node", word, matches=[node[:12] for node in found])
    return found[0] if found else None
