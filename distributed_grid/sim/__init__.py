"""Worlds made from a seed, for tests, demos and people who try their own policies.

Lives here: everything that is random on purpose. Never here: I/O, clocks, a generator without a
seed.
Invariant: one seed, one story.
"""
