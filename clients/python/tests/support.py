"""A server, a proxy and children for the tests."""

from __future__ import annotations

import atexit
import contextlib
import http.client
import http.server
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.parse

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = HERE.parent / "src"
PATIENCE = 60.0  # seconds that a test waits on a busy machine
TTL = 3.0
STORE = "0123456789abcdef01234567"  # stands for the store ID of the server in answers of a proxy

sys.path.insert(0, str(SOURCE))


def command() -> str:
    """Returns the path of the command holdfast: HOLDFAST_COMMAND, or built from this checkout."""
    if not os.environ.get("HOLDFAST_COMMAND"):
        folder = tempfile.mkdtemp(prefix="holdfast-python-")
        atexit.register(shutil.rmtree, folder)
        environment = {**os.environ, "GOWORK": "off"}
        subprocess.run(["go", "build", "-o", folder + "/", "."], cwd=HERE.parents[2] / "cmd" / "holdfast", env=environment, check=True)
        os.environ["HOLDFAST_COMMAND"] = folder + "/holdfast"
    return os.environ["HOLDFAST_COMMAND"]


def until(what, done):
    """Polls until done returns something true, and returns that."""
    deadline = time.monotonic() + PATIENCE
    while True:
        result = done()
        if result:
            return result
        if time.monotonic() > deadline:
            raise AssertionError(f"not {what} after {PATIENCE:.0f} s")
        time.sleep(0.01)


class Server:
    def __init__(self, folder, *flags, address="127.0.0.1:0", store="locks.db"):
        self.store = f"sqlite://{folder}/{store}"
        self.process = subprocess.Popen(
            [command(), "serve", "--listen", address, "--store", self.store, "--drain-delay", "0s", *flags],
            stderr=subprocess.PIPE, text=True, env={k: v for k, v in os.environ.items() if not k.startswith("HOLDFAST_")},
        )
        self.printed = ""
        for line in self.process.stderr:
            self.printed += line
            if line == "holdfast: ready\n":
                break
        found = re.search(r"listening on (https?://\S+),", self.printed)
        if found is None or self.process.poll() is not None:
            raise AssertionError("the server did not start:\n" + self.printed)
        self.url = found[1]
        self.address = urllib.parse.urlsplit(self.url).netloc
        self.drain = threading.Thread(target=self.process.stderr.read, daemon=True)
        self.drain.start()

    def end(self, sig=signal.SIGKILL):
        if self.process.returncode is not None:
            return
        self.process.send_signal(signal.SIGCONT)
        self.process.send_signal(sig)
        self.process.wait(PATIENCE)
        self.drain.join(PATIENCE)
        self.process.stderr.close()

    def get(self, path):
        connection = http.client.HTTPConnection(self.address, timeout=PATIENCE)
        with contextlib.closing(connection):
            connection.request("GET", path)
            return json.loads(connection.getresponse().read())

    def holds(self, resource):
        return self.get(f"/v1/holds?resource={resource}")["holds"]

    def waiters(self, resource):
        return self.get(f"/v1/waiters?resource={resource}")["waiters"]

    def force(self, resource):
        subprocess.run([command(), "unlock", "--force", "--yes", "--store", self.store, resource], check=True, capture_output=True)


class Proxy(http.server.ThreadingHTTPServer):
    """Stands before a server. A function in turns[path] answers instead; None passes the server's answer on."""

    daemon_threads = True

    def __init__(self, server):
        super().__init__(("127.0.0.1", 0), _Pass)
        self.server, self.turns, self.asked, self.connections = server, {}, [], 0
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()

    def handle_error(self, request, client_address):
        pass  # a caller that hangs up

    def count(self, path):
        return sum(1 for asked, _ in self.asked if asked == path)


class _Pass(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def setup(self):
        super().setup()
        self.server.connections += 1

    def log_message(self, *_):
        pass

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.asked.append((self.path, json.loads(body)))
        turns = self.server.turns.get(self.path, [])
        turn = turns.pop(0) if turns else None
        onward = http.client.HTTPConnection(self.server.server.address, timeout=PATIENCE)
        with contextlib.closing(onward):
            headers = {k: v for k, v in self.headers.items() if k.lower() != "host"}
            onward.request("POST", self.path, body, headers)
            r = onward.getresponse()
            text = r.read()
        self.store = r.headers["Holdfast-Store"]
        if turn is not None:
            turn(self, text)
        else:
            self.answer(r.status, r.headers["Content-Type"], text, r.headers["Holdfast-Store"])

    def answer(self, status, media, text, store=None, length=None, **headers):
        text = text.encode() if isinstance(text, str) else text
        self.send_response(status)
        self.send_header("Content-Type", media)
        self.send_header("Content-Length", str(len(text) if length is None else length))
        if store is not None:
            self.send_header("Holdfast-Store", self.store if store == STORE else store)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(text)


class Child:
    """A program in Python, with a server's URL in its environment. It writes lines, which the test reads."""

    def __init__(self, url, program, **options):
        self.process = subprocess.Popen(
            [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1,
            env={**os.environ, "HOLDFAST_STORE": url, "PYTHONPATH": str(SOURCE), "PYTHONUNBUFFERED": "1"}, **options,
        )

    def says(self):
        return self.process.stdout.readline().strip()

    def stop(self):
        self.process.send_signal(signal.SIGSTOP)
        os.waitpid(self.process.pid, os.WUNTRACED)

    def end(self):
        self.process.kill()
        self.process.wait()
        for file in self.process.stdin, self.process.stdout, self.process.stderr:
            if file is not None:
                with contextlib.suppress(BrokenPipeError):
                    file.close()


class Case(unittest.TestCase):
    """Each test has a server of its own."""

    flags = ()

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="holdfast-python-", ignore_cleanup_errors=True) if sys.version_info >= (3, 10) else tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.server = self.start()

    def start(self, *flags, **options):
        server = Server(self.folder, *(flags or self.flags), **options)
        self.addCleanup(server.end)
        return server

    def proxy(self):
        proxy = Proxy(self.server)
        self.addCleanup(proxy.server_close)
        self.addCleanup(proxy.shutdown)
        return proxy

    def child(self, program, url=None, **options):
        child = Child(url or self.server.url, program, **options)
        self.addCleanup(child.end)
        return child

    def free(self, resource="nightly"):
        self.assertEqual(self.server.holds(resource), [])
        self.assertEqual(self.server.waiters(resource), [])
