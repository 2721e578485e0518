"""What a uv.lock pins, in words that pip understands.

Lives here: from a lock to pinned requirements. Never here: reading files (`requirements`).
"""

from typing import Any, Final

STATES_MAX: Final = 10_000  # Ways to packages; the locks of large projects have hundreds.


def pinned(lock: dict[str, Any]) -> tuple[str, ...] | None:
    """A line for each package that the project needs; None: it needs what only uv can do."""
    try:
        return _pinned(lock["package"])
    except (AttributeError, KeyError, TypeError, ValueError):
        return None


def _pinned(packages: list[dict[str, Any]]) -> tuple[str, ...]:
    (root,) = (one for one in packages if "." in map(one["source"].get, ("virtual", "editable")))
    pending = [(one, frozenset[str]()) for one in root.get("dependencies", ())]
    seen: set[tuple[str, str, frozenset[str]]] = set()
    lines: dict[str, None] = {}
    while pending:
        want, above = pending.pop()
        markers = above | {want["marker"]} if "marker" in want else above
        told = [(key, want[key]) for key in ("name", "version", "source") if key in want]
        (found,) = (one for one in packages if all(one[key] == value for key, value in told))
        hashes = [one["hash"] for one in (*found.get("wheels", ()), found.get("sdist")) if one]
        is_plain = "registry" in found["source"] and "extra" not in want.get("marker", "")
        if not is_plain or not hashes or len(seen) > STATES_MAX:
            raise ValueError(found["name"])
        pin = f"{found['name']}=={found['version']}"
        when = " and ".join(f"({marker})" for marker in sorted(markers))
        line = [pin, f"; {when}" if when else "", *(f"--hash={one}" for one in hashes)]
        lines[" ".join(line)] = None
        for extra in ("", *want.get("extra", ())):
            if (pin, extra, markers) not in seen:
                seen.add((pin, extra, markers))
                extras = found.get("optional-dependencies", {})
                more = extras.get(extra, ()) if extra else found.get("dependencies", ())
                pending += [(one, markers) for one in more]
    return tuple(lines)
