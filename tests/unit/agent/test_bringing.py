"""Outputs that will never come home: the end counts all the same, and its story says so."""

from functools import partial

import pytest

from distributed_grid.agent.bringing import OUTPUT_TRIES
from distributed_grid.agent.shipping_in import NotFetched
from distributed_grid.wire.across import Report
from tests.unit.agent.luggage_lab import Lab, in_a_lab
from tests.unit.agent.test_luggage import ended, report_of
from tests.unit.artifacts.lab import plant

NEVER = [False] * (2 * OUTPUT_TRIES)


@pytest.fixture
def lab(tmp_path):
    return partial(in_a_lab, lambda: Lab(tmp_path))


@pytest.fixture
def tree(tmp_path):
    return plant(tmp_path / "tree", {"a": "1"})


@pytest.fixture
def left_behind(tmp_path):
    return plant(tmp_path / "left", {"out.txt": "theirs\n"})


def told(lab, spec):
    return [detail for what, detail in lab.story(spec) if what == "outputs"]


def gone_from(spec, lease="lease"):
    return Report(job=spec.id, lease=lease, first=0, ends=(ended("0" * 64),))


async def said_again(lab, report, peer, times=OUTPUT_TRIES):
    """Its owner says it each second until it is heard."""
    return [await lab.bringing.brought(peer, report) for _ in range(times)]


def test_outputs_that_a_living_owner_has_lost_are_told_and_the_end_is_heard(lab, tree):
    async def test(lab):
        lab.home.submit(spec := lab.a_spec(tree, outputs=("**",)))
        heard = await said_again(lab, gone_from(spec), lab.host.me)

        assert heard == [False] * (OUTPUT_TRIES - 1) + [True]
        (detail,) = told(lab, spec)
        assert detail.startswith("not brought back, they are lost: ")
        assert detail.endswith("does not send the files: unknown")
        assert not lab.bringing.wants(gone_from(spec))
        assert not lab.bringing._tried

    lab(test)


def test_so_are_those_that_this_node_itself_has_lost(lab, tree):
    """Its home died while it ran here: now this node is both."""

    async def test(lab):
        lab.home.submit(spec := lab.a_spec(tree, outputs=("**",)))

        assert (await said_again(lab, gone_from(spec), lab.home.me))[-1]

    lab(test)


def test_an_owner_that_does_not_answer_may_still_have_them(lab, tree, monkeypatch):
    monkeypatch.setattr("distributed_grid.agent.fetching.LOOK_S", 0.001)

    async def test(lab):
        lab.home.submit(spec := lab.a_spec(tree, outputs=("**",)))
        lab.link.down()
        lab.room.dead.add((lab.home.me, lab.host.me))
        lab.room.look()

        assert await said_again(lab, gone_from(spec), lab.host.me, len(NEVER)) == NEVER
        assert not told(lab, spec)

    lab(test)


@pytest.mark.parametrize("reason", ["busy", "withdrawn"])
def test_what_is_refused_for_now_is_asked_for_again(lab, tree, reason):
    async def test(lab):
        lab.home.submit(spec := lab.a_spec(tree, outputs=("**",)))

        async def later(peer, *_, **__):
            raise NotFetched(peer, reason=reason)

        lab.fetching[0].have_from = later

        assert await said_again(lab, gone_from(spec), lab.host.me, len(NEVER)) == NEVER

    lab(test)


def test_how_often_was_asked_is_remembered_of_so_many_only(lab, tree, monkeypatch):
    monkeypatch.setattr("distributed_grid.agent.bringing.REMEMBERED_MAX", 3)

    async def test(lab):
        lab.home.submit(spec := lab.a_spec(tree, outputs=("**",)))
        for number in range(9):
            assert not await lab.bringing.brought(lab.host.me, gone_from(spec, f"l{number}"))

        assert len(lab.bringing._tried) == 3

    lab(test)


@pytest.mark.parametrize("glob", [".", "..", "/etc/*"])
def test_a_glob_that_means_nothing_is_told_and_the_end_is_heard(lab, tree, left_behind, glob):
    async def test(lab):
        lab.home.submit(spec := lab.a_spec(tree, outputs=(glob,)))
        report = report_of(lab, spec, left_behind)

        assert await lab.bringing.brought(lab.host.me, report)
        (detail,) = told(lab, spec)
        assert detail.startswith("not brought back: expected a path or a glob")

    lab(test)
