"""Whatever is measured, leased and decided: nothing of the owner's is lent, and no "no" is mute."""

from hypothesis import given
from hypothesis import strategies as st

from distributed_grid.kernel.lending_policies import POLICIES
from distributed_grid.kernel.offers import STILL_MILLI
from distributed_grid.model.bytesize import GIB
from distributed_grid.model.gpus import GpuRequest
from distributed_grid.model.lending import Offer
from distributed_grid.model.resources import Request, Resources
from tests.unit.lending_lab import Lab, a_gpu, a_machine

MILLI = st.sampled_from([0, 1, 199, 200, 299, 300, 499, 500, 800, 801, 1_000])
CPU = st.integers(0, 16).map(lambda cores: cores * 1_000)
MEMORY = st.integers(0, 64).map(lambda size: size * GIB)


@st.composite
def labs(draw) -> Lab:
    lab = Lab(
        a_machine(),
        policy=draw(st.sampled_from(sorted(POLICIES))),
        mode=draw(st.sampled_from(["share_and_offload", "dynamic_balancing"])),
        offers_max=draw(st.integers(1, 7)),
        reserved_cpu_milli=draw(CPU),
        reserved_memory_bytes=draw(MEMORY),
        reserved_gpus=draw(st.integers(0, 3)),
    )
    for _ in range(draw(st.integers(1, 3))):
        lab.sample(
            after_ms=draw(st.integers(0, 100_000)),
            cpu=draw(MILLI),
            memory=draw(MILLI),
            gpus=tuple(
                a_gpu(number, used=draw(MILLI), free=draw(st.integers(0, 24)))
                for number in draw(st.sets(st.integers(0, 1)))
            ),
        )
    for shared in (False, True):
        part = Resources(
            cpu_milli=draw(st.integers(0, lab.free.cpu_milli)),
            memory_bytes=draw(st.integers(0, lab.free.memory_bytes)),
            gpus=lab.free.gpus[: draw(st.integers(0, 1))],
        )
        lab.lease(part, shared=shared)
    return lab


@given(labs())
def test_offers_leave_the_owner_what_he_uses_and_what_he_reserved(lab):
    amounts, sample = lab.amounts(), lab.lending.use.latest
    leased_cpu = lab.total.cpu_milli - lab.free.cpu_milli
    leased_memory = lab.total.memory_bytes - lab.free.memory_bytes
    if "memory" in amounts:
        used = amounts["memory"] + sample.memory_used_bytes + leased_memory
        assert used + lab.terms.reserved_memory_bytes <= lab.total.memory_bytes
    if "cpu" in amounts:
        used = amounts["cpu"] + leased_cpu + lab.terms.reserved_cpu_milli
        if lab.terms.policy != "aggressive" and sample.cpu_used_milli >= STILL_MILLI:
            used += sample.cpu_used_milli
        assert used <= lab.total.cpu_milli
    first = {gpu.device for gpu in lab.total.gpus[: lab.terms.reserved_gpus]}
    assert not first & set(amounts)
    assert lab.free.covers(lab.survey().lent)


@given(labs())
def test_every_kind_is_offered_or_says_why_not(lab):
    survey = lab.survey()
    offered = {offer.device or offer.kind for offer in survey.offers}
    told = {item.device or item.kind for item in survey.withheld}
    every = {"cpu", "memory", "storage", "gpu0", "gpu1", "licence:matlab"}

    assert told == {"all"} or offered | told >= every
    assert not offered & told
    assert len(offered) <= lab.terms.offers_max
    assert all(item.limit and item.measured and item.threshold for item in survey.withheld)
    assert all(offer.amount > 0 for offer in survey.offers)


@given(labs(), st.integers(0, 17), st.integers(0, 2))
def test_a_request_is_admitted_if_and_only_if_the_offers_hold_it(lab, cores, gpus):
    request = Request(
        cpu_milli=cores * 1_000, gpus=GpuRequest(milli=gpus * 1_000) if gpus else None
    )
    found = lab.lending.admits(request, lab.free, lab.borrowed, lab.now_ms)
    survey = lab.survey()
    offers: tuple[Offer, ...] = survey.offers
    cpu = sum(offer.amount for offer in offers if offer.kind == "cpu")
    # Beside a GPU one core, whatever the load.
    beside = min(gpus * 1_000, lab.free.cpu_milli - lab.terms.reserved_cpu_milli)
    whole = {offer.device for offer in offers if offer.kind == "gpu" and offer.amount == 1_000}
    fits = cores * 1_000 <= max(cpu, beside) and gpus <= len(whole)

    assert (not found.reasons) == (fits and (gpus > 0 or survey.only_with_gpu is None))
    assert found.reasons or found.devices >= whole


@given(labs())
def test_taking_all_that_is_lent_leaves_no_more_of_it_to_lend(lab):
    lent = lab.survey().lent
    lab.lease(lent, shared=True)
    after = lab.survey().lent

    assert (after.cpu_milli, after.memory_bytes) == (0, 0) or lab.terms.offers_max <= 2
    assert not {gpu.device for gpu in lent.gpus} & {gpu.device for gpu in after.gpus}
