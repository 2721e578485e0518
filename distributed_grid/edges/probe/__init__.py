"""The seam through which Grid sees a machine.

Lives here: the promise. Never here: how it is kept (`machine` composes one file per noun).
Invariant: a probe never raises over what a machine is or lacks.
"""

from typing import Protocol

from distributed_grid.model.hardware import HardwareProfile


class Probe(Protocol):
    """Reads one machine.

    It answers for any machine and any state of its files: what cannot be read is None, and
    `absent` says why in one sentence. It does not raise for missing, unreadable or nonsensical
    facts, does not wait longer than its stated deadlines, writes nothing, and needs no rights.
    Two calls may differ only in what changes (load, temperature, free memory).
    """

    def __call__(self) -> HardwareProfile:
        """The machine as it is now."""
        ...
