"""Certificates that end: asking for a later end in time, and giving one.

Lives here: this node's own renewal, and those it grants as a delegate. Never here: the rules
(`trust`).
Invariant: a certificate that was replaced does not come back, whoever plays it to us.
"""

from typing import TYPE_CHECKING, Final

from distributed_grid.kernel.mesh.events import MeshReady, Now
from distributed_grid.kernel.mesh.trust import ends_ms, found, renew
from distributed_grid.model.ids import NodeId
from distributed_grid.model.membership import RENEW_MS, Chain, Contact
from distributed_grid.wire.mesh import Refused, Renew, Renewed

if TYPE_CHECKING:
    from distributed_grid.kernel.mesh.machine import Mesh
    from distributed_grid.kernel.mesh.membership import Membership

ASKED_MAX: Final = 3  # Admins without a link that are asked at once when somebody waits.
ASK_AGAIN_US: Final = 60_000_000  # A delegate that did not renew is asked again, or another one.


class Renewing:
    """Of one node."""

    def __init__(self, mesh: "Mesh", own: "Membership") -> None:
        self._mesh = mesh
        self._own = own
        self._asked_us: int | None = None
        self._asks = 0

    def keep_valid(self, now: Now, ready: MeshReady) -> None:
        """Ask for a later expiry in time; and for any, if what we have no longer holds.

        Who holds the authority's key stands on nobody's word: when the founder is gone for good,
        its certificate ends, and with it all that hang on it.
        """
        mesh = self._mesh
        assert mesh.roster is not None, "a member"
        holds = mesh.roster.is_member(mesh.me)
        is_early = ends_ms(self._own.chain) - mesh.wall_ms(now) > RENEW_MS
        doubters = self._doubters()
        is_hanging = self._own.authority is not None and self._own.chain[0].issuer != mesh.id
        if self._own.was_revoked or (holds and is_early and not doubters and not is_hanging):
            return
        if self._own.authority is not None:
            own = self._own.chain[0]
            chain = found(self._own.authority, mesh.me, own.name, mesh.wall_ms(now), own.person)
            self._own.change_chain(chain, now, ready)
            return
        if self._asked_us is not None and now.mono_us - self._asked_us < ASK_AGAIN_US:
            return
        candidates = doubters or self._who_renews()
        if not candidates:
            return
        self._asked_us = now.mono_us
        self._asks += 1  # The next time another one, if this one will not.
        contact = candidates[self._asks % len(candidates)]
        wanted = Renew(chain=self._own.chain)
        if contact.node in mesh.links:
            ready.messages.append((contact.node, wanted))
        else:
            ready.ask.append((contact, wanted))

    def ask(self, wanted: Renew, ready: MeshReady) -> bool:
        """Have somebody asked at once, because a person waits; False: nobody is known who could."""
        candidates = self._who_renews()
        for contact in candidates:
            if contact.node in self._mesh.links:
                ready.messages.append((contact.node, wanted))
                return True
        ready.ask += [(contact, wanted) for contact in candidates[:ASKED_MAX]]
        return bool(candidates)

    def _doubters(self) -> list[Contact]:
        """Delegates that refuse us as revoked: who let us in may be, and they may have signed anew.

        Whoever was away when that happened learns of it in no other way.
        """
        mesh = self._mesh
        assert mesh.roster is not None, "a member"
        if self._own.authority is not None:
            return []  # Nobody but the authority has let us in.
        refusing = [peer for peer, why in mesh.refused_by.items() if why.startswith("revoked")]
        found = (mesh.contact(peer) for peer in refusing if mesh.roster.is_delegate(peer))
        return [contact for contact in found if contact is not None]

    def _who_renews(self) -> list[Contact]:
        """Delegates that are linked; else whoever may be one: an expired member has no links."""
        mesh = self._mesh
        assert mesh.roster is not None, "a member"
        linked = [peer for peer in mesh.links if mesh.roster.is_delegate(peer)]
        if linked:
            return [Contact(node=peer) for peer in linked]
        issuers = [NodeId(certificate.issuer) for certificate in self._own.chain]
        admins = [node for node, chain in mesh.roster.chains.items() if "admin" in chain[0].roles]
        alive = [node for node in admins if self._is_alive(node)]
        others = dict.fromkeys((*alive, *issuers, *admins, *self._own.hints))
        found = (mesh.contact(node) for node in others if node != mesh.me)
        return [contact for contact in found if contact is not None]

    def _is_alive(self, node: NodeId) -> bool:
        liveness = self._mesh.liveness
        return liveness.has_member(node) and liveness.health(node).health == "alive"

    def renew(self, peer: NodeId, wanted: Renew, now: Now) -> Renewed | Refused:
        """A member asks for a later expiry, or another name."""
        mesh = self._mesh
        if mesh.roster is None or not mesh.roster.is_delegate(mesh.me):
            return Refused(reason="not-permitted", detail="this node is no admin")
        chain = renew(
            wanted.chain,
            node=peer,
            signer=mesh.signer,
            own=self._own.chain,
            mesh=mesh.roster.mesh,
            now_ms=mesh.wall_ms(now),
            verify=mesh.verify,
            revoked=mesh.roster.revoked,
            name=self._own.free_name(wanted.name, peer) if wanted.name else "",
        )
        if isinstance(chain, Refused):
            if chain.reason == "revoked" and mesh.roster.is_member(peer):
                return Renewed(chain=mesh.roster.chains[peer])  # Signed again; it was not there.
            return chain
        return Renewed(chain=chain)

    def take(self, chain: Chain, now: Now, ready: MeshReady, *, by: NodeId) -> None:
        """A delegate has signed anew, asked or not."""
        mesh = self._mesh
        assert mesh.roster is not None, "a member"
        standing = mesh.roster.judge(mesh.me, chain, mesh.wall_ms(now))
        if chain == self._own.chain or isinstance(standing, Refused) or standing.state != "good":
            return
        held = mesh.roster.standings.get(mesh.me)
        is_later = held is None or standing.expires_ms > held.expires_ms
        if not is_later and not mesh.roster.is_delegate(by):
            return  # An old one of ours, played back to us.
        self._own.change_chain(chain, now, ready)
        mesh.tell(ready, "mesh.certificate_renewed", mesh.me, now, expires_ms=standing.expires_ms)
