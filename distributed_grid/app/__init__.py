"""The composition root: settings to chosen edges to a running agent.

Lives here: what is plugged into what, and nothing else. The keeper starts this as
`python -m distributed_grid.app --data-dir DIR`.
"""

import argparse
import asyncio
import contextlib
import os
import random
import signal
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from distributed_grid import __version__
from distributed_grid.agent.carrying import no_step
from distributed_grid.agent.loop import Agent, Place
from distributed_grid.agent.mesh import MeshSide
from distributed_grid.agent.mesh_values import Values, profile_of
from distributed_grid.agent.sharing import Surroundings
from distributed_grid.agent.watchers import Watchers
from distributed_grid.app.artifacts import artifacts
from distributed_grid.app.mesh import ground, power_of, settle
from distributed_grid.config.settings import Loaded, load_settings
from distributed_grid.config.terms import with_terms
from distributed_grid.edges.clock import SteadyClock
from distributed_grid.edges.eventlog import writer
from distributed_grid.edges.home import (
    HomeUnusable,
    locked,
    pid_file,
    prepare,
    remember_name,
    remembered_name,
)
from distributed_grid.edges.probe.job_load import used_by
from distributed_grid.edges.probe.load import Sampler
from distributed_grid.edges.probe.machine import profile
from distributed_grid.edges.runner import REFUSED_CODE
from distributed_grid.edges.runner.agent_link import AgentLink, RunnerGone, connect
from distributed_grid.edges.runner.container import has_runtime
from distributed_grid.edges.store.sqlite import SqliteStore
from distributed_grid.errors import GridError
from distributed_grid.kernel.classification import classify
from distributed_grid.kernel.inventory import Inventory, inventory_of
from distributed_grid.kernel.launching import Paths
from distributed_grid.kernel.ledger import Ledger
from distributed_grid.kernel.node import Node, Rules
from distributed_grid.kernel.ready import Happened
from distributed_grid.model.hardware import HardwareProfile
from distributed_grid.model.home import Home, locate
from distributed_grid.model.ids import job_id_of
from distributed_grid.model.settings import Settings
from distributed_grid.wire.api import NodeStatus
from distributed_grid.wire.keeper import Hello
from distributed_grid.wire.maps import GUEST_PYTHON, GUEST_SOCKET
from distributed_grid.wire.new_jobs import PLAIN_ENV

SWITCH_S: Final = 0.000_5


def main(argv: list[str] | None = None, *, at_step: Callable[[str], None] = no_step) -> int:
    """Run an agent until it is told to stop; the keeper restarts one that crashed."""
    if not __debug__:
        sys.stderr.write("grid: invariants are code: do not run the agent under python -O\n")
        return 2
    parser = argparse.ArgumentParser(prog="python -m distributed_grid.app")
    parser.add_argument("--data-dir", required=True)
    parser.add_argument("--name", default="")
    parser.add_argument("--config")
    parser.add_argument("--listen", default="")
    parser.add_argument("--new-identity", default="", metavar="TOKEN")
    parser.add_argument("--moved-here", action="store_true")
    options = parser.parse_args(argv)
    try:
        home = locate(os.environ, user_home=str(Path.home()), data_dir=options.data_dir)
        words = {"node.name": ("--name", options.name), "mesh.listen": ("--listen", options.listen)}
        flags = {key: told for key, told in words.items() if told[1]}
        loaded = load_settings(os.environ, file=options.config, config_dir=home.config, flags=flags)
        for note in loaded.notes:
            sys.stderr.write(f"grid: {note}\n")
        prepare(home)
        loaded = _named(home, loaded, told=options.name)
        settle(home.data, new_identity=options.new_identity, moved_here=options.moved_here)
        # The store's thread must get its turn when a sync is done, not 5 ms later.
        sys.setswitchinterval(SWITCH_S)
        with locked(home), pid_file(home.agent_pid), asyncio.Runner(loop_factory=_loop()) as runner:
            try:
                runner.run(_run(home, loaded, at_step))
            finally:
                Path(home.socket).unlink(missing_ok=True)
    except GridError as error:
        sys.stderr.write(f"grid: {error}\n")
        return REFUSED_CODE
    return 0


def _named(home: Home, loaded: Loaded, *, told: str) -> Loaded:
    """The settings with the name that was given once, unless somebody gives one now."""
    if told:
        remember_name(home, told)
    name = loaded.settings.name or remembered_name(home)
    return msgspec.structs.replace(
        loaded, settings=msgspec.structs.replace(loaded.settings, name=name)
    )


def _loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """The faster event loop where it is installed."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


async def _run(home: Home, loaded: Loaded, at_step: Callable[[str], None]) -> None:
    # Imported here: a configuration that is wrong is told without waiting for a web server.
    from distributed_grid.app.across import everywhere, user_name
    from distributed_grid.web.server import bound_socket, serve

    runner = await connect()
    store = SqliteStore(home.database)
    clock = SteadyClock()
    try:
        agent = _agent(home, loaded, store, runner, at_step, clock=clock)
        await agent.restore()
        for trouble in agent.troubles:
            sys.stderr.write(f"grid: {trouble}\n")
        for newest in await store.jobs(limit=1):
            clock.not_before(newest.submitted_ms)
        for name in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(name, agent.stop)
        async with asyncio.TaskGroup() as tasks:
            await agent.meet()
            asked = everywhere(agent, agent.side, user=user_name())
            serving = tasks.create_task(serve(asked, bound_socket(home.socket)))
            await agent.run()
            serving.cancel()
    except* RunnerGone:
        pass  # The keeper went first, as it does when the machine goes down.
    finally:
        await store.close()


def _agent(
    home: Home,
    loaded: Loaded,
    store: SqliteStore,
    runner: AgentLink,
    at_step: Callable[[str], None],
    *,
    clock: SteadyClock,
) -> Agent:
    settings = loaded.settings
    hardware = profile(work_path=home.data, pretend=settings.pretend)
    inventory = inventory_of(
        hardware, usable_cores=os.sched_getaffinity(0), custom=settings.resources
    )
    place = Place(
        paths=Paths(
            output_root=home.jobs,
            scratch_root=f"{home.data}/scratch",
            checkpoint_root=f"{home.data}/checkpoints",
            output_bytes_max=settings.job_log_bytes,
            is_pinned=not inventory.is_pretended,
            guest_env=_guest_env(home),
        ),
        status=_status(home, settings, runner.hello, hardware, inventory),
        finished_jobs_max=settings.finished_jobs_max,
    )
    node = _node(place, inventory, settings)
    sampler = Sampler(
        hardware, own_pid=runner.hello.pid, work_path=home.data, pretend=settings.pretend
    )
    watchers = Watchers()
    mesh = _mesh(
        home=home,
        settings=settings,
        store=store,
        node=node,
        publish=_publisher(watchers, settings),
        status=place.status,
        machine=(hardware, inventory),
        clock=clock,
    )
    around = Surroundings(
        measure=lambda at_ms, held: sampler.sample(at_ms, held=held),
        with_terms=with_terms,
        used_by=used_by,
        not_joined=_listed_elsewhere(loaded, place.status.name),
    )
    luggage = artifacts(home, os.environ, node=node, mesh=mesh, runner=runner, clock_ms=clock)
    return Agent(
        node,
        store,
        luggage.runner,
        place,
        clock_ms=clock,
        at_step=at_step,
        around=around,
        watchers=watchers,
        mesh=mesh,
        luggage=luggage,
    )


def _guest_env(home: Home) -> dict[str, str]:
    """What a job of another node finds here: programs, and for workers of maps this very Grid."""
    found = {name: os.environ[name] for name in PLAIN_ENV if name in os.environ}
    return found | {GUEST_SOCKET: home.socket, GUEST_PYTHON: sys.executable}


def _node(place: Place, inventory: Inventory, settings: Settings) -> Node:
    """The kernel, and the directories that its jobs need."""
    paths = place.paths
    for root in (paths.output_root, paths.scratch_root, paths.checkpoint_root):
        Path(root).mkdir(mode=0o700, exist_ok=True)
    dice = random.SystemRandom()
    return Node(
        name=place.status.name,
        ledger=Ledger(inventory),
        paths=paths,
        new_lease_id=lambda: f"{dice.getrandbits(128):032x}",
        rules=Rules(
            terms=settings.terms,
            weights=settings.weights,
            ageing_ms=settings.ageing_ms,
            power=power_of(settings.mesh),
        ),
    )


def _mesh(
    *,
    home: Home,
    settings: Settings,
    store: SqliteStore,
    node: Node,
    publish: Callable[[Happened], None],
    status: NodeStatus,
    machine: tuple[HardwareProfile, Inventory],
    clock: SteadyClock,
) -> MeshSide:
    """This node's side of the mesh, which it may never be in."""
    described = profile_of(
        *machine,
        node_class=status.node_class,
        version=__version__,
        labels=settings.labels,
        costs=settings.costs,
        has_containers=has_runtime(os.environ),
    )

    def remember(name: str) -> None:
        node.coordinator.node = name
        with contextlib.suppress(HomeUnusable):  # A full disk: the certificate has it too.
            remember_name(home, name)

    return MeshSide(
        store,
        ground(
            name=status.name,
            data_dir=home.data,
            settings=settings.mesh,
            values=Values(node, described, clock_ms=clock),
            profile=described,
            status=status,
            publish=publish,
            remember=remember,
        ),
    )


def _publisher(watchers: Watchers, settings: Settings) -> Callable[[Happened], None]:
    """To whoever watches, and into the log."""
    log = writer(sys.stderr, level=settings.log_level, form=settings.log_format)

    def publish(happened: Happened) -> None:
        watchers.publish(happened)
        log(happened)

    return publish


def _listed_elsewhere(loaded: Loaded, here: str) -> tuple[str, ...]:
    """The machines that the configuration names beside this one."""
    nodes = next((entry.value for entry in loaded.later if entry.key == "nodes"), ())
    return tuple(sorted({node["name"] for node in nodes} - {here}))


def _status(
    home: Home,
    settings: Settings,
    hello: Hello,
    hardware: HardwareProfile,
    inventory: Inventory,
) -> NodeStatus:
    total = inventory.total
    return NodeStatus(
        # As long as it is in no mesh; there it is its key.
        id=job_id_of(f"{socket.gethostname()} {home.data}"),
        name=settings.name or socket.gethostname(),
        node_class=classify(hardware).name,
        version=__version__,
        pid=os.getpid(),
        keeper_pid=hello.pid,
        since_ms=time.time_ns() // 1_000_000,
        data_dir=home.data,
        cpu_milli_total=total.cpu_milli,
        cpu_milli_free=total.cpu_milli,
        memory_bytes_total=total.memory_bytes,
        memory_bytes_free=total.memory_bytes,
        gpus_total=len(total.gpus),
        gpus_free_milli=sum(gpu.share_milli for gpu in total.gpus),
        jobs_waiting=0,
        jobs_running=0,
        limits=hello.limits,
        pretended=hardware.pretended,
    )
