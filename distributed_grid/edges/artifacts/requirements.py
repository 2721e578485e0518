"""What a Python environment is made from: requirements.txt, uv.lock, pyproject.toml.

Lives here: reading these files, and the hash of all that they say. Never here: building
(`environments`).
Invariant: two environments with the same hash are made from the same words.
"""

import hashlib
import os
import re
import tomllib
from typing import Any, Final, Literal, NamedTuple

from distributed_grid.edges.artifacts.uv_lock import pinned
from distributed_grid.errors import BadInput

Kind = Literal["requirements", "uv.lock", "pyproject.toml"]

FILE_BYTES_MAX: Final = 8 << 20  # The lock of a large project is 2 MB.
FILES_MAX: Final = 20  # That include each other.
NAMED: Final = ".recipe"  # Leads to the file that somebody named.
_INCLUDED: Final = re.compile(r"(?:-r|-c|--requirement|--constraint)[ =]?\s*(\S+)")
_LOCAL: Final = re.compile(r"(-e\b|--editable\b|\.{1,2}(/|$)|/|file:|\S+\s*@\s*file:)")


class Recipe(NamedTuple):
    """What an environment is made from."""

    kind: Kind
    files: dict[str, bytes]  # By name; the first is the one that was named.
    requires_python: str = ""
    requirements: tuple[str, ...] | None = ()  # For those who cannot read it; None: only uv can.

    @property
    def hash(self) -> str:
        """Of everything it says."""
        made = hashlib.blake2b(self.kind.encode(), digest_size=16)
        for name, body in self.files.items():
            made.update(b"%d %d " % (len(name), len(body)) + os.fsencode(name) + body)
        return made.hexdigest()


def recipe_of(root: str, name: str) -> Recipe:
    """Read what an environment is made from, in a work directory. Raises BadInput."""
    base = os.path.basename(name)
    if base == "uv.lock":
        beside = os.path.join(os.path.dirname(name), "pyproject.toml")
        files = {"uv.lock": _body(root, name), "pyproject.toml": _body(root, beside)}
        lock = _toml(name, files["uv.lock"])
        wanted = str(lock.get("requires-python", ""))
        return Recipe("uv.lock", files, requires_python=wanted, requirements=pinned(lock))
    if base == "pyproject.toml":
        body = _body(root, name)
        project = _toml(name, body).get("project", {})
        wants = project.get("dependencies", []) if isinstance(project, dict) else None
        if not isinstance(wants, list) or not all(isinstance(want, str) for want in wants):
            raise _bad(name, "project.dependencies is no list of words", "Mend it")
        return Recipe(
            "pyproject.toml",
            {"pyproject.toml": body},
            requires_python=str(project.get("requires-python", "")),
            requirements=tuple(wants),
        )
    return Recipe("requirements", _with_included(root, name))


def write_recipe(recipe: Recipe, folder: str) -> None:
    """Put a recipe into an empty directory, with a link to the file that was named."""
    for name, body in recipe.files.items():
        path = os.path.join(folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(body)
    os.symlink(next(iter(recipe.files)), os.path.join(folder, NAMED))


def recipe_in(folder: str) -> Recipe:
    """What `write_recipe` wrote. Raises BadInput."""
    try:
        name = os.readlink(os.path.join(folder, NAMED))
    except OSError as error:
        raise _bad(NAMED, error.strerror or str(error), "Submit the job again") from error
    return recipe_of(folder, name)


def _with_included(root: str, name: str) -> dict[str, bytes]:
    files: dict[str, bytes] = {}
    pending = [os.path.normpath(name)]
    while pending:
        at = pending.pop()
        if at in files:
            continue
        if len(files) >= FILES_MAX:
            raise _bad(name, f"more than {FILES_MAX} files include each other", "Use one file")
        files[at] = _body(root, at)
        for line in files[at].decode("utf-8", "replace").splitlines():
            word = line.strip()
            if found := _INCLUDED.match(word):
                pending.append(os.path.normpath(os.path.join(os.path.dirname(at), found[1])))
            elif _LOCAL.match(word):
                raise _bad(
                    at,
                    f"{word!r} is a project of the work directory, which may change",
                    "Leave it out, and set PYTHONPATH for it with --env",
                )
    return files


def _body(root: str, name: str) -> bytes:
    path = os.path.normpath(os.path.join(root, name))
    if os.path.isabs(name) or not path.startswith(os.path.normpath(root) + os.sep):
        raise _bad(name, "is outside of the work directory", "Copy it into the work directory")
    try:
        with open(path, "rb") as file:
            body = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise _bad(
            name, error.strerror or str(error), "Check the name; it must travel too"
        ) from error
    if len(body) > FILE_BYTES_MAX:
        raise _bad(name, f"has more than {FILE_BYTES_MAX} bytes", "Use a shorter file")
    return body


def _toml(name: str, body: bytes) -> dict[str, Any]:
    try:
        return tomllib.loads(body.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise _bad(name, f"is no TOML: {error}", "Mend the file") from error


def _bad(name: str, problem: str, remedy: str) -> BadInput:
    return BadInput(name, path="$", problem=problem, remedy=remedy)
