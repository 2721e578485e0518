"""A mesh of three generations for tests of trust: authority, founder, delegate, member.

Lives here: keys by name, and the calls of `trust` with what never matters filled in.
Never here: expectations.
Invariant: real ed25519 keys, always the same ones.
"""

import hashlib
from typing import Any

import msgspec

from distributed_grid.edges.keys import Key, verify
from distributed_grid.kernel.mesh import trust
from distributed_grid.kernel.mesh.trust import Standing
from distributed_grid.model.ids import NodeId
from distributed_grid.model.membership import Certificate, Chain, MeshId
from distributed_grid.wire.mesh import Refused

NOW_MS = 1_800_000_000_000


def a_key(name: str) -> Key:
    """The key of somebody."""
    return Key(hashlib.sha256(name.encode()).digest())


AUTHORITY, FOUNDER, DELEGATE, MEMBER = map(a_key, ("authority", "founder", "delegate", "member"))
MESH = MeshId(AUTHORITY.public)
FOUNDED = trust.found(AUTHORITY, NodeId(FOUNDER.public), "founder", NOW_MS)


def node(key: Key) -> NodeId:
    return NodeId(key.public)


def issued(signer: Key, own: Chain, to: Key, **what_matters: Any) -> Chain | Refused:
    """A certificate for a member, unless told otherwise."""
    arguments = {
        "mesh": MESH, "node": node(to), "name": "member", "roles": ("member",),
        "now_ms": NOW_MS, "verify": verify, "revoked": (),
    }  # fmt: skip
    return trust.issue(signer, own, **(arguments | what_matters))


def a_chain(signer: Key, own: Chain, to: Key, **what_matters: Any) -> Chain:
    """The same, where it must succeed."""
    chain = issued(signer, own, to, **what_matters)
    assert not isinstance(chain, Refused), chain
    return chain


DELEGATED = a_chain(FOUNDER, FOUNDED, DELEGATE, name="delegate", roles=("admin",))
JOINED = a_chain(DELEGATE, DELEGATED, MEMBER)


def judged(chain: Chain, who: Key = MEMBER, **what_matters: Any) -> Standing | Refused:
    """What a chain is worth in this mesh, now."""
    arguments = {
        "mesh": MESH, "node": node(who), "now_ms": NOW_MS, "verify": verify, "revoked": (),
    }  # fmt: skip
    return trust.judge(chain, **(arguments | what_matters))


def renewed(chain: Chain, who: Key = MEMBER, **what_matters: Any) -> Chain | Refused:
    """A renewal by the delegate."""
    arguments = {
        "node": node(who), "signer": DELEGATE, "own": DELEGATED, "mesh": MESH,
        "now_ms": NOW_MS, "verify": verify, "revoked": (),
    }  # fmt: skip
    return trust.renew(chain, **(arguments | what_matters))


def signed(signer: Key, certificate: Certificate, **changes: Any) -> Certificate:
    """A certificate with changes, signed by whoever likes to."""
    changed = msgspec.structs.replace(certificate, **changes)
    return msgspec.structs.replace(changed, signature=signer.sign(changed.signed_bytes()))


def reason(answer: object) -> str:
    """Why it was refused; empty if it was not."""
    return answer.reason if isinstance(answer, Refused) else ""
