"""Decisions, sans-io: told what happened, answers what to do.

Lives here: everything that Grid decides. Never here: sockets, files, clocks, dice; they are
arguments, or they live in `edges`.
Invariant: the same inputs give the same answer on every machine, in every process, in any order.
"""
