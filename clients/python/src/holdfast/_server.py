"""Requests to a server, and what counts as its answer."""

from __future__ import annotations

import contextlib
import http.client
import json
import logging
import os
import pathlib
import re
import socket
import ssl
import threading
import time
import urllib.parse
from typing import Any, NamedTuple, Optional

from ._errors import Error

CONNECT = 5.0  # seconds
IDLE = 60.0  # seconds for which a connection is kept; the server ends it after 120
MOST = 16 << 20  # bytes of an answer
log = logging.getLogger("holdfast")

# The clock must count the time for which the machine is suspended. CLOCK_BOOTTIME of Linux does, and so does
# CLOCK_MONOTONIC of macOS, unlike time.monotonic there. On Windows time.monotonic does.
_CLOCK = getattr(time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC", None))

_URL = re.compile(r"(?:(https?)://(\[[0-9A-Fa-f:.]+\]|[^][/@:?#,\s]+)(?::([0-9]{1,5}))?(/[^?#]*)?|unix://(/[^?#]+))(?:\?([^#]*))?")


def now() -> float:
    """Returns seconds of a clock that nobody sets and that counts suspension."""
    return time.monotonic() if _CLOCK is None else time.clock_gettime(_CLOCK)


class Answer(NamedTuple):
    """A definite answer of the server, or the kind "unknown" with the reason in detail."""

    kind: str  # "ok", or the type of the problem
    body: dict[str, Any]
    detail: str = ""
    pause: float = 0.0  # seconds for which the server wants no repeat


#: The kinds of problems that say nothing final about a request: it is repeated.
AGAIN = ("unknown", "busy", "draining")
_KINDS = AGAIN + (
    "invalid", "unauthenticated", "denied", "not-found", "method", "held", "too-large", "media-type", "misdirected",
    "damaged", "unusable", "unsupported",
)  # fmt: skip
_OUTCOMES = ("unknown", "invalid", "denied", "damaged", "unusable", "unsupported")


class Cancel(threading.Event):
    """Ends a request from another thread."""

    connection: Optional[http.client.HTTPConnection] = None

    def set(self) -> None:
        super().set()
        sock = self.connection and self.connection.sock
        if sock:
            with contextlib.suppress(OSError):  # of the plain class: that of TLS would break the thread that reads
                socket.socket.shutdown(sock, socket.SHUT_RDWR)


class Server:
    """A server, by its URL."""

    def __init__(self, url: str, token_file: Optional[str], ca: Optional[str]) -> None:
        m = _URL.fullmatch(url)
        scheme, self._host, port, path, self._socket, query = m.groups("") if m else [""] * 6
        given = dict(urllib.parse.parse_qsl(query, keep_blank_values=True))
        self._token_file = token_file or given.pop("token_file", None)
        self._token = ""
        self._ca = ca or given.pop("ca", None)
        self._cert, self._key = given.pop("cert", None), given.pop("key", None)
        self._port, self._path, self._tls = int(port or 0) or None, path.rstrip("/"), scheme == "https"
        # Errors name the server without the path and the parameters: people put secrets there.
        self.name = f"unix:{self._socket}" if self._socket else f"{scheme}://{self._host}" + (port and f":{port}")
        self._idle: list[tuple[float, int, http.client.HTTPConnection]] = []
        self._store: Optional[str] = None
        self._quiet = 0.0  # until when no warning is logged
        if m is None or given or not self._tls and (self._ca or self._cert):
            raise ValueError("the URL is not https://HOST, http://127.0.0.1:PORT or unix:///PATH, with no more than token_file and, for https, ca, cert and key")
        if scheme == "http" and not re.fullmatch(r"localhost|127\.[0-9.]+|\[::1\]", self._host):
            raise ValueError(f"{self.name}: others on the network would read the token and could answer: write https://")

    def ask(self, path: str, body: dict[str, Any], timeout: float, cancel: Optional[Cancel] = None) -> Answer:
        """Sends a request once. If no repeat can help, the answer's kind is one of the server, "untrusted" or "broken"."""
        connection: Optional[http.client.HTTPConnection] = None
        cancel, status = cancel or Cancel(), "no answer"
        try:
            headers = {"Content-Type": "application/json", "Holdfast-Timeout-Ms": str(int(timeout * 1000)), **self._authorization()}
            connection = self._connection()
            if connection.sock is None:
                connection.timeout = min(timeout, CONNECT)
                if self._socket:
                    connection.sock = socket.socket(socket.AF_UNIX)
                    connection.sock.settimeout(connection.timeout)
                    connection.sock.connect(self._socket)
                else:
                    connection.connect()
            connection.sock.settimeout(timeout)  # type: ignore[union-attr]
            cancel.connection = connection
            if cancel.is_set():
                return Answer("unknown", {}, "given up")
            connection.request("POST", urllib.parse.quote(self._path, safe="/%") + path, json.dumps(body), headers)
            r = connection.getresponse()
            status = f"status {r.status}"
            text = b""
            while len(text) <= MOST and (part := r.read(1 << 16)):
                text += part
            if len(text) > MOST or r.length:
                raise ValueError("it is cut off or too long")
            answer = self._understand(r, json.loads(text.decode()), body)
            cancel.connection = None
            if not r.will_close and len(self._idle) < 16:
                self._idle.append((now(), os.getpid(), connection))
                connection = None
        except Error as e:
            answer = Answer("broken", {}, str(e))
        except ssl.SSLCertVerificationError as e:  # definite: no repeat makes the certificate better
            answer = Answer("untrusted", {}, f"its certificate is not trusted: {e.verify_message}; ca= names a file with the authority")
        except (OSError, http.client.HTTPException) as e:
            answer = Answer("unknown", {}, f"{status}: {str(e) or type(e).__name__}")
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            answer = Answer("unknown", {}, f"{status}, not by holdfast serve")
        finally:
            if connection is not None:
                connection.close()
        if answer.kind == "unknown" and now() >= self._quiet and not cancel.is_set():
            self._quiet = now() + 30
            log.warning("%s gives no definite answer, so it is asked again: %s", self.name, answer.detail)
        return answer

    def _understand(self, r: http.client.HTTPResponse, body: dict[str, Any], request: dict[str, Any]) -> Answer:
        """Returns the answer if the server wrote it, and for this request. Otherwise it raises an error of many types."""
        hold_id = request.get("holds", [request])[0]["holdId"]
        stores = r.headers.get_all("Holdfast-Store", [])
        if len(stores) != 1 or not stores[0] or r.headers.get("Content-Encoding", "identity") != "identity":
            raise ValueError
        media = r.headers.get_content_type()
        if r.status == 200 and media == "application/json":
            kind, result = "ok", body
            if "holds" in request:
                (result,) = body["results"]
            if result["holdId"] != hold_id:
                raise ValueError
            if "holds" in request and result["outcome"] not in _OUTCOMES + (("renewed", "lost") if "ttlMs" in request["holds"][0] else ("released",)):
                raise ValueError
            numbers = [result.get("safeForMs", 0)] + ([] if "holds" in request else [result["token"]])
            if not all(type(n) is int and -1 <= n < 1 << 53 for n in numbers):
                raise ValueError
        elif media == "application/problem+json" and body["status"] == r.status and body["type"][:13] == "urn:holdfast:":
            kind, result = body["type"][13:], body
            if kind not in _KINDS or kind == "held" and (result["holdId"] != hold_id or not all(isinstance(h, dict) for h in result["holders"])):
                raise ValueError
            if kind == "busy" and "WWW-Authenticate" in r.headers:
                kind = "unauthenticated"
        else:
            raise ValueError
        if self._store not in (None, stores[0]):
            raise Error("it answers for another store than before, which may grant a lock twice. If the locks have moved, restart this program")
        self._store = stores[0]
        pause = r.headers.get("Retry-After", "")
        return Answer(kind, result, str(result.get("detail", "")), min(float(pause), 30.0) if pause.isdecimal() else 0.0)

    def _connection(self) -> http.client.HTTPConnection:
        """Returns an idle connection that still lives, or a new one that is not open yet."""
        with contextlib.suppress(IndexError):
            while True:
                since, pid, connection = self._idle.pop()
                if pid != os.getpid():  # it is the parent's, and still in use there
                    continue
                if now() - since < IDLE and connection.sock is not None and _quiet(connection.sock):
                    return connection
                connection.close()
        if not self._tls:
            return http.client.HTTPConnection(self._host or "localhost", self._port)
        try:
            context = ssl.create_default_context(cafile=self._ca)
            if self._cert is not None:
                context.load_cert_chain(self._cert, self._key)
        except OSError as e:
            raise Error(f"the files of its CA or of the caller's certificate cannot be used: {e}") from None
        return http.client.HTTPSConnection(self._host, self._port, context=context)

    def _authorization(self) -> dict[str, str]:
        token = os.environ.get("HOLDFAST_SERVER_TOKEN", "")
        if self._token_file:
            try:
                token = pathlib.Path(self._token_file).read_text(encoding="utf-8")
            except (OSError, ValueError) as e:
                if not self._token:
                    raise Error(f"the token file cannot be read: {e}") from None
                token = self._token  # the file is just being changed
        self._token = token.strip()
        if not re.fullmatch("[!-~]{0,4096}", self._token):
            raise Error("the token is not one line of printable characters without spaces: use the output of holdfast token")
        return {"Authorization": "Bearer " + self._token} if self._token else {}


def _quiet(sock: socket.socket) -> bool:
    """Reports whether nothing has come on a connection, not even its end."""
    try:
        sock.setblocking(False)
        socket.socket.recv(sock, 1, socket.MSG_PEEK)  # of the plain class: that of TLS has no flags
    except OSError as e:
        return isinstance(e, BlockingIOError)
    return False
