"""Accounts of bytes under any order: exact sums, kept limits, and nobody starves another."""

from hypothesis import given, settings
from hypothesis import strategies as st

from distributed_grid.kernel.accounts import Allowance, ByteAccounts
from distributed_grid.model.ids import NodeId

LIMITS = Allowance(guest=50, member=200, own=400, total=500, assured=20)
SENDERS = {NodeId(name * 64): rank for name, rank in (("a", "own"), ("b", "member"),
                                                      ("c", "member"), ("d", "guest"),
                                                      ("e", "guest"))}  # fmt: skip
senders = st.sampled_from(sorted(SENDERS))
# Who puts what under which name, and how large; a size of 0 takes it away.
acts = st.lists(st.tuples(senders, st.integers(0, 9), st.integers(0, 120)), max_size=60)


class Kept:
    """What is kept, as whoever has an account keeps it."""

    def __init__(self) -> None:
        self.accounts = ByteAccounts(LIMITS)
        self.parts: dict[tuple[NodeId, int], int] = {}

    def act(self, sender: NodeId, name: int, size: int) -> bool:
        before = self.parts.pop((sender, name), 0)
        has_room = self.accounts.has_room(sender, SENDERS[sender], size - before)
        after = size if has_room else before
        self.accounts.add(sender, after - before)
        if after:
            self.parts[sender, name] = after
        return has_room

    def check(self) -> None:
        self.accounts.check((sender, size) for (sender, _), size in self.parts.items())


@given(acts)
def test_sums_are_exact_and_limits_kept_whatever_happens(story):
    kept = Kept()
    for act in story:
        kept.act(*act)
        kept.check()
        for sender, rank in SENDERS.items():
            assert kept.accounts[sender] <= kept.accounts.most(rank)
        assert kept.accounts.total <= LIMITS.total + LIMITS.assured * len(SENDERS)


@given(acts, acts)
@settings(max_examples=200)
def test_up_to_its_assured_part_nobody_is_answered_otherwise_for_what_others_do(mine, theirs):
    ann = min(SENDERS)
    alone, beside = Kept(), Kept()
    for act in theirs:
        if act[0] != ann:
            beside.act(*act)
    for _, name, size in mine:
        if alone.accounts[ann] + size <= LIMITS.assured:
            assert alone.act(ann, name, size) == beside.act(ann, name, size) is True


@given(acts, st.integers(1, 400))
def test_a_sender_at_its_limit_never_changes_what_another_is_answered(story, wanted):
    """Of one that has filled its account, more words change nothing for anybody."""
    eve, ann = max(SENDERS), min(SENDERS)
    kept = Kept()
    for act in story:
        kept.act(*act)
    while kept.act(eve, 100 + kept.accounts[eve], 1):
        pass
    before = kept.accounts.has_room(ann, "own", wanted)
    for name, size in ((200, 1), (201, 50), (202, 10_000)):
        assert not kept.act(eve, name, size)

    assert kept.accounts.has_room(ann, "own", wanted) == before
