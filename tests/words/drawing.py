"""Values of any type that can be decoded, as absurd as the type allows, drawn from a seed.

Lives here: walking a type, values at the edges of its bounds, what was learnt of real ones.
Never here: what is done with them (`talking`). Invariant: the types alone say what there is, so a
new message, a new field and a new bound are covered as soon as they are there.
"""

import random
import re
from collections import deque

import msgspec
import msgspec.inspect as kinds

KNOWN = 48  # Values of one name that are remembered: of the living world, the newest.
LONG = 0.01  # How often a list is as long as its type allows, up to
LONGEST = 2_000
ABSENT = object()
_WORDS = (
    "", " ", "0", "-1", "a", "x" * 64, "0" * 64, "f" * 64, "0" * 32, "é", "\x00", "../..", "\n", "{}",
    "node-1", "x" * 255, "ü" * 4_096, "true", "ended", "begun", "lost", "succeeded", "failed",
)  # fmt: skip
_NUMBERS = (
    *(0, 1, -1, 2, 3, 7, 8, 64, 255, 256, 257, 1_000, 1_024, 4_000, 60_000, 65_535, 10**6),
    *(2**31 - 1, 2**31, 2**32, 2**40, 2**53 - 1, 2**53, 2**62, 2**63 - 1, 2**63, 2**64 - 1),
    *(-2, -255, -(2**31), -(2**53), -(2**63)),
)
_REALS = (0.0, -0.0, 1.0, -1.0, 0.5, 1e-308, 1e308, float("inf"), float("-inf"), float("nan"))
_DEEP = (
    *(kinds.StructType, kinds.UnionType, kinds.VarTupleType, kinds.TupleType, kinds.DictType),
    *(kinds.ListType, kinds.RawType),
)
_OF_NODES = frozenset({"node", "home", "host", "holders", "guardians", "rooted", "issuer"})


class Drawer:
    """One who makes values up, of what it has learnt and of nothing."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.wild = 0.2  # How much of a real value is replaced.
        self.known: dict[str, deque] = {}
        self.inside: dict[tuple[str, str], type] = {}  # (struct, field): what its bytes are.

    # Learning

    def learn(self, kind, raw, name: str = "", owner: str = "") -> None:
        """A real value, as it travels: its parts by their names."""
        if way := _LEARNT.get(type(kind)):
            way(self, kind, raw, name, owner)

    def _learn_struct(self, kind, raw, name, owner) -> None:
        self._keep(_owner(kind), raw)
        for field, value in _fields(kind, raw):
            self.learn(field.type, value, field.name, _owner(kind))

    def _learn_one_of(self, kind, raw, name, owner) -> None:
        for one in kind.types:
            if _is_of(one, raw):
                self.learn(one, raw, name, owner)
                return

    def _learn_list(self, kind, raw, name, owner) -> None:
        for value in raw[:8]:
            self.learn(kind.item_type, value, name, owner)

    def _learn_tuple(self, kind, raw, name, owner) -> None:
        for one, value in zip(kind.item_types, raw, strict=False):
            self.learn(one, value, name, owner)

    def _learn_named(self, kind, raw, name, owner) -> None:
        self._learn_tuple(_as_tuple(kind), raw, name, owner)

    def _learn_dict(self, kind, raw, name, owner) -> None:
        for key, value in [*raw.items()][:8]:
            self.learn(kind.key_type, key, name, owner)
            self.learn(kind.value_type, value, name, owner)

    def _learn_bytes(self, kind, raw, name, owner) -> None:
        inner = self._inner(raw) if (owner, name) in self.inside else ABSENT
        if inner is ABSENT:
            self._keep(name, raw)
        else:
            self.learn(kind_of(self.inside[owner, name]), inner)

    @staticmethod
    def _inner(raw):
        """What the bytes of a field hold; of an absurd one maybe nothing."""
        try:
            return msgspec.msgpack.decode(raw)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return ABSENT

    def _learn_raw(self, kind, raw, name, owner) -> None:
        self.learn(kind_of(self.inside[owner, name]), raw)

    def _learn_leaf(self, kind, raw, name, owner) -> None:
        self._keep(name, raw)

    def _keep(self, name: str, value) -> None:
        kept = self.known.get(name)
        if kept is None:
            kept = self.known[name] = deque(maxlen=KNOWN)
        if value not in kept:
            kept.append(value)

    def _recall(self, name: str):
        kept = self.known.get(name)
        return self.rng.choice(kept) if kept else ABSENT

    # Drawing

    def draw(self, kind, name: str = "", like=ABSENT, owner: str = ""):
        """A value as it would travel, maybe much like another."""
        is_deep = isinstance(kind, _DEEP) or (owner, name) in self.inside
        if like is not ABSENT and not is_deep and self.rng.random() >= self.wild:
            return like
        return _DRAWN[type(kind)](self, kind, name, like, owner)

    def _struct(self, kind, name, like, owner):
        rng = self.rng
        if like is ABSENT and rng.random() < 0.5:
            like = self._recall(_owner(kind))
        given = dict(_named(kind, like)) if like is not ABSENT else {}
        is_free = like is ABSENT
        made = {}
        for field in kind.fields:
            old = given.get(field.name, ABSENT)
            may_lack = old is ABSENT and not field.required and not kind.array_like
            if may_lack and rng.random() >= (0.3 if is_free else self.wild / 4):
                continue
            made[field.encode_name] = self.draw(field.type, field.name, old, _owner(kind))
        if kind.array_like:
            values = [*made.values()]
            return values if kind.tag is None else [kind.tag, *values]
        if kind.tag is not None:
            made[kind.tag_field] = kind.tag
        return made

    def _one_of(self, kind, name, like, owner):
        if like is not ABSENT:
            for one in kind.types:
                if _is_of(one, like) and self.rng.random() >= self.wild / 2:
                    return self.draw(one, name, like, owner)
        return self.draw(self.rng.choice(kind.types), name, ABSENT, owner)

    def _number(self, kind, name, like, owner) -> int:
        rng = self.rng
        low = kind.ge if kind.ge is not None else None if kind.gt is None else kind.gt + 1
        high = kind.le if kind.le is not None else None if kind.lt is None else kind.lt - 1
        low, high = -(2**63) if low is None else int(low), 2**64 - 1 if high is None else int(high)
        at = rng.random()
        if at < 0.35 and (found := self._recall(name)) is not ABSENT and isinstance(found, int):
            value = found + rng.choice((0, 0, 0, 1, -1, 2, 1_000, 2**40))
        elif at < 0.5:
            value = rng.choice((low, low + 1, high, high - 1))
        elif at < 0.75:
            value = rng.randrange(10)
        else:
            value = rng.choice(_NUMBERS)
        return min(max(value, low), high)

    def _text(self, kind, name, like, owner) -> str:
        rng, known = self.rng, self.known
        at = rng.random()
        found = ABSENT
        if at < 0.6:
            found = self._recall(name)
        if found is ABSENT and at < 0.8:
            found = self._recall("node" if name in _OF_NODES else "job" if at < 0.7 else "lease")
        if found is ABSENT and at < 0.9 and known:
            found = self._recall(rng.choice([*known]))
        text = found if isinstance(found, str) else rng.choice(_WORDS)
        if kind.max_length is not None and (len(text) > kind.max_length or at > 0.99):
            text = text[: kind.max_length] if at <= 0.99 else "x" * min(kind.max_length, 65_536)
        if kind.min_length:
            text = text.ljust(kind.min_length, "a")
        if kind.pattern is not None and not re.search(kind.pattern, text):
            text = f"{rng.getrandbits(256):064x}"  # What our patterns are of: ids.
        return text

    def _bytes(self, kind, name, like, owner) -> bytes:
        rng = self.rng
        if (owner, name) in self.inside and rng.random() < 0.95:
            model = ABSENT if like is ABSENT else self._inner(like)
            body = msgspec.msgpack.encode(self.draw(kind_of(self.inside[owner, name]), "", model))
        elif rng.random() < 0.3 and isinstance(found := self._recall(name), bytes):
            body = found
        else:
            length = rng.choice((0, 0, 1, 16, 32, 33, 64, 1_000))
            body = rng.randbytes(max(length, kind.min_length or 0))
        return body if kind.max_length is None else body[: kind.max_length]

    def _raw(self, kind, name, like, owner):
        return self.draw(kind_of(self.inside[owner, name]), name, like)

    def _tuple(self, kind, name, like, owner) -> list:
        types = kind.item_types
        likes = like if _is_list(like) and len(like) == len(types) else [ABSENT] * len(types)
        return [self.draw(one, name, it, owner) for one, it in zip(types, likes, strict=True)]

    def _named_tuple(self, kind, name, like, owner) -> list:
        return self._tuple(_as_tuple(kind), name, like, owner)

    def _choice(self, kind, name, like, owner):
        return self.rng.choice(kind.values)

    def _bool(self, kind, name, like, owner) -> bool:
        return self.rng.random() < 0.5

    def _none(self, kind, name, like, owner) -> None:
        return None

    def _real(self, kind, name, like, owner) -> float:
        return self.rng.choice(_REALS)

    def _length(self, kind) -> int:
        rng = self.rng
        least, most = kind.min_length or 0, kind.max_length
        if rng.random() < LONG:
            return min(LONGEST if most is None else most, LONGEST)
        count = rng.choice((0, 0, 1, 1, 1, 2, 2, 3, 9))
        return max(least, count if most is None else min(count, most))

    def _list(self, kind, name, like, owner) -> list:
        rng = self.rng
        if _is_list(like) and rng.random() >= self.wild / 4:
            found = [self.draw(kind.item_type, name, one, owner) for one in like[:LONGEST]]
            at = rng.random()
            if found and at < self.wild / 4:
                found.append(rng.choice(found))
            elif found and at < self.wild / 2:
                found.pop(rng.randrange(len(found)))
            elif at < self.wild * 0.75:
                rng.shuffle(found)
            most = kind.max_length
            return found if most is None else found[:most]
        count = self._length(kind)
        few = [self.draw(kind.item_type, name, ABSENT, owner) for _ in range(min(count, 12))]
        return few + [rng.choice(few) for _ in range(count - len(few))]

    def _dict(self, kind, name, like, owner) -> dict:
        rng = self.rng
        if isinstance(like, dict) and rng.random() >= self.wild / 4:
            made = {}
            for key, value in like.items():
                new = self.draw(kind.key_type, name, key, owner) if rng.random() < 0.1 else key
                made[new] = self.draw(kind.value_type, name, value, owner)
            return made
        made = {}
        for _ in range(min(self._length(kind), 50)):
            key = self.draw(kind.key_type, name, ABSENT, owner)
            made[key] = self.draw(kind.value_type, name, ABSENT, owner)
        return made


_LISTS = (kinds.VarTupleType, kinds.ListType, kinds.SetType, kinds.FrozenSetType)
_LEARNT = {
    kinds.StructType: Drawer._learn_struct,
    kinds.UnionType: Drawer._learn_one_of,
    kinds.TupleType: Drawer._learn_tuple,
    kinds.NamedTupleType: Drawer._learn_named,
    kinds.DictType: Drawer._learn_dict,
    kinds.BytesType: Drawer._learn_bytes,
    kinds.RawType: Drawer._learn_raw,
    kinds.StrType: Drawer._learn_leaf,
    kinds.IntType: Drawer._learn_leaf,
} | dict.fromkeys(_LISTS, Drawer._learn_list)
_DRAWN = {
    kinds.StructType: Drawer._struct,
    kinds.UnionType: Drawer._one_of,
    kinds.TupleType: Drawer._tuple,
    kinds.NamedTupleType: Drawer._named_tuple,
    kinds.DictType: Drawer._dict,
    kinds.BytesType: Drawer._bytes,
    kinds.RawType: Drawer._raw,
    kinds.StrType: Drawer._text,
    kinds.IntType: Drawer._number,
    kinds.FloatType: Drawer._real,
    kinds.BoolType: Drawer._bool,
    kinds.NoneType: Drawer._none,
    kinds.LiteralType: Drawer._choice,
} | dict.fromkeys(_LISTS, Drawer._list)
_PLAIN = {
    kinds.IntType: int,
    kinds.StrType: str,
    kinds.BoolType: bool,
    kinds.BytesType: bytes,
    kinds.DictType: dict,
    kinds.FloatType: float,
    kinds.NoneType: type(None),
}


def _as_tuple(kind) -> kinds.TupleType:
    return kinds.TupleType(tuple(field.type for field in kind.fields))


def _is_list(value) -> bool:
    return isinstance(value, list | tuple)


def _fields(kind, raw):
    """Of a struct as it travels: its fields with their values."""
    if kind.array_like:
        return [*zip(kind.fields, raw if kind.tag is None else raw[1:], strict=False)]
    return [(one, raw[one.encode_name]) for one in kind.fields if one.encode_name in raw]


def _named(kind, raw):
    return [(field.name, value) for field, value in _fields(kind, raw)]


def _is_of(kind, raw) -> bool:
    """Whether a value may be of this one of several types."""
    if isinstance(kind, kinds.StructType) and not kind.array_like:
        return isinstance(raw, dict) and (kind.tag is None or raw.get(kind.tag_field) == kind.tag)
    if isinstance(kind, kinds.LiteralType):
        return raw in kind.values
    if (plain := _PLAIN.get(type(kind))) is not None:
        return type(raw) is plain
    return _is_list(raw)


_KINDS: dict = {}


def kind_of(what):
    """A type as it can be walked."""
    if what not in _KINDS:
        _KINDS[what] = msgspec.inspect.type_info(what)
    return _KINDS[what]


def _owner(kind) -> str:
    """A struct's name among all: two rooms have a `Standing`."""
    return f"{kind.cls.__module__.rpartition('.')[2]}.{kind.cls.__name__}"
