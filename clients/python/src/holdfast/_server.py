"""Requests to a server, and what counts as its answer."""

from __future__ import annotations

import contextlib
import http.client
import ipaddress
import json
import logging
import os
import socket
import ssl
import threading
import time
import urllib.parse
from typing import Any, NamedTuple, Optional

from ._errors import Error, Unreachable

CONNECT = 5.0  # seconds
IDLE = 60.0  # seconds for which a connection is kept; the server ends it after 120
MOST = 16 << 20  # bytes of an answer
log = logging.getLogger("holdfast")

# The clock must count the time for which the machine is suspended. CLOCK_BOOTTIME of Linux does, and so does
# CLOCK_MONOTONIC of macOS, unlike time.monotonic there. On Windows time.monotonic does.
_CLOCK = getattr(time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC", None))


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


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=CONNECT)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


class Server:
    """A server, by its URL."""

    def __init__(self, url: str, token_file: Optional[str], ca: Optional[str]) -> None:
        u = urllib.parse.urlsplit(url)
        # Errors name the server without the path and the parameters: people put secrets there.
        self.name = f"unix:{u.path}" if u.scheme == "unix" else f"{u.scheme}://{u.netloc.rpartition('@')[2]}"
        given = dict(urllib.parse.parse_qsl(u.query, keep_blank_values=True))
        self._token_file = token_file or given.pop("token_file", None)
        self._token: Optional[str] = None
        self._ca = ca or given.pop("ca", None)
        self._cert, self._key = given.pop("cert", None), given.pop("key", None)
        self._host, self._port, self._tls = u.hostname or "", u.port, u.scheme == "https"
        self._socket: Optional[str]
        self._socket, self._path = (u.path, "") if u.scheme == "unix" else (None, u.path.rstrip("/"))
        self._idle: list[tuple[float, int, http.client.HTTPConnection]] = []
        self._store: Optional[str] = None
        self._quiet = 0.0  # until when no warning is logged
        if u.scheme not in ("https", "http", "unix"):
            raise ValueError(f"the URL ({u.scheme}:) is not of holdfast serve: write https://HOST, http://127.0.0.1:PORT or unix:///PATH")
        if (self._host == "") != (self._socket is not None) or self._socket in ("", "/"):
            raise ValueError(f"{u.scheme}: the URL is not of the form https://HOST, http://127.0.0.1:PORT or unix:///PATH")
        if u.username is not None or u.fragment or given:
            raise ValueError(f"{self.name}: the URL has a user, a fragment or parameters other than token_file, ca, cert and key")
        if u.scheme == "http" and not _loopback(self._host):
            raise ValueError(f"{self.name}: others on the network would read the token and could answer: write https://")
        if not self._tls and (self._ca or self._cert):
            raise ValueError(f"{self.name}: a CA and a certificate are for https")

    def ask(self, path: str, body: dict[str, Any], timeout: float, cancel: Optional[Cancel] = None) -> Answer:
        """Sends a request once. It raises Error if no repeat can help."""
        headers = {"Content-Type": "application/json", "Holdfast-Timeout-Ms": str(int(timeout * 1000))}
        token = self._read_token()
        if token:
            headers["Authorization"] = "Bearer " + token
        connection = self._connection()
        keep = False
        status = "no answer"
        try:
            if connection.sock is None:
                connection.timeout = min(timeout, CONNECT)
                connection.connect()
            connection.sock.settimeout(timeout)
            if cancel is not None:
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
                raise ValueError("the answer is cut off or too long")
            answer = self._understand(r, json.loads(text.decode()), body)
            keep = not r.will_close
        except ssl.SSLCertVerificationError as e:  # definite: no repeat makes the certificate better
            raise Unreachable(f"{self.name}: its certificate is not trusted: {e.verify_message} (ca= names a file with the authority)") from None
        except (OSError, http.client.HTTPException) as e:
            answer = Answer("unknown", {}, f"{status}: {str(e) or type(e).__name__}")
        except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError):
            answer = Answer("unknown", {}, f"{status}, not by holdfast serve")
        finally:
            if cancel is not None:
                cancel.connection = None
            if keep and len(self._idle) < 16:
                self._idle.append((now(), os.getpid(), connection))
            else:
                connection.close()
        if answer.kind == "unknown" and now() >= self._quiet and not (cancel and cancel.is_set()):
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
            if "holds" not in request:
                _integer(result["token"], 0)
            elif result["outcome"] not in _OUTCOMES + (("renewed", "lost") if "ttlMs" in request["holds"][0] else ("released",)):
                raise ValueError
            if "safeForMs" in result:
                _integer(result["safeForMs"], -1)
        elif media == "application/problem+json" and body["status"] == r.status and body["type"][:13] == "urn:holdfast:":
            kind, result = body["type"][13:], body
            if kind not in _KINDS or kind == "held" and (result["holdId"] != hold_id or not all(isinstance(h, dict) for h in result["holders"])):
                raise ValueError
            if kind == "busy" and "WWW-Authenticate" in r.headers:
                kind = "unauthenticated"
        else:
            raise ValueError
        if self._store not in (None, stores[0]):
            raise Error(
                f"{self.name}: it answers for another store than before, and two stores under one name grant a lock twice. "
                "If the locks have moved, restart this program"
            )
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
        if self._socket is not None:
            return _UnixConnection(self._socket)
        if not self._tls:
            return http.client.HTTPConnection(self._host, self._port, timeout=CONNECT)
        try:
            context = ssl.create_default_context(cafile=self._ca)
            if self._cert is not None:
                context.load_cert_chain(self._cert, self._key)
        except OSError as e:
            raise Error(f"{self.name}: the files of its CA or of the caller's certificate cannot be used: {e}") from None
        return http.client.HTTPSConnection(self._host, self._port, timeout=CONNECT, context=context)

    def _read_token(self) -> Optional[str]:
        if not self._token_file:
            token = os.environ.get("HOLDFAST_SERVER_TOKEN", "").strip()
        else:
            try:
                with open(self._token_file, encoding="utf-8") as file:
                    token = file.read(4097).strip()
            except (OSError, ValueError) as e:
                if self._token is None:
                    raise Error(f"{self.name}: the token file cannot be read: {e}") from None
                token = self._token  # the file is just being changed
        if not all("!" <= c <= "~" for c in token) or len(token) > 4096:
            raise Error(f"{self.name}: the token is not one line of printable characters without spaces: use the output of holdfast token")
        if token:
            self._token = token
        return token


def _integer(value: Any, least: int) -> None:
    if type(value) is not int or not least <= value < 1 << 53:
        raise ValueError


def _loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _quiet(sock: socket.socket) -> bool:
    """Reports whether nothing has come on a connection, not even its end."""
    try:
        sock.setblocking(False)
        socket.socket.recv(sock, 1, socket.MSG_PEEK)  # of the plain class: that of TLS has no flags
    except BlockingIOError:
        return True
    except OSError:
        pass
    return False
