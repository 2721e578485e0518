import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from distributed_grid.kernel.inventory import Inventory
from distributed_grid.kernel.ledger import LeaseRefused, Ledger, Shortfall
from distributed_grid.model.gpus import Gpu, GpuRequest
from distributed_grid.model.ids import job_id_of
from distributed_grid.model.lease import Lease
from distributed_grid.model.resources import Request, sorted_amounts

JOB = job_id_of("any")
KINDS = ("fpga", "licence:matlab", "tpu")
SHARES = st.sampled_from([100, 250, 300, 500, 700, 999])
AMOUNTS = st.sampled_from([0, 1, 500, 1_000, 2_000])


@st.composite
def inventories(draw) -> Inventory:
    """Small machines, so that things run out."""
    numa = draw(st.lists(st.integers(0, 2), min_size=1, max_size=6))
    names = [f"gpu{number}" for number in range(draw(st.integers(0, 4)))]
    pairs = [(left, right) for left in names for right in names if left < right]
    cut_milli = draw(st.sampled_from([0, 0, 500]))
    return Inventory(
        cores=tuple(enumerate(numa)),
        cpu_milli=max(len(numa) * 1_000 - cut_milli, 0),
        memory_bytes=draw(st.integers(2, 8)),
        storage_bytes=draw(st.integers(2, 8)),
        gpus=tuple(
            Gpu(device=name, model=draw(st.sampled_from(["H100", "RTX4090"]))) for name in names
        ),
        links=tuple((*pair, draw(st.sampled_from([10, 400]))) for pair in pairs),
        custom=sorted_amounts({kind: draw(st.sampled_from([0, 2_000, 4_000])) for kind in KINDS}),
    )


gpu_requests = st.builds(
    GpuRequest,
    milli=st.one_of(SHARES, st.sampled_from([1_000, 2_000, 3_000])),
    model=st.sampled_from(["any", "any", "H100"]),
)
# Most ask for few things, so that many leases live side by side and their endings interleave.
requests = st.builds(
    Request,
    cpu_milli=st.one_of(st.just(0), SHARES, st.sampled_from([1_000, 1_500, 2_000, 2_250])),
    memory_bytes=st.sampled_from([0, 0, 0, 1, 3]),
    storage_bytes=st.sampled_from([0, 0, 0, 1, 3]),
    gpus=st.none() | st.none() | gpu_requests,
    custom=st.just(()) | st.dictionaries(st.sampled_from(KINDS), AMOUNTS).map(sorted_amounts),
)


def state_of(ledger: Ledger) -> object:
    """Everything that a grant could change, but for the memory of ended ids."""
    return (
        ledger.free(),
        dict(ledger.leases),
        dict(ledger._cores.used),
        dict(ledger._cores.shared),
        {node: list(cores) for node, cores in ledger._cores.whole.items()},
    )


class LedgerMachine(RuleBasedStateMachine):
    """Any order of grants, endings, time and restarts keeps the promise."""

    @initialize(inventory=inventories())
    def start(self, inventory: Inventory) -> None:
        self.ledger = Ledger(inventory)
        self.durable: dict[str, Lease] = {}  # What the store would hold.
        self.now_ms = 0
        self.numbers = 0

    @rule(request=requests, ttl_ms=st.sampled_from([0, 10, 5_000]), reuse=st.booleans())
    def reserve(self, request: Request, ttl_ms: int, reuse: bool) -> None:
        self.numbers += not reuse
        before = state_of(self.ledger)
        try:
            answer = self.ledger.reserve(
                f"lease{self.numbers}", JOB, "1", request, self.now_ms, ttl_ms=ttl_ms
            )
        except LeaseRefused:
            assert reuse
            assert state_of(self.ledger) == before
            return
        if isinstance(answer, Shortfall):
            assert answer.missing
            assert all(wanted > free for _, wanted, free in answer.missing)
            assert state_of(self.ledger) == before
        else:
            assert self.ledger.could_ever(request) is None
            assert answer.resources.cpu_milli == request.cpu_milli

    @rule(data=st.data())
    def commit(self, data: st.DataObject) -> None:
        lease_id = self._any_id(data)
        try:
            lease = self.ledger.commit(lease_id, self.now_ms)
        except LeaseRefused:
            assert lease_id not in self.durable
        else:
            self.durable[lease_id] = lease

    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        lease_id = self._any_id(data)
        was_there = lease_id in self.ledger.leases
        try:
            assert (self.ledger.release(lease_id) is not None) == was_there
        except LeaseRefused:
            assert not was_there
        self.durable.pop(lease_id, None)

    @rule(passed_ms=st.sampled_from([1, 10, 6_000]))
    def time_passes(self, passed_ms: int) -> None:
        self.now_ms += passed_ms
        expired = self.ledger.expire(self.now_ms)
        assert all(lease.state == "reserved" for lease in expired)
        assert all(
            lease.expires_ms is None or lease.expires_ms > self.now_ms
            for lease in self.ledger.leases.values()
        )

    @rule(data=st.data())
    def restart(self, data: st.DataObject) -> None:
        """Reservations are void; what was durable is back, in whatever order it is told."""
        self.ledger = Ledger(self.ledger.inventory)
        for lease_id in data.draw(st.permutations(sorted(self.durable))):
            assert self.ledger.restore(self.durable[lease_id]) is None
        assert self.ledger.leases == self.durable

    @rule(data=st.data(), smaller=inventories())
    def restart_on_another_machine(self, data: st.DataObject, smaller: Inventory) -> None:
        """What is no longer there is told; nothing is oversold, and no lease is forgotten."""
        self.ledger = Ledger(smaller)
        for lease_id in data.draw(st.permutations(sorted(self.durable))):
            self.ledger.restore(self.durable[lease_id])
        assert self.ledger.leases.keys() == self.durable.keys()
        self.durable = dict(self.ledger.leases)

    @invariant()
    def nothing_is_oversold(self) -> None:
        if hasattr(self, "ledger"):
            self.ledger.check()

    def _any_id(self, data: st.DataObject) -> str:
        return data.draw(st.sampled_from([f"lease{n}" for n in range(self.numbers + 2)]))


TestLedger = pytest.mark.rows("S0-48", "S4-23", "S4-25", "S4-113")(LedgerMachine.TestCase)


@pytest.mark.rows("S4-23")
@given(inventory=inventories(), before=st.lists(requests, max_size=4), request=requests)
def test_release_undoes_reserve_exactly(inventory, before, request):
    ledger = Ledger(inventory)
    for number, other in enumerate(before):
        ledger.reserve(f"before{number}", JOB, "1", other, now_ms=0)
    state = state_of(ledger)
    assume(isinstance(ledger.reserve("x", JOB, "1", request, now_ms=0), Lease))
    assert "x" in ledger.leases

    ledger.release("x")

    assert state_of(ledger) == state


@given(inventory=inventories(), request=requests)
def test_what_could_ever_fit_fits_when_everything_is_free(inventory, request):
    answer = Ledger(inventory).reserve("x", JOB, "1", request, now_ms=0)

    assert isinstance(answer, Lease) == (Ledger(inventory).could_ever(request) is None)


@given(inventory=inventories(), wanted=st.lists(requests, max_size=6))
def test_the_same_story_gives_the_same_grants(inventory, wanted):
    first, second = Ledger(inventory), Ledger(msgspec.structs.replace(inventory))
    for number, request in enumerate(wanted):
        one = first.reserve(str(number), JOB, "1", request, now_ms=0)

        assert one == second.reserve(str(number), JOB, "1", request, now_ms=0)
