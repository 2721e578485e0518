"""Jobs across machines: asking owners, hosting guests, keeping copies, taking over.

Lives here: the rules of docs/internals/protocols.md, sans-io. Never here: the life of a job on its
home (`kernel.coordinator`), who is alive (`kernel.mesh`).
"""
