"""Two machines under one key alternate; a machine that starts again does not."""

from distributed_grid.kernel.mesh.clones import STARTS_KEPT, Clones

A = "a" * 64


def test_a_machine_that_starts_again_is_no_clone():
    clones = Clones()

    met = [clones.meet(A, "m1", nonce) for nonce in ("x", "x", "y", "y", "z")]

    assert met == [False] * 5


def test_a_start_that_comes_back_after_another_is_a_clone():
    clones = Clones()
    clones.meet(A, "m1", "x")
    clones.meet(A, "m2", "y")

    assert clones.meet(A, "m1", "x") is True


def test_what_is_kept_of_a_key_is_bounded():
    clones = Clones()
    for number in range(STARTS_KEPT + 2):
        clones.meet(A, "m1", str(number))

    assert clones.meet(A, "m1", "0") is False


def test_who_is_gone_is_forgotten():
    clones = Clones()
    clones.meet(A, "m1", "x")
    clones.meet(A, "m1", "y")
    clones.forget(A)
    clones.forget(A)

    assert clones.meet(A, "m1", "x") is False


def test_late_gossip_about_former_starts_of_one_machine_is_no_clone():
    clones = Clones()
    clones.meet(A, "m1", "x", 5)
    clones.meet(A, "m1", "z", 1)  # It has lost its disk, and counts from the beginning.

    assert clones.rumour(A, "m1", "y", 6) is False
    assert clones.meet(A, "m1", "z", 7) is False


def test_gossip_that_alternates_between_two_machines_is_a_clone():
    clones = Clones()

    told = [clones.rumour(A, *start) for start in (("m1", "x", 1), ("m2", "y", 2), ("m1", "x", 3))]

    assert told == [False, False, True]


def test_old_gossip_about_a_machine_that_was_left_is_no_clone():
    clones = Clones()
    clones.rumour(A, "m1", "x", 1)
    clones.rumour(A, "m2", "y", 2)

    assert clones.rumour(A, "m1", "x", 2) is False
