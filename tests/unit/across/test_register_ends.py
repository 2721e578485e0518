"""No member can use up the numbers that those who vote on a job count with."""

import msgspec
import pytest

from distributed_grid.kernel.across.register import Register
from distributed_grid.kernel.across.register_voter import STORE, Store
from distributed_grid.model.across import Epoch
from distributed_grid.model.bounds import RISING_MAX
from distributed_grid.wire.register import (
    Accept,
    Member,
    NotAccepted,
    NotPromised,
    Prepare,
    Promised,
)
from tests.unit.across.register_lab import JOB, A, B, a_written, fence

SETS = ((Member(A, "store"),),)
LAST = Epoch(RISING_MAX, B)
NOW_US = 10**9
ENDS = {
    "a question": Prepare(job=JOB, epoch=LAST, ask=1, sets=SETS),
    "a write": Accept(job=JOB, ask=1, sets=SETS, written=a_written(fence(RISING_MAX, "b"), "a")),
    "its number": Accept(job=JOB, ask=1, sets=SETS, written=a_written(fence(1, "b", RISING_MAX))),
    "what was promised": NotPromised(job=JOB, epoch=Epoch(), ask=1, store="s", promised=LAST),
    "what was promised then": NotAccepted(
        job=JOB, ask=1, version=fence(1), store="s", promised=LAST
    ),
    "what is held": Promised(
        job=JOB, epoch=Epoch(), ask=1, store="s", written=a_written(fence(RISING_MAX, "b"))
    ),
}


@pytest.mark.parametrize("what", ENDS)
def test_a_word_that_leaves_no_number_after_it_is_not_heard(what):
    register = Register(A, lambda most: most - 1)
    register.start({STORE: msgspec.msgpack.encode(Store("store"))}, {}, NOW_US)

    effects = register.hear(B, ENDS[what], NOW_US)

    assert not effects.send
    assert not effects.save
    assert not register.voter.stores


def test_the_last_epoch_before_them_is_an_epoch_as_any_other():
    register = Register(A, lambda most: most - 1)
    register.start({STORE: msgspec.msgpack.encode(Store("store"))}, {}, NOW_US)
    asked = Prepare(job=JOB, epoch=Epoch(RISING_MAX - 1, B), ask=1, sets=SETS)

    ((_, answer),) = register.hear(B, asked, NOW_US).send

    assert isinstance(answer, Promised)
