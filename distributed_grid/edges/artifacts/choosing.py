"""Which paths people mean: those to be sent along, and the outputs that are to come back.

Lives here: paths and globs of the command line, as tests on paths. Never here: walking (`walking`).
Invariant: nothing outside of the work directory is ever meant.
"""

import os
from collections.abc import Sequence

from distributed_grid.edges.artifacts.ignoring import Pattern, glob_of
from distributed_grid.edges.artifacts.walking import Wanted
from distributed_grid.errors import BadValue
from distributed_grid.model.job import OUTPUTS_MAX


def globs_of(texts: Sequence[str]) -> tuple[Pattern, ...]:
    """The globs of outputs, which stay in the work directory. Raises BadValue."""
    for text in texts:
        steps = text.split("/")
        if (
            not text
            or "\0" in text
            or text.startswith("/")
            or ".." in steps
            or set(steps) <= {"", "."}
        ):
            raise BadValue(
                text,
                expected="a path or a glob in the work directory",
                remedy="Write it like results/**, *.csv or model.bin",
                field="output",
            )
    if len(texts) > OUTPUTS_MAX:
        raise BadValue(len(texts), expected=f"at most {OUTPUTS_MAX} outputs", remedy="Use a glob")
    return tuple(glob_of(os.fsencode(text)) for text in texts)


def wanted_by(globs: Sequence[Pattern]) -> Wanted:
    """Which paths are meant: what matches, what is below it, and the folders on the way there."""

    def wanted(path: Sequence[bytes], is_folder: bool) -> bool:
        return is_meant(globs, path) or (is_folder and any(_may_hold(g, path) for g in globs))

    return wanted


def wanted_among(paths: frozenset[bytes]) -> Wanted:
    """The same of paths themselves."""
    steps = [path.split(b"/") for path in paths]
    above = frozenset(b"/".join(one[:length]) for one in steps for length in range(1, len(one)))

    def wanted(path: Sequence[bytes], is_folder: bool) -> bool:
        whole = b"/".join(path)
        return whole in (above if is_folder else paths) or whole in paths

    return wanted


def is_meant(globs: Sequence[Pattern], path: Sequence[bytes]) -> bool:
    """Whether a path, or a folder that it is in, matches."""
    return any(glob.matches(path[:length]) for glob in globs for length in range(1, len(path) + 1))


def _may_hold(glob: Pattern, folder: Sequence[bytes]) -> bool:
    for part, step in zip(glob.parts, folder, strict=False):
        if part is None:
            return True
        if not part.match(step):
            return False
    return len(glob.parts) > len(folder)


def path_below(root: str, path: str) -> bytes:
    """A path of a person as one below a root. Raises BadValue if it is outside, or is none."""
    base = os.path.abspath(root)
    whole = os.path.normpath(os.path.join(base, path))
    if whole != base and not whole.startswith(base.rstrip("/") + "/"):
        raise BadValue(
            path,
            expected=f"a path in {base}",
            remedy="Run from a directory that holds everything the job needs",
            field="ship",
        )
    if not os.path.lexists(whole):  # Else the job would find that out, on another machine.
        raise BadValue(
            path,
            expected=f"something that is in {base}",
            remedy="Check the name, and from where you run it",
            field="ship",
        )
    return os.fsencode(os.path.relpath(whole, base))
