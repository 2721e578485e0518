"""Plugging the questions of people into the mesh: any node answers for any job.

Lives here: the job lane and the roster as `agent.questions` and `agent.anywhere` want them.
"""

import os
import time
from collections.abc import Callable, Mapping

from distributed_grid.agent import Operations
from distributed_grid.agent.across_metrics import across_lines
from distributed_grid.agent.anywhere import Anywhere
from distributed_grid.agent.far_maps import FarMaps, FarWorkers
from distributed_grid.agent.loop import Agent
from distributed_grid.agent.mesh import MeshSide
from distributed_grid.agent.questions import Asker, Questions
from distributed_grid.agent.remote import Remote
from distributed_grid.agent.tails import TailAnswers, TailKeeper
from distributed_grid.errors import GridError
from distributed_grid.model.ids import JobId, NodeId
from distributed_grid.web.asked import Asked
from distributed_grid.wire.job_lane import encode
from distributed_grid.wire.questions import QuestionMessage


class JobLane:
    """The job lane of every link."""

    def __init__(self, mesh: MeshSide) -> None:
        self._mesh = mesh

    def send(self, peer: NodeId, message: QuestionMessage) -> bool:
        """Send, in order; False: there is no link, and it is being dialled."""
        return self._mesh.send_job(peer, encode(message))

    async def drained(self, peer: NodeId) -> None:
        """Until less is on its way to this peer."""
        if self._mesh.links is not None:
            await self._mesh.links.drained(peer)


class Surroundings:
    """The mesh around one agent."""

    def __init__(self, agent: Agent, mesh: MeshSide) -> None:
        self._agent, self._mesh = agent, mesh

    @property
    def me(self) -> NodeId:
        """This node."""
        return self._mesh.mesh.me

    @property
    def live(self) -> Mapping[NodeId, str]:
        """The other members that are alive, with their names."""
        across = self._agent.node.across
        peers = across.peers.values() if across is not None else ()
        return {peer.id: peer.name for peer in peers if peer.is_alive}

    @property
    def is_member(self) -> bool:
        """Whether this node is in a mesh, though perhaps linked with nobody now."""
        return self._mesh.is_member

    def name_of(self, node: NodeId) -> str:
        """Of any node that was ever heard of."""
        return self._mesh.mesh.name_of(node)

    def is_own(self, word: str) -> bool:
        """Whether this is the full id of a job that this node looks after."""
        job = self._agent.node.coordinator.jobs.get(JobId(word.removeprefix("id:")))
        return job is not None and not job.is_guest


def asker_of(mesh: MeshSide) -> Callable[[NodeId], Asker | None]:
    """Who asks, by its certificate."""

    def asker(node: NodeId) -> Asker | None:
        roster = mesh.mesh.roster
        standing = roster.standings.get(node) if roster else None
        if roster is None or standing is None:
            return None
        is_own = roster.is_kin(mesh.mesh.me, node)
        return Asker(node, standing.name, standing.roles, is_own=is_own)

    return asker


def home_of(agent: Agent) -> Callable[[JobId], NodeId | None]:
    """Who looks after a job of which this node runs a part; None: nobody, as far as known."""

    def home(job: JobId) -> NodeId | None:
        across = agent.node.across
        guests = across.hosting.reporting.guests_of(job) if across is not None else []
        newest = max(guests, key=lambda guest: guest.epoch, default=None)
        return across.hosting.reporting.home_of(newest) if across and newest else None

    return home


def user_name() -> str:
    """Whose agent this is, as its own jobs say."""
    import pwd  # Not on every system.

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


def everywhere(agent: Agent, mesh: MeshSide, *, user: str) -> Operations:
    """The agent's operations, for jobs wherever they are."""
    tails = TailAnswers(agent.node, agent.store, agent.place.paths)
    answering = Asked(agent, workers=FarWorkers(agent.maps), tails=tails)
    questions = Questions(
        JobLane(mesh), answering=answering, asker=asker_of(mesh), blame=mesh.blame
    )
    mesh.on_link_lost = questions.lost
    agent.hear_questions(questions.told)
    remote = Remote(questions, Surroundings(agent, mesh), user=user)
    agent.tails = TailKeeper(agent.node, agent.store, agent.kept, remote)
    maps = FarMaps(agent, remote, home_of(agent), agent.values)
    everyone = Anywhere(agent, remote, clock_s=time.monotonic, maps=maps)

    async def is_abroad(job: JobId) -> bool:
        try:
            await everyone.locate(f"id:{job}")
        except GridError:
            return False
        return True

    agent.log_files.read = everyone.logs
    agent.submitting.is_abroad = is_abroad
    agent.more_metrics = lambda: across_lines(agent.node, questions, agent.dropped)
    return everyone
