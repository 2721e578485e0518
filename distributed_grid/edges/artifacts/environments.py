"""Python environments: built once from a file of the project, and kept.

Lives here: the cache of what was built, and who uses it. Never here: building (`building`), what
the files say (`requirements`).
Invariant: an environment is used only after its build has ended well; the same one is never built
twice at once; what a job uses is not removed.

An environment cannot be moved, its programs name their interpreter. So it is built where it will
be, and a file written last says that it is whole; what has no such file is built anew, in another
place: pip outlives an agent that was killed, and goes on writing where it began.

Jobs outlive their agent, too. Who uses an environment is therefore written beside it, one empty
file each; the next agent keeps it for them until it hears that they are over.
"""

import asyncio
import contextlib
import hashlib
import os
import shutil
from collections.abc import Mapping
from typing import Final

import msgspec

from distributed_grid.edges.artifacts import Environment
from distributed_grid.edges.artifacts.building import Builder, Interpreter, PythonMismatch, dotted
from distributed_grid.edges.artifacts.python_versions import allows
from distributed_grid.edges.artifacts.requirements import Recipe, recipe_in
from distributed_grid.wire.mesh import JUNK

ENVIRONMENTS_MAX: Final = 20  # Failed ones too, for their logs.
BYTES_MAX: Final = 20 << 30  # Four with PyTorch; the longest unused makes room.
_USERS: Final = "users"  # A folder beside what was built.


class Environments:
    """Builds and keeps environments in a directory."""

    def __init__(
        self,
        root: str,
        *,
        environ: Mapping[str, str],
        bytes_max: int = BYTES_MAX,
        environments_max: int = ENVIRONMENTS_MAX,
    ) -> None:
        self._root = root
        self._builder = Builder(environ)
        self._bytes_max = bytes_max
        self._environments_max = environments_max
        self._building: dict[str, asyncio.Task[Environment]] = {}
        self._users = _users_in(root)

    async def check(self, recipe: Recipe, *, python: str = "") -> Interpreter:
        """The Python that would be used, before anything is built. Raises PythonMismatch."""
        wanted = ",".join(filter(None, (recipe.requires_python, python)))
        found = await self._builder.interpreters()
        for one in found:
            if allows(wanted, one.version):
                return one
        raise PythonMismatch(wanted, has=sorted({dotted(one.version) for one in found}))

    async def ready(self, recipe: Recipe, *, user: str, python: str = "") -> Environment:
        """An environment that is whole, built if need be. Raises PythonMismatch, NotBuilt."""
        interpreter = await self.check(recipe, python=python)
        words = (recipe.hash, dotted(interpreter.version), interpreter.path, self._builder.tool)
        key = hashlib.blake2b("\0".join(words).encode(), digest_size=16).hexdigest()
        self._users.setdefault(key, set()).add(user)
        try:
            built = await asyncio.to_thread(self._whole, key)
            if built is None:
                built = await asyncio.shield(self._begun(key, recipe, interpreter))
            await asyncio.to_thread(self._note, key, user)
        except BaseException:
            self.let_go(key, user)
            raise
        return built

    async def ready_from(self, recipe: str, *, user: str) -> Environment:
        """The same, of a directory that holds nothing but a recipe. Raises BadInput too."""
        return await self.ready(await asyncio.to_thread(recipe_in, recipe), user=user)

    def let_go(self, key: str, user: str) -> None:
        """A job uses it no longer."""
        users = self._users.get(key, set())
        users.discard(user)
        if not users:
            self._users.pop(key, None)
        with contextlib.suppress(OSError):
            os.unlink(f"{self._root}/{key}/{_USERS}/{user}")

    def users(self) -> set[str]:
        """Everyone who uses one, those of an agent before this one too."""
        return set().union(*self._users.values())

    def left(self, user: str) -> None:
        """A job is over, whatever it used: maybe another agent began it."""
        for key in [key for key, users in self._users.items() if user in users]:
            self.let_go(key, user)

    async def close(self) -> None:
        """End what is being built."""
        building = list(self._building.values())
        for task in building:
            task.cancel()
        await asyncio.gather(*building, return_exceptions=True)

    def _over(self, key: str, done: asyncio.Task[Environment]) -> None:
        self._building.pop(key, None)
        if not done.cancelled():
            done.exception()  # Those who wait have heard it; maybe nobody does.

    def _begun(
        self, key: str, recipe: Recipe, interpreter: Interpreter
    ) -> asyncio.Task[Environment]:
        """The build of it, which there is once."""
        if key not in self._building:
            work = self._build(key, recipe, interpreter)
            self._building[key] = asyncio.get_running_loop().create_task(work)
            self._building[key].add_done_callback(lambda done: self._over(key, done))
        return self._building[key]

    async def _build(self, key: str, recipe: Recipe, interpreter: Interpreter) -> Environment:
        place = os.urandom(4).hex()
        await asyncio.to_thread(self._sweep, key, place)
        path = await self._builder.build(recipe, interpreter, f"{self._root}/{key}/{place}")
        built = Environment(
            key=key,
            path=path,
            python=dotted(interpreter.version),
            tool=self._builder.tool,
            size_bytes=await asyncio.to_thread(_size_of, path),
        )
        await asyncio.to_thread(self._finish, place, built)
        return built

    def _finish(self, place: str, built: Environment) -> None:
        home = f"{self._root}/{built.key}"
        self._sweep(built.key, place)  # Another build may have gone on meanwhile.
        with open(f"{home}/built.new", "wb") as file:
            file.write(msgspec.json.encode(built))
        os.replace(f"{home}/built.new", f"{home}/built")
        self._make_room()

    def _sweep(self, key: str, place: str) -> None:
        """Remove what other builds left, whole or not; but not what a job still runs with."""
        home = f"{self._root}/{key}"
        built, _ = self._kept(key)
        used = built.path if built and _listed(f"{home}/{_USERS}") else ""
        for name in _listed(home):
            is_used = f"{used}/".startswith(f"{home}/{name}/")
            if name not in (place, "built", _USERS) and not is_used:
                shutil.rmtree(f"{home}/{name}", ignore_errors=True)

    def _note(self, key: str, user: str) -> None:
        folder = f"{self._root}/{key}/{_USERS}"
        os.makedirs(folder, 0o700, exist_ok=True)
        os.close(os.open(f"{folder}/{user}", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))

    def _whole(self, key: str) -> Environment | None:
        """What was built under this key, if it is whole; it counts as used."""
        built, _ = self._kept(key)
        if built is None or not os.path.exists(f"{built.path}/bin/python"):
            return None
        with contextlib.suppress(OSError):
            os.utime(f"{self._root}/{key}")
        return built

    def _kept(self, key: str) -> tuple[Environment | None, int]:
        """An environment, and when it was last used; None: its build failed.

        Raises OSError if that cannot be told: what is there may be in use.
        """
        used_ns = 0
        try:
            used_ns = os.stat(f"{self._root}/{key}").st_mtime_ns
            with open(f"{self._root}/{key}/built", "rb") as file:
                return msgspec.json.decode(file.read(), type=Environment), used_ns
        except (FileNotFoundError, NotADirectoryError, *JUNK):
            return None, used_ns

    def _make_room(self) -> None:
        """Remove the longest unused until the rest may stay."""
        aged: list[tuple[int, str, int]] = []
        for key in os.listdir(self._root):
            with contextlib.suppress(OSError):  # It may be in use.
                built, used_ns = self._kept(key)
                aged.append((used_ns, key, built.size_bytes if built else 0))
        used, count = sum(size for *_, size in aged), len(aged)
        for _, key, size in sorted(aged):
            if used <= self._bytes_max and count <= self._environments_max:
                return
            if key not in self._users and key not in self._building:
                self._remove(key)
                used, count = used - size, count - 1

    def _remove(self, key: str) -> None:
        """First its name goes: what is removed by half must not be taken for whole."""
        gone = f"{self._root}/{key}.{os.urandom(4).hex()}"
        with contextlib.suppress(OSError):
            os.rename(f"{self._root}/{key}", gone)
        shutil.rmtree(gone, ignore_errors=True)


def _users_in(root: str) -> dict[str, set[str]]:
    """Who used what when the last agent ended."""
    found = {key: set(_listed(f"{root}/{key}/{_USERS}")) for key in _listed(root)}
    return {key: users for key, users in found.items() if users}


def _listed(folder: str) -> list[str]:
    """What is in a folder, if there is one."""
    try:
        return os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return []


def _size_of(path: str) -> int:
    total = 0
    for folder, _, names in os.walk(path):
        for name in names:
            with contextlib.suppress(OSError):
                total += os.lstat(os.path.join(folder, name)).st_size
    return total
