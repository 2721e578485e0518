"""Values that hold a secret, and do not show it.

Lives here: how such a value prints. Never here: keeping secrets from memory or from disk.
Invariant: neither `repr` nor rich ever sees a field that is named in `SECRETS`.
"""

from typing import Any, ClassVar

import msgspec


class Discreet(msgspec.Struct, frozen=True, kw_only=True):
    """Says which secrets it holds, never what they are."""

    SECRETS: ClassVar[frozenset[str]] = frozenset()

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={value!r}" for name, value in self.__rich_repr__())
        return f"{type(self).__name__}({fields})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [
            (name, "…" if name in self.SECRETS else getattr(self, name))
            for name in self.__struct_fields__
        ]
