"""Who belongs, as far as this node knows: certificates that were judged, and who is out.

Lives here: standing of every node, and which entries may enter because of it. Never here: the rules
of a certificate (`trust`), the entries themselves (`replica`).
Invariant: a node counts only on a chain that holds now; whoever was revoked never counts again.
"""

from collections.abc import Iterable

import msgspec

from distributed_grid.kernel.mesh.people import labels
from distributed_grid.kernel.mesh.replica_maps import is_sound
from distributed_grid.kernel.mesh.signing import Verify
from distributed_grid.kernel.mesh.trust import (
    Standing,
    ends_ms,
    is_stolen_from,
    judge,
    judge_revocation,
    to_resign,
)
from distributed_grid.model.ids import NodeId
from distributed_grid.model.membership import GRACE_MS, RENEW_MS, Chain, MeshId, Person, Revocation
from distributed_grid.wire.mesh import GENERATION_FINAL, JUNK, Entry, Hello, Refused

_chain = msgspec.msgpack.Decoder(Chain)
_revocation = msgspec.msgpack.Decoder(Revocation)


class Roster:
    """The members of one mesh."""

    def __init__(self, *, mesh: MeshId, verify: Verify) -> None:
        self.mesh = mesh
        self.chains: dict[NodeId, Chain] = {}
        self.standings: dict[NodeId, Standing] = {}
        self.lapsed: set[NodeId] = set()  # Expired, and nothing else is wrong with them.
        self.revoked: dict[NodeId, Revocation] = {}
        self.delegate_seen_ms = 0  # When a delegate was last heard, by the wall.
        self._verify = verify
        self._labels: dict[str, str] | None = None

    def judge(self, node: NodeId, chain: Chain, now_ms: int) -> Standing | Refused:
        """What a chain is worth here and now."""
        return judge(
            chain,
            mesh=self.mesh,
            node=node,
            now_ms=now_ms,
            verify=self._verify,
            revoked=self.revoked,
            delegate_seen_since_expiry=bool(chain) and self.delegate_seen_ms > ends_ms(chain),
        )

    def refusal(self, peer: NodeId, hello: Hello, now_ms: int) -> Refused | None:
        """Why somebody who greets like this does not belong; None: it does."""
        if hello.mesh != self.mesh:
            return Refused(reason="other-mesh" if hello.mesh else "stranger")
        standing = self.judge(peer, hello.chain, now_ms)
        if isinstance(standing, Refused):
            return standing
        return Refused(reason="expired") if standing.state == "renew-only" else None

    def is_member(self, node: NodeId) -> bool:
        """Whether it may be talked to and believed."""
        return node in self.standings

    def is_delegate(self, node: NodeId) -> bool:
        """Whether it may let others in."""
        standing = self.standings.get(node)
        return standing is not None and "admin" in standing.roles

    def is_kin(self, one: NodeId, other: NodeId) -> bool:
        """Whether two members are machines of one person, by their certificates."""
        both = self.standings.get(one), self.standings.get(other)
        return (
            both[0] is not None and both[1] is not None and both[0].person.id == both[1].person.id
        )

    def may_kick(self, one: NodeId, other: NodeId) -> bool:
        """Whether a member throws out another as one of its own person's."""
        both = self.standings.get(one), self.standings.get(other)
        return both[0] is not None and both[1] is not None and is_stolen_from(both[0], both[1])

    def people(self) -> dict[str, Person]:
        """Those to whom the members belong, by id."""
        owners = (standing.person for _, standing in sorted(self.standings.items()))
        return {person.id: person for person in owners}

    def label(self, node: NodeId) -> str:
        """How the owner of a member is called, told apart from others of that name."""
        if self._labels is None:
            self._labels = labels(self.people())
        return self._labels[self.standings[node].person.id]

    def see(self, nodes: Iterable[NodeId], now_ms: int) -> None:
        """These are here now: whether there is a delegate among them who could renew others."""
        ends = (self.standings[node].expires_ms for node in nodes if self.is_delegate(node))
        if any(end_ms > now_ms for end_ms in ends):
            self.delegate_seen_ms = now_ms

    def verify(self, entry: Entry) -> bool:
        """Whether an entry is what its node, or a delegate about it, has signed."""
        if entry.key != "revoked":
            if entry.generation >= GENERATION_FINAL:
                return False
            return self._verify(entry.node, entry.signed_bytes(self.mesh), entry.signature)
        found = revocation_of(entry)
        # Of one revocation there is one entry: else any member could mint new ones without end.
        return (
            found is not None
            and is_sound(entry)
            and entry.value == msgspec.msgpack.encode(found)
            and judge_revocation(found, mesh=self.mesh, verify=self._verify)
        )

    def admits(self, entry: Entry, now_ms: int) -> bool:
        """Whether a verified entry may enter: of a member, or the one that would make it one.

        Of who has lapsed, too, until all forget it: who came later would lack it otherwise, and
        compare in vain. It does not count for that.
        """
        if entry.key == "revoked":
            return True
        if entry.key == "chain" and entry.value:
            chain = chain_of(entry)
            is_good = isinstance(self.judge(entry.node, chain, now_ms), Standing)
            return is_good and not is_outlived(chain, now_ms)
        return self.is_member(entry.node) or entry.node in self.lapsed

    def take(self, node: NodeId, chain: Chain, now_ms: int) -> Standing | None:
        """Learn a chain; what it is worth, or None."""
        standing = self.judge(node, chain, now_ms)
        if isinstance(standing, Refused) or is_outlived(chain, now_ms):
            return None
        self.chains[node] = chain
        return self._stand(node, standing)

    def _stand(self, node: NodeId, standing: Standing | Refused) -> Standing | None:
        self._drop(node)
        if isinstance(standing, Refused):
            return None
        if standing.state == "renew-only":
            self.lapsed.add(node)
            return None
        self.standings[node] = standing
        self._labels = None
        return standing

    def revoke(self, revocation: Revocation) -> list[NodeId]:
        """Somebody is out; who else no longer counts, because it stood on that one's word."""
        gone = revocation.node
        self.revoked.setdefault(gone, revocation)
        self.standings.pop(gone, None)
        self.forget(gone)
        voided = to_resign(self.chains, gone, self.chains, self.revoked)
        for node in voided:
            self._drop(node)  # The chain stays: another delegate may sign again.
        return list(voided)

    def review(self, now_ms: int) -> list[NodeId]:
        """Look at every expiry again; who no longer counts."""
        before = set(self.standings)
        for node, chain in self.chains.items():
            if ends_ms(chain) > now_ms and node in self.standings:
                continue  # Signatures do not wear out.
            self._stand(node, self.judge(node, chain, now_ms))
        return sorted(before - set(self.standings))

    def outlived(self, now_ms: int) -> list[NodeId]:
        """Whose chains ended so long ago that nobody waits for them any more."""
        return [node for node, chain in self.chains.items() if is_outlived(chain, now_ms)]

    def forget(self, node: NodeId) -> None:
        """It has left, or lapsed, and that long ago."""
        self.chains.pop(node, None)
        self._drop(node)

    def _drop(self, node: NodeId) -> None:
        self.standings.pop(node, None)
        self.lapsed.discard(node)
        self._labels = None


def is_outlived(chain: Chain, now_ms: int) -> bool:
    """Whether it ended so long ago that everybody has forgotten it, whatever else they saw."""
    return now_ms >= ends_ms(chain) + RENEW_MS + GRACE_MS


def chain_of(entry: Entry) -> Chain:
    """The certificates in an entry; none, if it is junk."""
    try:
        return _chain.decode(entry.value)
    except JUNK:
        return ()


def revocation_of(entry: Entry) -> Revocation | None:
    """The revocation in an entry, if there is one about that node."""
    try:
        found = _revocation.decode(entry.value)
    except JUNK:
        return None
    return found if found.node == entry.node else None
