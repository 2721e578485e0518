"""All I/O: one folder per seam, its promise (a Protocol) in the folder's `__init__.py`.

Lives here: what touches files, drivers, sockets and processes. Never here: decisions (`kernel`).
Invariant: seams do not import each other.
"""
