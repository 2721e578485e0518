"""The people of a mesh: to whom its machines belong, and how they are called.

Lives here: who is meant by a name, new people, names that tell two of one name apart. Never here:
what a person's certificate says (`model.membership`), who believes it (`trust`).
Invariant: a name alone never makes two people one; whoever is meant again is named by id.
"""

import hashlib
from collections import Counter
from collections.abc import Mapping

from distributed_grid.errors import NotFound, NotPermitted
from distributed_grid.model.membership import Person

_BY_ID = "id:"


def new_person(secret: bytes, name: str) -> Person:
    """Somebody of whom no machine is in yet: all that come with one ticket are one person's."""
    return Person(hashlib.sha256(b"grid person" + secret).hexdigest(), name)


def meant(whose: str, known: Mapping[str, Person], secret: bytes) -> Person:
    """Somebody new by this name, or one who is known, by the beginning of an id."""
    if whose.startswith(_BY_ID):
        word = whose.removeprefix(_BY_ID)
        found = [each for key, each in known.items() if word and key.startswith(word)]
        if len(found) != 1:
            error = NotFound("person", whose)
            error.remedy = "See person_id in: grid nodes --json"
            raise error
        return found[0]
    for other in known.values():
        if other.name == whose:
            raise NotPermitted(
                f"somebody called {whose} is known here already",
                remedy=f"For a machine of the same person: --for {_BY_ID}{other.id[:12]};"
                " for somebody else choose another name",
            )
    return new_person(secret, whose)


def labels(people: Mapping[str, Person]) -> dict[str, str]:
    """How they are called, by id: two bobs are bob-3f2a and bob-91c0."""
    count = Counter(each.name for each in people.values())
    return {
        key: each.name if count[each.name] == 1 else f"{each.name}-{key[:4]}"
        for key, each in people.items()
    }
