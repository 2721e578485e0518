"""Who is one of us, on whose word, and for how long.

Lives here: judging certificates and revocations, and signing new ones. Never here: keys
(`edges.keys`), tickets (`tickets`), who was judged so far (`roster`).
Invariant: a certificate is worth as much as the weakest above it; nothing but the signatures, the
revocations and the clock that are passed in has a say.
"""

import hashlib
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Final, Literal

import msgspec

from distributed_grid.kernel.mesh.signing import Signer, Verify
from distributed_grid.model.ids import NodeId
from distributed_grid.model.membership import (
    CERTIFICATE_MS,
    CHAIN_MAX,
    RENEW_MS,
    ROLES,
    Certificate,
    Chain,
    MeshId,
    Person,
    Revocation,
    Role,
    is_node_name,
)
from distributed_grid.wire.mesh import Refused

Action = Literal["issue", "revoke", "submit", "lend"]
State = Literal["good", "renew-only", "overdue"]

PERMITTED: Final[Mapping[Role, frozenset[Action]]] = {
    "admin": frozenset({"issue", "revoke", "submit", "lend"}),
    "member": frozenset({"submit", "lend"}),
    "worker": frozenset({"lend"}),
    "guest": frozenset({"submit"}),
}
TIME_MS_MAX: Final = 2**62  # Beyond any date, and within what every message can carry.
_ID: Final = re.compile(r"[0-9a-f]{64}")


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """What a chain of certificates is worth now."""

    name: str
    roles: tuple[Role, ...]
    expires_ms: int  # The earliest end in the whole chain.
    state: State  # Overdue: expired, but no delegate was there to renew it.
    person: Person


def judge(
    chain: Chain,
    *,
    mesh: MeshId,
    node: NodeId,
    now_ms: int,
    verify: Verify,
    revoked: Collection[str],
    delegate_seen_since_expiry: bool = False,
) -> Standing | Refused:
    """What a node's chain is worth. The cheap questions first: strangers may ask often."""
    if not chain or chain[0].node != node:
        return Refused(reason="stranger", detail="no certificate of that node")
    if chain[0].mesh != mesh:
        return Refused(reason="other-mesh", detail="the certificate is of another mesh")
    refused = _shape(chain) or _links(chain, mesh)
    if refused is not None:
        return refused
    for certificate in chain:
        if certificate.node in revoked:
            whose = "it" if certificate is chain[0] else f"{certificate.name}, who let it in,"
            return Refused(reason="revoked", detail=f"{whose} was revoked")
    for certificate in chain:
        if not verify(certificate.issuer, certificate.signed_bytes(), certificate.signature):
            return Refused(reason="forged", detail="a certificate was not signed by its issuer")
    end_ms = ends_ms(chain)
    state: State = "good"
    if now_ms >= end_ms:
        is_unseen = not delegate_seen_since_expiry and now_ms < end_ms + RENEW_MS
        state = "overdue" if is_unseen else "renew-only"
    own = chain[0]
    return Standing(
        name=own.name, roles=own.roles, expires_ms=end_ms, state=state, person=own.owner
    )


def ends_ms(chain: Chain) -> int:
    """When a chain ends: with the first of its certificates."""
    return min(certificate.expires_ms for certificate in chain)


def _shape(chain: Chain) -> Refused | None:
    """Certificates come from strangers: nothing in them is what it should be until looked at."""
    if len(chain) > CHAIN_MAX:
        return Refused(reason="malformed", detail=f"more than {CHAIN_MAX} certificates")
    for certificate in chain:
        roles = certificate.roles
        if not (
            is_name(certificate.name)
            and _ID.fullmatch(certificate.node)
            and 0 <= certificate.expires_ms < TIME_MS_MAX
            and roles
            and roles == ordered(roles)
            and is_name(certificate.owner.name)
            and _ID.fullmatch(certificate.owner.id)
        ):
            return Refused(reason="malformed", detail="a certificate of an impossible form")
    return None


def _links(chain: Chain, mesh: MeshId) -> Refused | None:
    above = (*(certificate.node for certificate in chain[1:]), mesh)
    if any(
        certificate.mesh != mesh or certificate.issuer != issuer
        for certificate, issuer in zip(chain, above, strict=True)
    ):
        return Refused(reason="stranger", detail="its certificates do not lead to this mesh")
    if not all(roles_permit(certificate.roles, "issue") for certificate in chain[1:]):
        return Refused(reason="not-permitted", detail="it was let in by somebody who may not")
    return None


def roles_permit(roles: Sequence[Role], action: Action) -> bool:
    """Whether one of the roles is enough."""
    return any(action in PERMITTED[role] for role in roles)


def is_name(text: str) -> bool:
    """Whether a node can be called that: what people may not type, nobody certifies."""
    return is_node_name(text)


def ordered(roles: Sequence[Role]) -> tuple[Role, ...]:
    """Roles once each, the mightiest first: one spelling, one signature."""
    return tuple(role for role in ROLES if role in roles)


def joined(held: Sequence[Role], more: Sequence[Role]) -> tuple[Role, ...]:
    """All of both, without those that another one includes."""
    roles = ordered((*held, *more))
    return tuple(
        role for role in roles if not any(PERMITTED[role] < PERMITTED[other] for other in roles)
    )


def found(
    mesh_signer: Signer, node: NodeId, name: str, now_ms: int, person: Person | None = None
) -> Chain:
    """The first certificate of a mesh: its authority lets the founder in, as an admin."""
    assert is_name(name), "whoever founds was asked for a name that can be shown"
    return (
        _signed(
            mesh_signer, mesh=MeshId(mesh_signer.public), node=node, name=name, roles=("admin",),
            expires_ms=now_ms + CERTIFICATE_MS, person=person,
        ),
    )  # fmt: skip


def issue(
    signer: Signer,
    own: Chain,
    *,
    mesh: MeshId,
    node: NodeId,
    name: str,
    roles: Sequence[Role],
    now_ms: int,
    verify: Verify,
    revoked: Collection[str],
    person: Person | None = None,
) -> Chain | Refused:
    """Let a node in: by a delegate with its own chain, or by the authority with an empty one.

    A certificate that outlived the one above it would promise what `judge` does not keep; it ends
    with the first of them.
    """
    if node in revoked:
        return Refused(reason="revoked", detail="that node was revoked, for good")
    is_nobody = person is not None and not is_name(person.name)
    if not is_name(name) or not _ID.fullmatch(node) or not ordered(roles) or is_nobody:
        return Refused(reason="malformed", detail="a node needs an id, a printable name and a role")
    if signer.public == mesh:
        own, expires_ms = (), now_ms + CERTIFICATE_MS
    else:
        standing = judge(
            own, mesh=mesh, node=NodeId(signer.public), now_ms=now_ms, verify=verify,
            revoked=revoked,
        )  # fmt: skip
        if isinstance(standing, Refused):
            return standing
        if not roles_permit(standing.roles, "issue"):
            return Refused(reason="not-permitted", detail=f"{standing.name} is no admin")
        if standing.state != "good":
            return Refused(reason="expired", detail=f"the certificate of {standing.name} ended")
        if len(own) == CHAIN_MAX:
            detail = f"{standing.name} is too far from the authority to let others in"
            return Refused(reason="not-permitted", detail=detail)
        expires_ms = min(now_ms + CERTIFICATE_MS, standing.expires_ms)
    signed = _signed(
        signer, mesh=mesh, node=node, name=name, roles=ordered(roles), expires_ms=expires_ms,
        person=person,
    )  # fmt: skip
    return (signed, *own)


def renew(
    chain: Chain,
    *,
    node: NodeId,
    signer: Signer,
    own: Chain,
    mesh: MeshId,
    now_ms: int,
    verify: Verify,
    revoked: Collection[str],
    name: str = "",
) -> Chain | Refused:
    """A later end for a member that asks, from a month before on; or another name, at any time."""
    standing = judge(chain, mesh=mesh, node=node, now_ms=now_ms, verify=verify, revoked=revoked)
    if isinstance(standing, Refused):
        return standing
    is_renamed = bool(name) and name != standing.name
    if not is_renamed and now_ms < standing.expires_ms - RENEW_MS:
        return Refused(reason="not-permitted", detail="it is too early to renew")
    renewed = issue(
        signer, own, mesh=mesh, node=node, name=name or standing.name, roles=standing.roles,
        now_ms=now_ms, verify=verify, revoked=revoked, person=chain[0].person,
    )  # fmt: skip
    if isinstance(renewed, Refused) or is_renamed or ends_ms(renewed) > standing.expires_ms:
        return renewed
    return Refused(reason="busy", detail="this delegate has to renew its own certificate first")


def revoke(
    signer: Signer, own: Chain, *, mesh: MeshId, node: NodeId, now_ms: int, about: Chain = ()
) -> Revocation:
    """Throw a node out, for good. Whoever may not is not believed by anybody."""
    revocation = Revocation(
        mesh=mesh, node=node, at_ms=now_ms, issuer=signer.public,
        chain=() if signer.public == mesh else own, about=about,
    )  # fmt: skip
    return msgspec.structs.replace(revocation, signature=signer.sign(revocation.signed_bytes()))


def judge_revocation(revocation: Revocation, *, mesh: MeshId, verify: Verify) -> bool:
    """Whether a revocation holds: signed by the authority, or by whom it made an admin.

    Or by another machine of the same person, if the one to go is no admin's. It holds when its
    issuer's certificate has ended, and when the issuer was revoked itself: else two nodes that hear
    of both in different orders would disagree for ever about who is out.
    """
    node, issuer = str(revocation.node), revocation.issuer
    if (
        revocation.mesh != mesh
        or node == mesh
        or not _ID.fullmatch(node)
        or not 0 <= revocation.at_ms < TIME_MS_MAX
    ):
        return False
    is_proven = not revocation.about  # It is not signed: anybody could mint variants of one.
    if issuer != mesh:
        standing = judge(
            revocation.chain, mesh=mesh, node=NodeId(issuer), now_ms=0, verify=verify, revoked=()
        )
        if isinstance(standing, Refused):
            return False
        if not roles_permit(standing.roles, "revoke"):
            is_proven = _is_kin(standing, revocation, verify)
    if not is_proven:
        return False
    return verify(issuer, revocation.signed_bytes(), revocation.signature)


def _is_kin(issuer: Standing, revocation: Revocation, verify: Verify) -> bool:
    """Whether both machines are one person's, by their certificates; an admin's is above that."""
    gone = judge(
        revocation.about, mesh=revocation.mesh, node=revocation.node, now_ms=0, verify=verify,
        revoked=(),
    )  # fmt: skip
    return isinstance(gone, Standing) and is_stolen_from(issuer, gone)


def is_stolen_from(issuer: Standing, node: Standing) -> bool:
    """Whether a machine can be thrown out by another of its person's; an admin's only by admins."""
    return issuer.person.id == node.person.id and not roles_permit(node.roles, "revoke")


def to_resign(
    members: Mapping[NodeId, Chain],
    revoked_delegate: NodeId,
    recorded_before: Collection[NodeId],
    revoked: Collection[str] = (),
) -> tuple[NodeId, ...]:
    """Whom another delegate signs again: let in on a revoked one's word, and known here before.

    Whoever was not known here before the revocation may have been let in by a thief.
    """
    return tuple(
        node
        for node in sorted(members)
        if any(certificate.issuer == revoked_delegate for certificate in members[node])
        and node in recorded_before
        and node not in revoked
        and node != revoked_delegate
    )


def sane_wall_ms(own_ms: int, build_ms: int, neighbours_ms: Sequence[int]) -> int:
    """The time to go by: one's own, unless it is before this programme was built."""
    if own_ms >= build_ms:
        return own_ms
    sane = sorted(time_ms for time_ms in neighbours_ms if time_ms >= build_ms)
    return sane[len(sane) // 2] if sane else build_ms


def machine_in_mesh(machine: str, mesh: MeshId) -> str:
    """A machine's fingerprint as one mesh sees it: tells two machines apart, and nothing else."""
    text = f"grid machine in mesh 1\0{mesh}\0{machine}"
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _signed(
    signer: Signer,
    *,
    mesh: MeshId,
    node: NodeId,
    name: str,
    roles: tuple[Role, ...],
    expires_ms: int,
    person: Person | None,
) -> Certificate:
    certificate = Certificate(
        mesh=mesh, node=node, name=name, roles=roles, issuer=signer.public,
        expires_ms=expires_ms, person=person,
    )  # fmt: skip
    return msgspec.structs.replace(certificate, signature=signer.sign(certificate.signed_bytes()))
