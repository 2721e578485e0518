"""Waiting a moment in a thread.

Lives here: one way to do it for all who wait. Never here: how long (its callers).

Not `time.sleep`: under libfaketime that leaves the monotonic clock alone it fails with EINVAL.
"""

import select


def rest(seconds: float) -> None:
    """Do nothing for so long; a signal is handled meanwhile."""
    select.select((), (), (), seconds)
