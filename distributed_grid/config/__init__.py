"""What people write down for Grid: documents, fleets, jobs, settings.

Lives here: reading files that may be wrong, and saying so well. Never here: decisions on what
they say (`kernel`).
Invariant: a malformed file gives one `BadInput` with the path inside the file; never a
traceback, a hang, or memory without bound.
"""
