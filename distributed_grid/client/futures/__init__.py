"""Futures on the mesh: an `Executor` as `concurrent.futures` has it.

Lives here: the face (`executor`), the thread behind it (`feeder`), what it holds (`submissions`),
and what its workers run (`applying`).
"""
