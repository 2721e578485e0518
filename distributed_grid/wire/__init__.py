"""Messages and their bytes: what crosses a process or a machine boundary.

Lives here: frozen, tagged structs, framing, sizes. Never here: sending them (`edges`), acting on
them (`kernel`).
Invariant: a new field has a default; a field is never renamed or reused.
"""
