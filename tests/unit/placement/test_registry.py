"""Does a name mean one policy, and can people bring their own?"""

import pytest

from distributed_grid.errors import BrokenPlugin, UnknownName
from distributed_grid.kernel.placement.policies import POLICIES
from distributed_grid.kernel.placement.registry import own_policy, policy_named


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)
def test_every_policy_is_found_by_its_name_in_any_spelling(policy):
    kebab = "".join(f"-{c.lower()}" if c.isupper() else c for c in policy.name).strip("-")

    for name in (policy.name, policy.name.lower(), policy.name.upper(), kebab):
        assert policy_named(name) is policy
    assert policy_named(kebab.replace("-", "_")) is policy


@pytest.mark.rows("S4-20", "S4-21")
@pytest.mark.parametrize(
    ("alias", "name"),
    [
        ("binpack", "BestFit"),
        ("bin-packing", "BestFit"),
        ("pack", "BestFit"),
        ("spread", "Spread"),
    ],
)
def test_the_words_of_the_other_seeds_mean_the_same(alias, name):
    assert policy_named(alias).name == name


@pytest.mark.rows("S4-22")
def test_a_policy_of_ones_own_is_found_by_name():
    policy = policy_named("Quiet-Hours", {"quiet_hours": lambda job, node: 0})

    assert (policy.name, policy.on_columns) == ("quiet_hours", False)


def test_an_unknown_name_tells_all_that_are_known():
    with pytest.raises(UnknownName) as caught:
        policy_named("Cheapest", {"quiet": len})

    assert caught.value.known == (*(policy.name for policy in POLICIES), "quiet")


@pytest.mark.parametrize("name", ["BestFit", "best-fit", "BinPack", "spread"])
def test_names_of_ours_cannot_be_taken(name):
    with pytest.raises(BrokenPlugin, match="one of Grid's own"):
        policy_named(name, {name: len})
    with pytest.raises(BrokenPlugin):
        own_policy(name, len)


def test_a_policy_must_be_something_that_can_be_called():
    with pytest.raises(BrokenPlugin, match="cannot be called"):
        own_policy("quiet", 5)


def test_only_the_policy_that_was_asked_for_is_read():
    class Loads(dict):
        def __getitem__(self, name):
            raise AssertionError(f"{name} was loaded")

    assert policy_named("BestFit", Loads(broken=None)).name == "BestFit"
