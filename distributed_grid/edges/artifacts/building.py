"""How a Python environment is built: which Python, which commands, their log.

Lives here: interpreters, uv and pip. Never here: keeping what was built (`environments`), what the
files of a project say (`requirements`).
Invariant: whatever a build starts has ended when it returns, and all that it said is in its log.
"""

import asyncio
import contextlib
import os
import shutil
import signal
import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Final, NamedTuple

from distributed_grid.edges.artifacts import ArtifactError
from distributed_grid.edges.artifacts.python_versions import Version
from distributed_grid.edges.artifacts.requirements import Recipe

BUILD_S_MAX: Final = 1_800.0  # Half an hour of downloads: PyTorch over 10 Mbit/s.
LOG_BYTES_KEPT: Final = 1 << 20  # The end of the log of a build.
TOLD_BYTES_MAX: Final = 600  # Of it, in an error.
MINORS: Final = range(9, 20)  # Of Python 3, looked for by name.
PASSED_ON: Final = ("PATH", "HOME", "LANG", "TMPDIR", "SSL_CERT_FILE", "SSL_CERT_DIR")
PASSED_ON_PREFIXES: Final = ("PIP_", "UV_", "HTTP_", "HTTPS_", "NO_PROXY", "http", "no_proxy")


class PythonMismatch(ArtifactError):
    """No Python here is one that the project wants."""

    exit_code = 3

    def __init__(self, wanted: str, *, has: Sequence[str]) -> None:
        self.wanted, self.has = wanted, tuple(has)
        super().__init__(
            f"the job wants Python {wanted}, this machine has {', '.join(has)}",
            remedy="Install such a Python here, or let the job run elsewhere: --label, --node",
        )


class NotBuilt(ArtifactError):
    """An environment could not be built."""

    def __init__(self, *, why: str, log: str) -> None:
        self.why, self.log = why, log
        super().__init__(
            f"the Python environment could not be built: {why}", remedy=f"See the whole log: {log}"
        )


class Interpreter(NamedTuple):
    """A Python of this machine."""

    path: str
    version: Version


def dotted(version: Version) -> str:
    """A version as people write it."""
    return ".".join(map(str, version))


class Builder:
    """Builds environments with what this machine has."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self._uv = shutil.which("uv", path=environ.get("PATH"))

    @property
    def tool(self) -> str:
        """What it builds with."""
        return "uv" if self._uv else "pip"

    async def interpreters(self) -> list[Interpreter]:
        """The Pythons of this machine, our own first, then the newest."""
        path = self._environ.get("PATH")
        named = [shutil.which(f"python3.{minor}", path=path) for minor in reversed(MINORS)]
        candidates = dict.fromkeys([sys.executable, *filter(None, named)])
        found = [Interpreter(candidate, await _version(candidate)) for candidate in candidates]
        return [one for one in found if one.version]

    async def build(self, recipe: Recipe, interpreter: Interpreter, home: str) -> str:
        """Build an environment in a new directory; where in it it is. Raises NotBuilt."""
        target = f"{home}/venv"
        await asyncio.to_thread(_prepare, home, recipe)
        for command in self._commands(recipe, interpreter, home, target):
            await self._run(command, home)
        await asyncio.to_thread(_cut_log, f"{home}/build.log")
        return target

    def _commands(
        self, recipe: Recipe, interpreter: Interpreter, home: str, target: str
    ) -> list[list[str]]:
        """What builds it, one after the other."""
        if recipe.requirements is None and self._uv is None:
            why = "this uv.lock is read by uv, which is not installed here"
            raise NotBuilt(why=why, log=f"{home}/build.log")
        if recipe.kind == "uv.lock" and self._uv is not None:
            sync = [self._uv, "sync", "--frozen", "--no-install-project", "--no-dev"]
            return [[*sync, "--python", interpreter.path, "--project", f"{home}/from"]]
        listed = f"{home}/from/{next(iter(recipe.files))}"
        if recipe.kind != "requirements":
            listed = f"{home}/from/{_LISTED}" if recipe.requirements else ""
        wants = ["-r", listed] if listed else []
        if self._uv is not None:
            venv = [self._uv, "venv", "--no-project", "--python", interpreter.path, target]
            install = [self._uv, "pip", "install", "--python", f"{target}/bin/python", *wants]
        else:
            # Our own pip installs elsewhere too; to unpack another takes seconds.
            is_ours = interpreter.path == sys.executable and find_spec("pip") is not None
            without = ["--without-pip"] if is_ours else []
            venv = [interpreter.path, "-m", "venv", *without, target]
            python = f"{target}/bin/python"
            pip = (
                [sys.executable, "-m", "pip", "--python", python]
                if is_ours
                else [python, "-m", "pip"]
            )
            install = [*pip, "install", "--no-input", "--disable-pip-version-check", *wants]
        return [venv, install] if wants else [venv]

    async def _run(self, command: list[str], home: str) -> None:
        log = f"{home}/build.log"
        output = await asyncio.to_thread(_begin, log, command)
        try:
            process = await asyncio.create_subprocess_exec(
                *command,
                cwd=f"{home}/from",
                env=self._variables(f"{home}/venv"),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        except OSError as error:
            raise NotBuilt(why=f"{command[0]}: {error.strerror}", log=log) from error
        finally:
            os.close(output)
        try:
            code = await asyncio.wait_for(process.wait(), BUILD_S_MAX)
        except TimeoutError as error:
            raise NotBuilt(why=f"it took more than {BUILD_S_MAX:.0f} s", log=log) from error
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # And what it left behind.
            await process.wait()
        if code:
            told = await asyncio.to_thread(_end_of, log)
            raise NotBuilt(why=told or f"{command[0]} ended with {code}", log=log)

    def _variables(self, target: str) -> dict[str, str]:
        passed = {
            name: value
            for name, value in self._environ.items()
            if name in PASSED_ON or name.startswith(PASSED_ON_PREFIXES)
        }
        return {**passed, "UV_PROJECT_ENVIRONMENT": target, "PIP_NO_INPUT": "1"}


_LISTED: Final = "dependencies.listed"  # Those of a pyproject.toml; no name of a project's file.


async def _version(interpreter: str) -> Version:
    """The version of a Python; empty: it does not run."""
    if interpreter == sys.executable:
        return tuple(sys.version_info[:3])
    try:
        process = await asyncio.create_subprocess_exec(
            interpreter,
            "-c",
            "import sys; print(*sys.version_info[:3])",
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            stdin=asyncio.subprocess.DEVNULL,
        )
        told, _ = await process.communicate()
        return tuple(int(number) for number in told.split())
    except (OSError, ValueError):
        return ()


def _prepare(home: str, recipe: Recipe) -> None:
    shutil.rmtree(home, ignore_errors=True)
    os.makedirs(f"{home}/from", 0o700)
    for name, body in recipe.files.items():
        os.makedirs(os.path.dirname(f"{home}/from/{name}"), exist_ok=True)
        with open(f"{home}/from/{name}", "wb") as file:
            file.write(body)
    with open(f"{home}/from/{_LISTED}", "w", encoding="utf-8") as listed:
        listed.write("".join(f"{word}\n" for word in recipe.requirements or ()))


def _begin(log: str, command: list[str]) -> int:
    """The open log, with a new command in it."""
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    os.write(output, f"$ {' '.join(command)}\n".encode(errors="replace"))
    return output


def _end_of(log: str) -> str:
    """The last lines of a log that say something."""
    with open(log, "rb") as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - TOLD_BYTES_MAX))
        lines = file.read().decode("utf-8", "replace").splitlines()
    return "; ".join(line.strip() for line in lines[-3:] if line.strip())


def _cut_log(log: str) -> None:
    with open(log, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size <= LOG_BYTES_KEPT:
            return
        file.seek(size - LOG_BYTES_KEPT)
        kept = file.read()
    with open(f"{log}.new", "wb") as file:
        file.write(kept)
    os.replace(f"{log}.new", log)
