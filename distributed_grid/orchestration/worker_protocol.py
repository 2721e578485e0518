"""`ResourceSharingProtocol`: what is asked of one node (seed 003).

Lives here: the agent on a node, its report, a job on it. Never here: choosing a node.
Machines that have not joined are brought in by `install_worker_agent`, and refused by the rest.
"""

import asyncio
import contextlib
import logging
import os
import shutil
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from distributed_grid.bootstrap.bringing import bring
from distributed_grid.bootstrap.connection import HERE, Target
from distributed_grid.bootstrap.packing import Supply
from distributed_grid.client import across_calls, borrowing, mesh_calls, sharing_calls
from distributed_grid.client.blocking import Caller
from distributed_grid.client.specification import Wishes, new_id, specification
from distributed_grid.client.status_dicts import amount_number, iso, offer_dict
from distributed_grid.config.cluster_config import ClusterConfig
from distributed_grid.config.cluster_sections import NodeConfig, ThresholdsConfig
from distributed_grid.errors import BadValue, GridError, MeshUnreachable, NotFound
from distributed_grid.model import milli
from distributed_grid.orchestration import running
from distributed_grid.orchestration.beside import AgentBeside
from distributed_grid.orchestration.failures import NotJoined
from distributed_grid.wire.api import NodeStatus
from distributed_grid.wire.sharing import SharingStatus

_log = logging.getLogger(__name__)


class ResourceSharingProtocol:
    """Talks to the agents of nodes; each call stands for itself."""

    def __init__(
        self,
        config: ClusterConfig | None = None,
        *,
        data_dir: str | os.PathLike[str] | None = None,
    ) -> None:
        self.config = config or ClusterConfig()
        self._agent = AgentBeside(self.config, data_dir)

    async def install_worker_agent(self, node: NodeConfig | str) -> bool:
        """See to it that an agent runs on a node; True when it answers.

        On a machine that does not answer Grid is installed over ssh, started and let in, as `grid
        bootstrap` does; a name stands for what the configuration says of it, else for a host.
        """
        listed = {one.name: one for one in self.config.nodes}
        one = (listed.get(node) or NodeConfig(name=node)) if isinstance(node, str) else node
        try:
            await self._status_of(one)
        except (NotFound, NotJoined, MeshUnreachable):
            target = Target.listed(one, self.config.ssh)
            await asyncio.to_thread(_bring, target, self._agent.caller.path)
        return True

    async def check_node_resources(
        self,
        node: NodeConfig | str,
        thresholds: Mapping[str, float] | ThresholdsConfig | None = None,
    ) -> dict[str, Any]:
        """What a node measures, and what it would offer; other thresholds can only offer less."""
        status, sharing = await self._status_of(node)
        offers = [offer_dict(offer, status.name) for offer in sharing.offers]
        is_here = status.name == (await self._agent.open()).name
        report = _report(status, sharing, is_here=is_here)
        if thresholds is not None:
            limits = _thresholds(thresholds)
            offers = [offer for offer in offers if _passes(offer, report, limits)]
        at = iso(sharing.owner.at_ms) if sharing.owner else None
        return {"node_id": status.name, "timestamp": at, "offers": offers, "status": report}

    async def execute_remote_job(
        self,
        node: NodeConfig | str,
        script: str,
        resources: Mapping[str, float | str],
        work_dir: str = "~/grid_jobs",
    ) -> tuple[bool, str]:
        """Run a script on a node with these resources, in a directory of its own below `work_dir`.

        Gives whether it ended well, and its output; the directory is removed when it has.
        """
        status, sharing = await self._status_of(node)
        is_here = sharing.node == (await self._agent.open()).name
        job_id = new_id()
        told: Wishes = {
            **running.configured(self.config),
            **_wishes(resources),
            "id": job_id,
            "shared": True,
            **running.placed(None if is_here else status.name),
        }
        kind = borrowing.kind_of(next(iter(resources), "cpu"))
        caller = self._agent.caller
        # Elsewhere it starts in a directory of its own, whatever is told.
        folder = _made(work_dir, job_id[:16]) if is_here else None
        try:
            spec = specification(script, {**told, "cwd": folder} if folder else told)
            wait_ms = borrowing.WAIT_S_DEFAULT * 1_000
            await running.borrow(
                caller,
                spec,
                kind=kind,
                wanted=str(dict(resources)),
                wait_ms=wait_ms,
                is_named=False,
            )
            ran = await running.ended(caller, spec)
        except GridError as error:
            return False, str(error)
        finally:
            if folder is not None:
                shutil.rmtree(folder, ignore_errors=True)
        return (True, ran.stdout) if ran.is_ok else (False, ran.stderr or ran.job.reason)

    async def close(self) -> None:
        """Hang up; ends an agent that was started here."""
        await self._agent.close()

    async def _status_of(self, node: NodeConfig | str) -> tuple[NodeStatus, SharingStatus]:
        name, host = (node, node) if isinstance(node, str) else (node.name, node.host)
        status = await self._agent.open()
        caller = self._agent.caller
        if name == status.name or {name, host} & HERE:
            return status, await caller.run(sharing_calls.sharing())
        mesh = await caller.run(mesh_calls.nodes())
        if all(name not in (one.name, one.id) for one in mesh.nodes):
            raise NotJoined(name)
        there = await caller.run(across_calls.status_of(name))
        return there, await caller.run(across_calls.sharing_of(name))


def _bring(target: Target, socket: str) -> None:
    """In a thread of its own: ssh, and what runs over it, wait."""
    with Caller(socket) as agent, contextlib.closing(Supply()) as supply:
        bring(target, agent, supply, say=partial(_log.info, "%s: %s", target.host))


def _made(work_dir: str, name: str) -> Path:
    folder = Path(work_dir).expanduser().absolute() / name
    folder.mkdir(parents=True, mode=0o700)
    return folder


def _wishes(resources: Mapping[str, float | str]) -> Wishes:
    """Several loans as one."""
    whole = Wishes(cpus=0)
    custom: dict[str, float | str] = {}
    for word, amount in resources.items():
        one = borrowing.loan(borrowing.kind_of(word), amount)
        custom |= one.get("resources") or {}
        # A loan of another kind asks for no cores: that must not undo a loan of cores.
        whole |= one if one.get("cpus") else {k: v for k, v in one.items() if k != "cpus"}  # type: ignore[typeddict-item]
    return whole | {"resources": custom}


def _disk(
    status: NodeStatus, sharing: SharingStatus, *, is_here: bool
) -> tuple[float | None, float | None]:
    """In GiB; of another machine only what it offers is known."""
    if is_here:
        disk = shutil.disk_usage(status.data_dir if Path(status.data_dir).is_dir() else "/")
        return amount_number("storage", disk.total), amount_number("storage", disk.free)
    offers = [offer for offer in sharing.offers if offer.kind == "storage"]
    if not offers:
        return None, None
    total = max(offer.total for offer in offers)
    free = sum(offer.amount for offer in offers)
    return amount_number("storage", total), amount_number("storage", free)


def _report(status: NodeStatus, sharing: SharingStatus, *, is_here: bool) -> dict[str, Any]:
    """What seed 003's worker printed."""
    use = sharing.owner
    disk_total, disk_free = _disk(status, sharing, is_here=is_here)
    by_device = dict(use.gpu_used_milli) if use else {}
    return {
        "timestamp": iso(use.at_ms) if use else None,
        "cpu": {
            "percent": use.cpu_used_milli / 10 if use else None,
            "total_cores": milli.number(status.cpu_milli_total),
            "available_cores": milli.number(status.cpu_milli_free),
        },
        "memory": {
            "total_gb": amount_number("memory", status.memory_bytes_total),
            "available_gb": amount_number("memory", status.memory_bytes_free),
            "percent": use.memory_used_milli / 10 if use else None,
        },
        "disk": {
            "total_gb": disk_total,
            "free_gb": disk_free,
        },
        "gpus": [
            {
                "gpu_id": offer.device,
                "memory_free_mb": offer.memory_free_bytes >> 20,
                "memory_total_mb": offer.memory_total_bytes >> 20,
                "utilization_percent": by_device.get(offer.device, 0) / 10,
            }
            for offer in sharing.offers
            if offer.device
        ],
    }


def _thresholds(told: Mapping[str, float] | ThresholdsConfig) -> ThresholdsConfig:
    if isinstance(told, ThresholdsConfig):
        return told
    try:
        return msgspec.convert(dict(told), ThresholdsConfig)
    except msgspec.ValidationError as error:
        raise BadValue(dict(told), expected=str(error), remedy="Use the six of the file") from None


def _passes(offer: dict[str, Any], report: dict[str, Any], limits: ThresholdsConfig) -> bool:
    """Usage strictly below max and free strictly above min, as the seed has it."""
    match offer["resource_type"]:
        case "cpu":
            used, most = report["cpu"]["percent"], limits.cpu_percent_max
            free, least = offer["amount"], limits.cpu_min_cores
        case "memory":
            used, most = report["memory"]["percent"], limits.memory_percent_max
            free, least = offer["amount"], limits.memory_min_gb
        case "gpu":
            device = offer["conditions"]["gpu_id"]
            gpu = next(one for one in report["gpus"] if one["gpu_id"] == device)
            used, most = gpu["utilization_percent"], limits.gpu_utilization_max
            free, least = gpu["memory_free_mb"], limits.gpu_memory_min_mb
        case _:
            return True
    return used is not None and used < most and free > least
