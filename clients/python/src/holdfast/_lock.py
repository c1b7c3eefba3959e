"""Locks and holds."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import math
import os
import random
import secrets
import socket
import threading
import time
from types import TracebackType
from typing import Any, Callable, Optional, TypeVar

from . import _server
from ._errors import Denied, Error, Held, LockLost, Unreachable
from ._server import AGAIN, Answer, Cancel, Server, log

T = TypeVar("T")
WAIT = 20.0  # seconds that one request waits at most: balancers end longer ones
PATIENCE = 5.0  # seconds for which a server that gives no answer is asked, even if wait is shorter
SLACK = 10.0  # seconds for an answer, beside the wait

_ERRORS = {"denied": Denied, "unauthenticated": Denied, "untrusted": Unreachable}
_servers: dict[tuple[str, Optional[str], Optional[str]], Server] = {}


def lock(
    resource: str,
    *,
    wait: Optional[float] = None,
    shared: bool = False,
    limit: int = 0,
    fair: bool = False,
    ttl: float = 30.0,
    owner: Optional[str] = None,
    comment: str = "",
    url: Optional[str] = None,
    token_file: Optional[str] = None,
    ca: Optional[str] = None,
) -> Lock:
    """Returns the lock of a resource for ``with``, ``async with`` or ``acquire()``. It asks nothing yet.

    wait: seconds to wait while others hold the lock; None waits as long as it takes, 0 not at all.
    shared: share it with other shared holds, of which there are at most limit (0: any number).
    fair: nobody who comes later is served before.
    ttl: seconds after which the lock is free if this program dies. It is renewed as long as it lives.
    owner, comment: what others see of the hold. The owner is by default the user.
    url: the URL of the server, by default in the environment variable HOLDFAST_STORE: https://HOST,
        http://127.0.0.1:PORT or unix:///PATH.
    token_file: a file with the caller's token, by default in the environment variable HOLDFAST_SERVER_TOKEN.
    ca: a file with the authority that has issued the server's certificate, in PEM.
    """
    if wait is not None and not wait >= 0 or not 0.001 <= ttl < math.inf or limit < 0:
        raise ValueError("wait and limit are 0 or more, ttl is 0.001 s or more")
    url = url or os.environ.get("HOLDFAST_STORE")
    if not url:
        raise ValueError("no server is named: give url=, or set HOLDFAST_STORE to its URL")
    server = _servers.get((url, token_file, ca)) or _servers.setdefault((url, token_file, ca), Server(url, token_file, ca))
    if owner is None:
        owner = os.environ.get("USER") or os.environ.get("USERNAME", "")
    return Lock(server, wait, {
        "resource": resource, "mode": "shared" if shared else "exclusive", "limit": limit, "ttlMs": int(ttl * 1000), "fair": fair,
        "owner": owner, "host": socket.gethostname(), "comment": comment,
    })  # fmt: skip


class Lock:
    """A lock that is not acquired yet. For each ``with`` that is inside another one, make one of its own."""

    def __init__(self, server: Server, wait: Optional[float], request: dict[str, Any]) -> None:
        self._server, self._wait, self._request = server, wait, request
        self._unused = threading.Lock()
        self._hold: Hold

    def acquire(self) -> Hold:
        """Waits for the lock. The hold is renewed until its release() or the end of the program."""
        return self._acquire(Cancel())

    def __enter__(self) -> Hold:
        return self._enter(Cancel())

    def __exit__(self, kind: Optional[type[BaseException]], e: Optional[BaseException], where: Optional[TracebackType]) -> None:
        self._leave(kind)

    async def __aenter__(self) -> Hold:
        cancel = Cancel()
        return await _in_thread(lambda: self._enter(cancel), cancel, lambda: self._leave(asyncio.CancelledError))

    async def __aexit__(self, kind: Optional[type[BaseException]], e: Optional[BaseException], where: Optional[TracebackType]) -> None:
        await _in_thread(lambda: self._leave(kind))

    def _enter(self, cancel: Cancel) -> Hold:
        if not self._unused.acquire(blocking=False):
            raise RuntimeError("this lock is in use: call holdfast.lock for another one")
        try:
            self._hold = self._acquire(cancel)
        except BaseException:
            self._unused.release()
            raise
        return self._hold

    def _leave(self, kind: Optional[type[BaseException]]) -> None:
        hold = self._hold
        self._unused.release()
        if kind is None:
            hold.release()
        else:  # an error of the work says more than a loss
            hold._abandon()

    def _acquire(self, cancel: Cancel) -> Hold:
        start = _server.now()
        deadline = math.inf if self._wait is None else start + self._wait
        hold = Hold(self._server, self._request)
        try:
            while True:
                sent = _server.now()
                wait = max(0.0, min(deadline - sent, WAIT))
                request = {**self._request, **hold._id, "waitMs": int(wait * 1000)}
                before, hold._asked = hold._asked, True
                a = self._server.ask("/v1/acquire", request, wait + SLACK, cancel)
                if cancel.is_set():
                    raise Unreachable("given up")
                if a.kind == "ok":
                    if hold._begin(a.body, sent):
                        return hold
                    hold._abandon()
                    hold = Hold(self._server, self._request)
                    a = Answer("unknown", {}, "the grant came too late")
                else:  # a wait leaves a place in the queue behind
                    hold._asked = before or a.kind == "unknown" or wait > 0 and a.kind in ("held", "draining")
                left = deadline - _server.now()
                if a.kind == "held" and left <= 0:
                    raise Held(a.detail, a.body["holders"])
                if a.kind in AGAIN and max(deadline, start + PATIENCE) <= _server.now():
                    raise Unreachable(f"{self._server.name}: no definite answer in time: {a.detail}")
                if a.kind != "held" and a.kind not in AGAIN:
                    raise _ERRORS.get(a.kind, Error)(f"{self._server.name}: {a.detail} ({a.kind})")
                cancel.wait(max(random.uniform(0.05, 0.3), min(a.pause, max(left, PATIENCE))))
        except BaseException:
            hold._abandon()
            raise


class Hold:
    """A hold of a lock, which a thread renews."""

    #: A number that rises with each grant of the resource. What is written to can refuse smaller ones.
    token: int

    def __init__(self, server: Server, request: dict[str, Any]) -> None:
        self.resource: str = request["resource"]
        self.token = 0
        self._server, self._ttl = server, request["ttlMs"]
        self._id = {"resource": self.resource, "holdId": secrets.token_hex(12)}
        self._end = 0.0
        self._lost = ""  # why, once it is lost
        self._why = "no renewal was answered"  # of the last one
        self._pid = os.getpid()
        self._asked = False  # the server may have the hold or a place in the queue
        self._done = threading.Event()

    def check(self) -> None:
        """Raises LockLost unless this program still holds the lock. Call it before each step that only the holder may do."""
        if os.getpid() != self._pid:
            raise LockLost(f'"{self.resource}" is not held: this process is a fork of the one that holds it')
        if not self._lost and _server.now() >= self._end:
            self._lost = f"it was not renewed in time: {self._why}"
        if self._lost:
            raise LockLost(f'"{self.resource}" is not held any more: {self._lost}')

    @property
    def lost(self) -> bool:
        """Reports whether check would raise LockLost."""
        try:
            self.check()
        except LockLost:
            return True
        return False

    def release(self) -> None:
        """Ends the hold. It raises LockLost if the hold had ended before. A second call does nothing."""
        if self._done.is_set():
            return
        try:
            self.check()
        finally:
            self._abandon()

    def _abandon(self) -> None:
        """Ends the hold, whether it is lost or not, and the place in the queue. It raises no error of this package."""
        if os.getpid() != self._pid:  # and another thread may have held the event's own lock in the fork
            return
        self._done.set()
        self._lost = self._lost or "it was released"
        if not self._asked:
            return
        self._asked = False
        item = {**self._id, "token": self.token, "placeId": self._id["holdId"]}
        until = _server.now() + PATIENCE
        while True:
            a = self._server.ask("/v1/release", {"holds": [item]}, PATIENCE / 2)
            if a.kind == "ok" and a.body["outcome"] == "released":
                return
            if a.kind not in AGAIN and a.body.get("outcome") != "unknown" or _server.now() >= until:
                log.warning('%s: "%s" was not released and ends by its TTL: %s', self._server.name, self.resource, a.detail or a.kind)
                return
            time.sleep(random.uniform(0.05, 0.3))

    def _begin(self, grant: dict[str, Any], sent: float) -> bool:
        """Takes the grant, and starts to renew it unless it is over."""
        self.token = grant["token"]
        self._extend(grant, sent)
        if _server.now() >= self._end:  # the answer came late, or the store cannot tell
            self._renew(SLACK)
        if self._lost or _server.now() >= self._end:
            return False
        threading.Thread(target=self._keep, name=f"holdfast {self.resource}", daemon=True).start()
        return True

    def _extend(self, result: dict[str, Any], sent: float) -> None:
        safe = result.get("safeForMs", 0)
        self._end = max(self._end, math.inf if safe == -1 else sent + safe / 1000)

    def _keep(self) -> None:
        while not self._done.wait(max(0.05, min((self._end - _server.now()) / 3, threading.TIMEOUT_MAX))):
            if self.lost:
                return
            self._renew(max(0.1, min((self._end - _server.now()) / 3, SLACK)))

    def _renew(self, timeout: float) -> None:
        sent = _server.now()
        a = self._server.ask("/v1/renew", {"holds": [{**self._id, "token": self.token, "ttlMs": self._ttl}]}, timeout)
        outcome = a.body["outcome"] if a.kind == "ok" else a.kind
        if outcome == "renewed":
            self._extend(a.body, sent)
        elif outcome == "lost":
            self._lost = self._lost or "it was released by force, or its TTL ended"
            self._asked = False
        else:
            self._why = f"{outcome}: {a.detail}"


async def _in_thread(function: Callable[[], T], cancel: Optional[Cancel] = None, undo: Callable[[], None] = lambda: None) -> T:
    """Runs the function in a thread of its own: those of the loop are few, and waits are long.

    A task that is cancelled first lets the thread clean up, for a bounded time, and undoes what it did all the same.
    """
    source: concurrent.futures.Future[T] = concurrent.futures.Future()

    def run() -> None:
        try:
            source.set_result(function())
        except BaseException as e:
            source.set_exception(e)

    threading.Thread(target=run, name="holdfast", daemon=True).start()
    future = asyncio.wrap_future(source)
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        if cancel is not None:
            cancel.set()
        until = _server.now() + 2 * PATIENCE
        while not future.done() and _server.now() < until:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait({future}, timeout=until - _server.now())
        if future.done() and future.exception() is None:
            await _in_thread(undo)
        raise
