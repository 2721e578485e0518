"""The benchmark of the first hour runs in short; its ratios hold with room for noise."""

import pytest

from tests.speed.test_cluster_agents import found_by


@pytest.mark.slow
def test_a_job_of_an_ordinary_project_elsewhere_costs_little_more_than_one_here():
    found = found_by("benchmarks.first_hour", "--files", "2000", "--rounds", "2")

    # Goals of the whole benchmark: 0.2 s, 1 s, 0.3 s and 3 ms; here only that none is far away.
    assert found["listing_s"] <= 10 * found["run_true_s"]
    assert found["first_elsewhere_s"] <= 30 * found["run_true_s"]
    assert found["second_elsewhere_s"] <= 10 * found["run_true_s"]
    assert found["changes_ms"] <= found["run_true_s"] * 1e3
