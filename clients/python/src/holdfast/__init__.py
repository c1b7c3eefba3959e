"""Distributed locks on the database that a team already runs, through ``holdfast serve``.

    import holdfast

    with holdfast.lock("nightly") as hold:
        for customer in customers:
            hold.check()  # raises LockLost if another may hold the lock by now
            bill(customer, token=hold.token)
"""

from ._errors import Denied, Error, Held, LockLost, Unreachable
from ._lock import Hold, Lock, lock

__all__ = ["Denied", "Error", "Held", "Hold", "Lock", "LockLost", "Unreachable", "lock"]
