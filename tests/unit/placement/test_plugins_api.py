"""What may people's own policies and filters do, and what happens when they break?"""

import pytest

from distributed_grid.errors import BrokenPlugin
from distributed_grid.kernel.placement import Rules, place
from distributed_grid.kernel.placement.columns import Columns
from distributed_grid.kernel.placement.plain import PlainSnapshot
from distributed_grid.kernel.placement.registry import own_policy
from tests.builders import a_job, a_node

BOTH = pytest.mark.parametrize("kind", [PlainSnapshot, Columns])
NODES = [a_node(1, name="attic"), a_node(2, name="lab"), a_node(3, name="cellar")]


def raises(job, node):
    raise KeyError(f"{job.name} on {node.name}")


@pytest.mark.rows("S4-22")
@BOTH
@pytest.mark.parametrize(
    ("answer", "parts"),
    [
        (lambda job, node: len(node.name), {"short": 3}),
        (lambda job, node: {"letters": len(node.name), "more": 0}, {"letters": 3, "more": 0}),
    ],
)
def test_a_policy_of_ones_own_gives_a_number_or_named_numbers(kind, answer, parts):
    rules = Rules(policy=own_policy("short", answer))

    decision = place(a_job(), kind(NODES), rules)

    assert [r.name for r in decision.ranked] == ["lab", "attic", "cellar"]
    assert decision.ranked[0].parts.items() >= parts.items()


@BOTH
@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (raises, "KeyError"),
        (lambda job, node: None, "not an int of 0 or more"),
        (lambda job, node: 0.5, "not an int of 0 or more"),
        (lambda job, node: True, "not an int of 0 or more"),
        (lambda job, node: -1, "not an int of 0 or more"),
        (lambda job, node: {"x": "1"}, "not an int of 0 or more"),
        (lambda job, node: {"x": True}, "not an int of 0 or more"),
        (lambda job, node: {1: 1}, "not an int of 0 or more"),
        (lambda job, node: 10**15, "a sum of more than"),
        (lambda job, node: {"a": 10**15 - 1, "b": 1}, "a sum of more than"),
        (lambda job, node: 10**30, "a sum of more than"),
        (lambda job, node: {"relayed": 1}, "the name of one of Grid's own"),
    ],
)
def test_a_policy_that_breaks_is_named_whatever_it_does(kind, answer, why):
    rules = Rules(policy=own_policy("strange", answer))

    with pytest.raises(BrokenPlugin, match=why) as caught:
        place(a_job(), kind(NODES), rules)

    assert (caught.value.kind, caught.value.name) == ("policy", "strange")
    assert "\n" not in str(caught.value)


@BOTH
def test_the_largest_score_of_ones_own_is_still_below_one_wish(kind):
    rules = Rules(policy=own_policy("heavy", lambda job, node: 10**15 - 1))

    decision = place(a_job(prefer={"nodes": ("lab",)}), kind(NODES), rules)

    assert decision.best.name == "lab"


@BOTH
def test_filters_of_ones_own_refuse_with_a_sentence_all_of_them_in_order_of_name(kind):
    filters = {
        "quiet": lambda job, node: "people sleep there" if node.name == "attic" else None,
        "dry": lambda job, node: "it is wet" if node.name in {"attic", "cellar"} else None,
    }

    decision = place(a_job(), kind(NODES), Rules(filters=filters))

    assert [r.name for r in decision.ranked] == ["lab"]
    assert [
        (r.name, [(why.what, why.wanted, why.has, why.kind) for why in r.reasons])
        for r in decision.refused
    ] == [
        (
            "attic",
            [
                ("filter.dry", None, "it is wet", "policy"),
                ("filter.quiet", None, "people sleep there", "policy"),
            ],
        ),
        ("cellar", [("filter.dry", None, "it is wet", "policy")]),
    ]


@BOTH
@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (raises, "KeyError"),
        (lambda job, node: False, "not None or a sentence"),
        (lambda job, node: 0, "not None or a sentence"),
    ],
)
def test_a_filter_that_breaks_stops_the_decision_and_is_named(kind, answer, why):
    with pytest.raises(BrokenPlugin, match=why) as caught:
        place(a_job(), kind(NODES), Rules(filters={"strange": answer}))

    assert (caught.value.kind, caught.value.name) == ("filter", "strange")


@BOTH
def test_a_filter_is_not_asked_about_nodes_that_cannot_take_the_job_anyway(kind):
    asked = []

    def watch(job, node):
        asked.append(node.name)

    nodes = [*NODES, a_node(4, name="tiny", cpus=0)]
    place(a_job(), kind(nodes), Rules(filters={"watch": watch}))

    assert sorted(asked) == ["attic", "cellar", "lab"]
