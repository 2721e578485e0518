"""The worker processes behind a map: what they are as a job, and how a map gets more of them.

Lives here: the job of the workers, and what a client knows of one map at its agent. Sans-io.
Invariant: one map at a time uses a pool; the next of the same kind finds its workers warm.
"""

import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sized
from typing import Any, Final, TypedDict

import msgspec

from distributed_grid.client import map_calls
from distributed_grid.client.calls import Call
from distributed_grid.client.specification import NAME_CHARACTERS_MAX, new_id, specification
from distributed_grid.client.values import LargeValues
from distributed_grid.model.job import Array, JobSpec, Work
from distributed_grid.wire.maps import GUEST_PYTHON, GUEST_SOCKET, OpenMap

GRACE_MS: Final = 2_000  # A call that is cancelled has this long to tidy up after SIGTERM.
RESTARTS_MAX: Final = 1_000_000  # A worker that a call killed is replaced; the agent sees sense.
WORKERS_MAX: Final = 1_000
SLOT_MILLI_MIN: Final = 100  # Workers that ask for less than a tenth of a core are not endless.
MODULE: Final = "distributed_grid.client.worker"
# On another machine neither the caller's Python nor its agent's socket are where they are here: its
# own are named to every job of another node.
START: Final = f'exec "${{{GUEST_PYTHON}:-$0}}" -m {MODULE} "${{{GUEST_SOCKET}:-$1}}" "$2" "$3"'


SOCKET_AT: Final = 4  # In the arguments of a worker.


class WorkerWishes(TypedDict, total=False):
    """What `map` and `call` take for their workers; all of it may be left out."""

    cpus: float | str  # 1 for each worker.
    memory: int | str  # 0: not limited.
    storage: int | str
    gpus: float | str | None
    resources: Mapping[str, float | str] | None
    env: Mapping[str, str] | None
    inherit_env: bool
    cwd: str | os.PathLike[str] | None
    name: str | None  # map: and the name of the function.


class MapWishes(WorkerWishes, total=False):
    """What `map` takes beside them."""

    prints: bool  # True: what calls print is shown here too.
    progress: bool  # False: how far it is is not shown.


class Applied:
    """A function of any arguments as a function of one item: the pair of them."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.__name__ = _function_name(function)

    def __call__(self, given: tuple[tuple[Any, ...], dict[str, Any]]) -> Any:
        """Call it."""
        return self.function(*given[0], **given[1])


class Spread(Applied):
    """A function of several items as a function of one: the tuple of them."""

    def __call__(self, given: tuple[Any, ...]) -> Any:
        """Call it."""
        return self.function(*given)


def spread(
    function: Callable[..., Any], items: Any, more: tuple[Iterable[Any], ...]
) -> tuple[Callable[..., Any], Any]:
    """A map over several iterables as one over tuples; the shortest of them counts."""
    if not more:
        return function, items
    every = (items, *more)
    together: Iterable[Any] = zip(*every, strict=False)
    if all(isinstance(one, Sized) for one in every):
        together = list(together)  # So it is known how many there are.
    return Spread(function), together


class WorkerPool:
    """What a client knows of a map at its agent."""

    def __init__(self, spec: JobSpec) -> None:
        assert spec.work is not None, "workers run something"
        self.id, self._work = new_id(), spec.work
        beside = os.path.dirname(self._work.argv[SOCKET_AT])  # noqa: PTH120
        self.values = LargeValues(f"{beside}/values/{self.id}")
        self.cursor = 0  # Outcomes heard since it was opened.
        self.next_number = 0
        self.is_open = False
        self.cpu_milli_total = 0  # Of this machine; 0: not asked yet.
        # Of the others of its mesh; None: not asked yet, for no map turned out to be long.
        self.cpu_milli_around: int | None = None
        self._functions = 0
        self._spec = spec
        self._hired: JobSpec | None = None
        self._hires = 0
        self.job = ""  # Of its first workers.
        self._unable: set[str] = set()  # Nodes of which it was told.

    @property
    def key(self) -> bytes:
        """Equal for workers that can stand in for each other."""
        return worker_key(self._spec)

    def count(self, wanted: int | None, *, items: int | None) -> int:
        """How many workers: as told, else one for each slot; never more than items."""
        cores = self.cpu_milli_total + (self.cpu_milli_around or 0)
        slots = cores // max(self._spec.request.cpu_milli, SLOT_MILLI_MIN)
        count = min(max(slots, 1), WORKERS_MAX) if wanted is None else wanted
        return max(1, count if items is None else min(count, items))

    def next_function(self) -> int:
        """A number for another function."""
        self._functions += 1
        return self._functions

    def new_number(self) -> int:
        """A number for another call."""
        self.next_number += 1
        return self.next_number - 1

    def tell_unable(self, nodes: Iterable[tuple[str, str]], name: str) -> None:
        """Log once of each node that it cannot run calls: on stderr, unless a program differs."""
        for node, why in nodes:
            if node not in self._unable:
                import logging

                self._unable.add(node)
                logging.getLogger("distributed_grid").warning(
                    "%s gets no more calls of %s: %s. Other machines run them. Install what is "
                    "missing for the Python of its agent; modules beside your program travel",
                    *(_printable(word) for word in (node, name, why)),
                )

    def hire(self, workers: int) -> Call[None]:
        """More workers, as another job."""
        array = Array(start=0, stop=workers)
        argv = (*self._work.argv, self.id)
        self._hires += 1
        # Each a name of its own, so that its log can be asked for by it.
        more = f".{self._hires}" if self._hires > 1 else ""
        self._hired = msgspec.structs.replace(
            self._spec,
            id=new_id(),
            name=self._spec.name[: NAME_CHARACTERS_MAX - len(more)] + more,
            array=array,
            work=msgspec.structs.replace(self._work, argv=argv),
        )
        self.job = self.job or f"id:{self._hired.id}"
        yield from map_calls.open_map(OpenMap(map=self.id, workers=self._hired))
        self.is_open = True

    def open(self, workers: int) -> Call[None]:
        """Begin, or begin again: with the workers it has, if they are still there."""
        self.cursor = 0
        if self._hired is None:
            yield from self.hire(workers)
            return
        yield from map_calls.open_map(OpenMap(map=self.id, workers=self._hired))
        self.is_open = True


def worker_key(spec: JobSpec) -> bytes:
    """What makes two workers alike: all but id, name and number."""
    return msgspec.msgpack.encode((spec.request, spec.work, spec.require, spec.avoid))


def worker_spec(function: Callable[..., Any], wishes: WorkerWishes, *, socket: str) -> JobSpec:
    """The job that is one worker."""
    name = wishes.get("name") or f"map:{_function_name(function)}"[:NAME_CHARACTERS_MAX]
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    spec = specification(
        ("/bin/sh", "-c", START, sys.executable, socket, python),
        {**wishes, "name": name, "retries": RESTARTS_MAX, "outputs": None},  # type: ignore[typeddict-item]
    )
    work = spec.work
    assert work is not None, "a specification has work"
    env = {**work.env, "PYTHONPATH": _import_path(), **(wishes.get("env") or {})}
    told = tuple(sorted({"PYTHONPATH", *(wishes.get("env") or ())}))
    work = Work(argv=work.argv, cwd=work.cwd, env=env, told=told, grace_ms=GRACE_MS)
    return msgspec.structs.replace(spec, work=work)


def _function_name(function: Callable[..., Any]) -> str:
    name = getattr(function, "__name__", type(function).__name__)
    return _printable(str(name)) or "function"


def _printable(text: str) -> str:
    return "".join(letter for letter in text if letter.isprintable())


def _import_path() -> str:
    """So that a worker imports what its client imports: a script's own directory, for one."""
    own = [os.path.abspath(entry or ".") for entry in sys.path]  # noqa: PTH100
    usual = tuple({os.path.join(root, "lib") for root in (sys.prefix, sys.base_prefix)})  # noqa: PTH118
    return os.pathsep.join(entry for entry in own if not entry.startswith(usual))
