"""The errors of the package."""

from __future__ import annotations

from typing import Any


class Error(Exception):
    """Something that repeating does not help: the request, the server or its store must be put right."""


class Denied(Error):
    """The server does not know the token, or the caller has no right to the lock."""


class Unreachable(Error):
    """No answer of the server came in time, or what answered cannot prove that it is the server."""


class Held(Error):
    """Others hold the lock, and the time to wait for it is over."""

    def __init__(self, message: str, holders: list[dict[str, Any]]) -> None:
        super().__init__(message)
        #: What the caller may see of each hold, such as "owner", "host", "comment", "ageMs" and "ttlMs".
        self.holders = holders


class LockLost(Error):
    """The hold has ended, so that another may hold the lock. What it protects must stop."""
