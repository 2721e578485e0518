"""The face of seed 003: borrowing and lending for Python programs.

Lives here: the names of the seed over the client of the agent. Never here: deciding anything.
"""
