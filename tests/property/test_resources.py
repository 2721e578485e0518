"""Do amounts add up, exactly, whatever they are?"""

import msgspec
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from distributed_grid.errors import NotEnough
from distributed_grid.model import bytesize, duration, gpus, milli
from distributed_grid.model.resources import Resources, sorted_amounts
from tests import builders


@given(st.data())
def test_what_is_given_back_leaves_what_was_there(data):
    whole = data.draw(builders.resources())
    part = data.draw(builders.part_of(whole))

    assert whole.covers(part)
    assert (whole - part) + part == whole
    assert ((whole - part) + part) - part == whole - part


@given(builders.resources(), builders.resources())
def test_adding_then_subtracting_changes_nothing(left, right):
    taken = {gpu.device for gpu in left.gpus}
    right = msgspec.structs.replace(
        right, gpus=tuple(gpu for gpu in right.gpus if gpu.device not in taken)
    )
    assume(left.memory_bytes + right.memory_bytes <= bytesize.BYTES_MAX)
    assume(left.storage_bytes + right.storage_bytes <= bytesize.BYTES_MAX)

    assert (left + right) - right == left
    assert left + right == right + left


@pytest.mark.rows("S1-34", "S1-35")
@given(builders.resources(), builders.requests())
def test_nothing_is_short_exactly_if_it_fits_and_a_grant_fits(whole, request):
    short = whole.shortfall(request)

    assert whole.fits(request) == (not short)
    assert all(wanted > has for _, wanted, has in short)
    if short:
        with pytest.raises(NotEnough) as caught:
            whole.grant(request)
        assert (caught.value.what, caught.value.wanted, caught.value.has) == short[0]
    else:
        granted = whole.grant(request)
        assert whole.covers(granted)
        assert granted.fits(request)
        assert sum(g.share_milli for g in granted.gpus) == (
            request.gpus.milli if request.gpus else 0
        )
        assert (whole - granted) + granted == whole


@pytest.mark.rows("S1-37")
@given(builders.requests(), builders.records(), builders.jobs())
def test_requests_records_and_jobs_survive_the_wire(request, record, job):
    for value in (request, record, job):
        for codec in (msgspec.json, msgspec.msgpack):
            assert codec.decode(codec.encode(value), type=type(value)) == value


class Owner(RuleBasedStateMachine):
    """Grants and returns in any order; nothing is ever sold twice."""

    @initialize(total=builders.resources())
    def begin(self, total):
        self.total = self.free = total
        self.held = []

    @rule(request=builders.requests())
    def take(self, request):
        if self.free.fits(request):
            granted = self.free.grant(request)
            self.free -= granted
            self.held.append(granted)
        else:
            with pytest.raises(NotEnough):
                self.free.grant(request)

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def give_back(self, data):
        self.free += self.held.pop(data.draw(st.integers(0, len(self.held) - 1)))

    @invariant()
    def nothing_is_lost_and_nothing_is_sold_twice(self):
        back = self.free
        for granted in self.held:
            back += granted
        assert back == self.total
        for gpu in self.total.gpus:
            sold = [g.share_milli for h in self.held for g in h.gpus if g.device == gpu.device]
            assert sum(sold) <= milli.WHOLE


Owner.TestCase.settings = settings(max_examples=40, stateful_step_count=15)
TestOwner = Owner.TestCase


@given(st.integers(0, milli.MILLI_MAX))
def test_thousandths_read_back_as_they_were_written(amount):
    assert milli.parse(milli.number(amount)) == amount
    assert milli.parse(f"{amount // 1_000}.{amount % 1_000:03d}") == amount


@given(st.integers(0, bytesize.BYTES_MAX))
def test_bytes_as_text_are_never_more_than_they_are_nor_a_tenth_less(size):
    again = bytesize.parse(bytesize.text(size))

    assert again <= size <= again + again // 9


@given(st.integers(0, duration.DURATION_MS_MAX))
def test_a_span_of_time_has_a_short_text(span_ms):
    assert len(duration.text(span_ms)) <= 9


@given(st.text(max_size=40))
def test_a_canonical_model_is_its_own_canonical_model(name):
    model = gpus.canonical_model(name)

    assert gpus.canonical_model(model) == model
    assert gpus.same_model(name, model)


@given(st.dictionaries(st.sampled_from(builders.KINDS), st.integers(0, 9_000)))
def test_equal_amounts_in_any_order_are_equal(amounts):
    turned = dict(reversed(amounts.items()))

    assert Resources(custom=sorted_amounts(amounts)) == Resources(custom=sorted_amounts(turned))
