"""What a home has concluded and those who vote may not know, in a record."""

import msgspec

from distributed_grid.kernel.across.record import conclusion_of, has_ended, joined, normal, state_of
from distributed_grid.kernel.across.record_bytes import decode, encode
from tests.unit.across.test_record import a_record, result


def test_what_a_home_has_concluded_is_no_end_and_goes_when_there_is_one():
    one = a_record(concluded=(result("evaporated"),))
    other = a_record(concluded=(result("succeeded"),))
    both = joined(one, other)

    assert not has_ended(both)
    assert decode(encode(both)) == both == joined(other, one)
    assert (conclusion_of(one).state, conclusion_of(both).state) == ("failed", "succeeded")
    ended = joined(both, a_record(results=(result("failed"),)))
    assert (state_of(ended), ended.concluded, conclusion_of(ended)) == ("failed", (), None)
    assert normal(msgspec.structs.replace(ended, concluded=both.concluded)) == ended
