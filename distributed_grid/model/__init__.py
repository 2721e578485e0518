"""The nouns of Grid, frozen.

Lives here: what things are, in integers with their units in the name. Never here: decisions
(`kernel`), reading files or sockets (`config`, `edges`).
Invariant: a value that exists is valid; parsing and bounds are checked when it is made.
"""
