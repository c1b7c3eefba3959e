from __future__ import annotations

import contextlib
import json
import os
import pathlib
import signal
import shutil
import subprocess
import sys
import threading
import time
import unittest
from unittest import mock

from .support import PATIENCE, STORE, TTL, Case, command, until

import holdfast
from holdfast import _lock, _server


class Locks(Case):
    def lock(self, resource="nightly", **options):
        return holdfast.lock(resource, **{"url": self.server.url, "ttl": TTL, **options})

    def test_grant(self):
        with self.lock(owner="ada", comment="invoices") as hold:
            hold.check()
            self.assertFalse(hold.lost)
            (seen,) = self.server.holds("nightly")
            self.assertEqual((seen["owner"], seen["comment"], seen["mode"]), ("ada", "invoices", "exclusive"))
            first = hold.token
        self.free()
        self.assertRaises(holdfast.LockLost, hold.check)
        with self.lock() as hold:
            self.assertGreater(hold.token, first)

    def test_held(self):
        with self.lock(owner="ada"):
            with self.assertRaises(holdfast.Held) as caught:
                self.lock(wait=0).acquire()
            self.assertIn('"nightly" is held by ada on ', str(caught.exception))
            self.assertEqual(caught.exception.holders[0]["owner"], "ada")
            with self.assertRaises(holdfast.Held):
                self.lock(wait=0.2, fair=True).acquire()
            self.assertEqual(self.server.waiters("nightly"), [])
        self.free()

    def test_wait(self):
        got = []

        def second():
            with self.lock(wait=PATIENCE, fair=True) as hold:
                got.append(hold.token)

        thread = threading.Thread(target=second)
        with self.lock() as hold:
            thread.start()
            until("waiting", lambda: self.server.waiters("nightly"))
            self.assertEqual(got, [])
        thread.join(PATIENCE)
        self.assertGreater(got[0], hold.token)
        self.free()

    def test_waits_of_several_requests(self):
        with mock.patch.object(_lock, "WAIT", 0.1), self.lock():
            proxy = self.proxy()
            with self.assertRaises(holdfast.Held):
                self.lock(url=proxy.url, wait=1).acquire()
        self.assertGreater(proxy.count("/v1/acquire"), 2)
        self.assertEqual(len({body["holdId"] for path, body in proxy.asked if path == "/v1/acquire"}), 1)
        self.free()

    def test_shared(self):
        options = {"shared": True, "limit": 2, "wait": 0}
        with self.lock(**options), self.lock(**options), self.assertRaises(holdfast.Held):
            self.lock(**options).acquire()
        self.free()

    def test_renewal(self):
        with self.lock(ttl=1) as hold:
            first = hold._end
            until("renewed three times", lambda: hold._end > first + 1)
            hold.check()

    def test_error_of_the_work(self):
        with self.assertRaises(KeyError), self.lock():
            raise KeyError
        self.free()
        with self.assertRaises(KeyError), self.lock() as hold:
            hold._end = 0.0
            raise KeyError

    def test_release_by_hand(self):
        with self.lock() as hold:
            hold.release()
            self.free()
            hold.release()

    def test_one_use_at_a_time(self):
        lock = self.lock()
        with lock, self.assertRaises(RuntimeError), lock:
            pass
        with lock:
            pass
        with self.lock(), contextlib.suppress(holdfast.Held):
            (waiting := self.lock(wait=0)).acquire()
        with waiting:
            pass

    def test_loss_by_force(self):
        with self.assertRaises(holdfast.LockLost) as caught, self.lock() as hold:
            self.server.force("nightly")
            until("lost", lambda: hold.lost)
        self.assertIn("by force", str(caught.exception))

    def test_server_killed_and_restarted(self):
        with self.lock(ttl=9) as hold:
            end = hold._end
            self.server.end()
            self.server = self.start(address=self.server.address)
            until("renewed", lambda: hold._end > end)
            hold.check()
            self.assertEqual(len(self.server.holds("nightly")), 1)
        self.free()

    def test_server_killed_in_a_wait(self):
        got = threading.Event()

        def second():
            with self.lock(wait=PATIENCE):
                got.set()

        with self.lock(ttl=20):
            thread = threading.Thread(target=second)
            thread.start()
            until("waiting", lambda: self.server.waiters("nightly"))
            self.server.end()
            self.server = self.start(address=self.server.address)
        thread.join(PATIENCE)
        self.assertTrue(got.is_set())
        self.free()

    def test_server_drained(self):
        got = threading.Event()

        def second():
            with self.lock(wait=PATIENCE):
                got.set()

        with self.lock(ttl=20) as hold:
            thread = threading.Thread(target=second)
            thread.start()
            until("waiting", lambda: self.server.waiters("nightly"))
            self.server.end(signal.SIGTERM)
            self.server = self.start(address=self.server.address)
            hold.check()
        thread.join(PATIENCE)
        self.assertTrue(got.is_set())
        self.free()

    def test_no_server(self):
        self.server.end()
        for wait in 0, 0.3:
            with mock.patch.object(_lock, "PATIENCE", 0.5), self.assertLogs("holdfast") as logs, self.assertRaises(holdfast.Unreachable):
                _server.log.warning("one")
                self.lock(wait=wait).acquire()
        self.assertLessEqual(len(logs.records), 3)

    def test_no_renewal(self):
        with self.assertLogs("holdfast"), self.assertRaises(holdfast.LockLost) as caught, self.lock(ttl=1) as hold:
            self.server.process.send_signal(signal.SIGSTOP)
            until("lost", lambda: hold.lost)
            self.server.end()
        self.assertIn("not renewed in time", str(caught.exception))

    def test_other_store(self):
        with self.lock():
            pass
        self.server.end()
        self.server = self.start(address=self.server.address, store="other.db")
        with self.assertRaisesRegex(holdfast.Error, "another store"):
            self.lock().acquire()

    def test_connections_are_kept(self):
        proxy = self.proxy()
        for _ in range(3):
            with self.lock(url=proxy.url, ttl=20):
                pass
        self.assertEqual(proxy.connections, 1)

    def test_connections_of_a_parent(self):
        with self.lock() as hold:
            server = hold._server
            (kept,) = server._idle
            with mock.patch.object(os, "getpid", lambda: kept[1] + 1):
                connection = server._connection()
            self.assertIsNone(connection.sock)
            kept[2].close()

    def test_wrong_options(self):
        for options in (
            {"url": "postgres://ada:secret@db/app"}, {"url": "http://locks.example.com"}, {"url": "https://ada:secret@locks.example.com"},
            {"url": "unix://host"}, {"url": "https://ada:sec/secret@locks.example.com"}, {"url": "https://h:secret"}, {"url": "https://h#secret"},
             {"url": "https://locks.example.com?token=secret"}, {"url": "http://127.0.0.1:1?ca=x"},
            {"url": "locks.example.com"}, {"url": "http:///"}, {"limit": -1}, {"ttl": 0}, {"ttl": float("inf")}, {"wait": -1},
        ):  # fmt: skip
            with self.subTest(options):
                with self.assertRaises(ValueError) as caught:
                    self.lock(**options)
                self.assertNotIn("secret", str(caught.exception))
        with mock.patch.dict(os.environ), self.assertRaisesRegex(ValueError, "HOLDFAST_STORE"):
            os.environ.pop("HOLDFAST_STORE", None)
            holdfast.lock("nightly")
        for resource, options in ("", {}), ("nightly", {"limit": 2}):
            with self.assertRaisesRegex(holdfast.Error, "invalid"):
                self.lock(resource, **options).acquire()


class Clocks(Case):
    def test_suspension(self):
        """The clock goes on while no thread runs: the next step sees it."""
        with self.assertRaises(holdfast.LockLost), holdfast.lock("nightly", url=self.server.url) as hold:
            with mock.patch.object(_server, "now", lambda at=_server.now() + 40: at):
                self.assertRaises(holdfast.LockLost, hold.check)
            hold.check()  # it stays lost if the clock says otherwise later

    @unittest.skipUnless(hasattr(time, "CLOCK_BOOTTIME"), "no CLOCK_BOOTTIME")
    def test_clock(self):
        self.assertAlmostEqual(_server.now(), time.clock_gettime(time.CLOCK_BOOTTIME), delta=10)

    def test_end_counts_from_the_sending(self):
        moments = iter([100.0, 107.0])
        with mock.patch.object(_server, "now", lambda: 107.0):
            hold = _lock.Hold(_lock._servers.setdefault(("x", None, None), _server.Server(self.server.url, None, None)), {"resource": "r", "ttlMs": 30000})
            hold._extend({"safeForMs": 28000}, next(moments))
            self.assertEqual(hold._end, 128.0)
            hold._extend({"safeForMs": 1000}, 110.0)
            self.assertEqual(hold._end, 128.0)  # never backwards
            hold.check()
        with mock.patch.object(_server, "now", lambda: 128.0):
            self.assertRaises(holdfast.LockLost, hold.check)

    def test_grant_that_came_late(self):
        proxy, jump = self.proxy(), [0.0]
        real = _server.now

        def late(handler, text):
            jump[0] += 40
            handler.answer(200, "application/json", text, store)

        store = self.server_store()
        proxy.turns["/v1/acquire"] = [late]
        proxy.turns["/v1/renew"] = [lambda handler, text: handler.answer(502, "text/html", "no")]
        with mock.patch.object(_server, "now", lambda: real() + jump[0]), self.assertLogs("holdfast"):
            with holdfast.lock("nightly", url=proxy.url) as hold:
                hold.check()
        self.assertEqual(proxy.count("/v1/acquire"), 2)
        self.assertEqual(len({body["holdId"] for path, body in proxy.asked if path == "/v1/acquire"}), 2)
        self.free()

    def test_grant_without_an_end(self):
        """The store cannot tell: the hold is renewed before it counts."""
        proxy = self.proxy()

        def cannot_tell(handler, text):
            head, _, rest = text.partition(b',"safeForMs"')
            handler.answer(200, "application/json", head + b"}", self.server_store())

        proxy.turns["/v1/acquire"] = [cannot_tell]
        with holdfast.lock("nightly", url=proxy.url) as hold:
            self.assertEqual(proxy.count("/v1/renew"), 1)
            hold.check()
        self.assertEqual(proxy.count("/v1/acquire"), 1)

    def server_store(self):
        with holdfast.lock("other", url=self.server.url):
            return _lock._servers[(self.server.url, None, None)]._store


def page(*arguments, **headers):
    return lambda handler, _: handler.answer(*arguments, **headers)


def half(handler, text):
    handler.answer(200, "application/json", text[:-3], STORE, length=len(text))
    handler.close_connection = True


def hang_up(handler, _):
    handler.close_connection = True


# Answers that are not the server's to the request. Some look like a grant, others like a final refusal.
STRAY = [
    page(200, "application/json", '{"resource": "nightly", "holdId": "%s", "token": 1, "ttlMs": 30000, "safeForMs": 60000, "results": '
         '[{"holdId": "%s", "outcome": "lost", "found": false}]}' % (STORE, STORE), STORE),
    page(502, "text/html", "<h1>Bad gateway</h1>"),
    page(200, "text/html", "<h1>Log in to the network</h1>"),
    page(200, "application/json", '{"token": 1, "safeForMs": 60000}'),
    page(200, "application/json", "[" * 100000, STORE),
    page(200, "application/json", '"%s"' % STORE, STORE),
    page(200, "application/json", b"\xff\xfe{", STORE),
    page(404, "text/plain", "deploying"),
    page(409, "text/html", "<h1>The firewall has blocked this</h1>"),
    page(409, "application/problem+json", '{"type": "urn:holdfast:held", "status": 409, "holdId": "%s", "holders": []}' % STORE, STORE),
    page(403, "application/problem+json", '{"type": "about:blank", "title": "Forbidden", "status": 403}', STORE),
    page(403, "application/problem+json", '{"type": "urn:holdfast:denied", "title": "Forbidden", "status": 403}'),
    page(502, "application/problem+json", '{"type": "urn:holdfast:denied", "title": "Forbidden", "status": 403}', STORE),
    page(400, "application/problem+json", '{"type": "urn:holdfast:new-kind", "status": 400}', STORE),
    page(307, "text/plain", "", Location="http://127.0.0.1:1/"),
    half,
    hang_up,
]  # fmt: skip


class Strays(Case):
    def test_strays(self):
        proxy = self.proxy()
        proxy.turns = {"/v1/acquire": list(STRAY), "/v1/renew": [turn for stray in STRAY for turn in (stray, None)], "/v1/release": list(STRAY)}
        patience = mock.patch.object(_lock, "PATIENCE", PATIENCE)
        with patience, self.assertLogs("holdfast") as logs, holdfast.lock("nightly", url=proxy.url, ttl=4) as hold:
            self.assertEqual(proxy.count("/v1/acquire"), len(STRAY) + 1)
            until("renewed in spite of it", lambda: proxy.count("/v1/renew") > 6)
            hold.check()
        self.assertEqual(proxy.count("/v1/release"), len(STRAY) + 1)
        self.assertEqual(len({body.get("holds", [body])[0]["holdId"] for _, body in proxy.asked}), 1)
        self.assertLess(len(logs.records), 4)
        self.free()

    def test_each_stray_renewal(self):
        proxy = self.proxy()
        with holdfast.lock("nightly", url=proxy.url, ttl=60) as hold, self.assertLogs("holdfast"):
            for number, stray in enumerate(STRAY):
                with self.subTest(number):
                    end = hold._end
                    proxy.turns["/v1/renew"] = [stray]
                    hold._renew(10)
                    self.assertEqual((hold._end, hold._lost), (end, ""))

    def test_draining_and_busy(self):
        proxy = self.proxy()
        with holdfast.lock("other", url=proxy.url):
            store = _lock._servers[(proxy.url, None, None)]._store
        proxy.turns["/v1/acquire"] = [
            page(503, "application/problem+json", '{"type": "urn:holdfast:draining", "status": 503}', store, Retry_After="0"),
            page(429, "application/problem+json", '{"type": "urn:holdfast:busy", "status": 429}', store, Retry_After="1"),
        ]
        begin = time.monotonic()
        with holdfast.lock("nightly", url=proxy.url, wait=0):
            self.assertGreaterEqual(time.monotonic() - begin, 1)

    def test_busy_without_a_known_token(self):
        proxy = self.proxy()
        proxy.turns["/v1/acquire"] = [
            page(429, "application/problem+json", '{"type": "urn:holdfast:busy", "status": 429}', STORE, Retry_After="1", WWW_Authenticate="Bearer"),
        ]
        with self.assertRaises(holdfast.Denied):
            holdfast.lock("nightly", url=proxy.url).acquire()
        self.assertEqual(proxy.count("/v1/release"), 0)


STEPS = """
import holdfast, sys
with holdfast.lock("nightly", ttl=%s) as hold:
    print("held")
    for line in sys.stdin:
        hold.check()
        print("step")
""" % TTL


class Processes(Case):
    def test_stopped_past_the_end(self):
        child = self.child(STEPS, stderr=subprocess.PIPE)
        self.assertEqual(child.says(), "held")
        print("go", file=child.process.stdin)
        self.assertEqual(child.says(), "step")
        child.stop()
        with holdfast.lock("nightly", url=self.server.url):
            print("too late", file=child.process.stdin)
            child.process.send_signal(signal.SIGCONT)
            out, err = child.process.communicate(timeout=PATIENCE)
            self.assertEqual(out, "")
            self.assertIn("LockLost", err)

    def test_stopped_outside_of_a_step(self):
        """The end of the with block raises it too."""
        child = self.child(STEPS, stderr=subprocess.PIPE)
        self.assertEqual(child.says(), "held")
        child.stop()
        with holdfast.lock("nightly", url=self.server.url):
            child.process.send_signal(signal.SIGCONT)
            _, err = child.process.communicate(timeout=PATIENCE)
            self.assertIn("LockLost", err)

    def test_killed(self):
        child = self.child(STEPS)
        self.assertEqual(child.says(), "held")
        child.process.kill()
        with holdfast.lock("nightly", url=self.server.url, wait=PATIENCE) as hold:
            hold.check()

    def test_interrupted_wait(self):
        with holdfast.lock("nightly", url=self.server.url):
            child = self.child(STEPS, stderr=subprocess.PIPE)
            until("waiting", lambda: self.server.waiters("nightly"))
            child.process.send_signal(signal.SIGINT)
            _, err = child.process.communicate(timeout=PATIENCE)
            self.assertIn("KeyboardInterrupt", err)
            self.assertEqual(self.server.waiters("nightly"), [])

    def test_fork(self):
        child = self.child("""
import holdfast, os, sys, threading
with holdfast.lock("nightly", ttl=3) as hold:
    pid = os.fork()
    if pid == 0:
        try:
            hold.check()
        except holdfast.LockLost as e:
            print("fork" in str(e))
        print([t.name for t in threading.enumerate()])
        try:
            hold.release()
        except holdfast.LockLost:
            print("not released")
        with holdfast.lock("other", wait=0) as other:  # on a connection of its own
            other.check()
        print("child done")
        os._exit(0)
    os.waitpid(pid, 0)
    hold._renew(10)
    hold.check()
    print("still held")
""")
        out, _ = child.process.communicate(timeout=PATIENCE)
        self.assertEqual(out.splitlines(), ["True", "['MainThread']", "not released", "child done", "still held"])
        self.free()

    def test_fork_that_leaves_the_block(self):
        child = self.child("""
import holdfast, os
try:
    with holdfast.lock("nightly", ttl=3) as hold:
        pid = os.fork()
        if pid:
            os.waitpid(pid, 0)
            hold.check()
            hold._renew(10)
            print(hold.lost)
except holdfast.LockLost:
    print("child", pid)
""")
        out, _ = child.process.communicate(timeout=PATIENCE)
        self.assertEqual(out.splitlines(), ["child 0", "False"])

    def test_thread_never_ends_the_process(self):
        child = self.child("""
import holdfast, sys
hold = holdfast.lock("nightly", ttl=1).acquire()
print("held")
sys.stdin.readline()
print("lost" if hold.lost else "held")
""", stderr=subprocess.DEVNULL)
        self.assertEqual(child.says(), "held")
        self.server.end()
        self.server = self.start(address=self.server.address, store="other.db")
        self.assertIsNone(child.process.poll())
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.process.wait(1.5)
        print("go on", file=child.process.stdin)
        self.assertEqual(child.says(), "lost")
        self.assertEqual(child.process.wait(PATIENCE), 0)


class Callers(Case):
    """A server with an auth file, and a Unix socket."""

    def setUp(self):
        super().setUp()
        folder = pathlib.Path(self.folder)
        made = subprocess.run([command(), "token", "billing"], capture_output=True, text=True, check=True)
        self.token = made.stdout.strip()
        entry = made.stderr[made.stderr.index("{") : made.stderr.rindex("}") + 1]
        caller = json.loads(entry)
        caller = caller["callers"][0] if "callers" in caller else caller
        caller["rules"] = [{"resources": "billing/*", "may": ["lock", "look"]}]
        (folder / "auth.json").write_text(json.dumps({"callers": [caller]}))
        os.chmod(folder / "auth.json", 0o600)
        (folder / "socket").mkdir(mode=0o700)
        self.path = str(folder / "socket" / "s")
        self.guarded = self.start("--auth", str(folder / "auth.json"), "--unix", self.path, store="guarded.db")

    def test_token(self):
        url = self.guarded.url
        with mock.patch.dict(os.environ, HOLDFAST_STORE=url, HOLDFAST_SERVER_TOKEN=self.token):
            with holdfast.lock("billing/a"):
                pass
            with self.assertRaises(holdfast.Denied):
                holdfast.lock("other").acquire()
        with mock.patch.dict(os.environ, HOLDFAST_SERVER_TOKEN=""):
            with self.assertRaises(holdfast.Denied):
                holdfast.lock("billing/a", url=url).acquire()
            file = pathlib.Path(self.folder, "token")
            file.write_text(self.token + "\n")
            with holdfast.lock("billing/a", url=url, token_file=str(file)) as hold:
                file.unlink()  # in the middle of a change
                hold._renew(10)
                hold.check()
            file.write_text(self.token + "\n")
            with holdfast.lock("billing/a", url=f"{url}?token_file={file}"):
                pass
            with self.assertRaisesRegex(holdfast.Error, "token file"):
                holdfast.lock("billing/a", url=url, token_file=str(file) + "-not").acquire()
            file.write_text("a secret\nof two lines")
            with self.assertRaises(holdfast.Error) as caught:
                holdfast.lock("billing/a", url=url, token_file=str(file)).acquire()
            self.assertNotIn("secret", str(caught.exception))

    def test_socket(self):
        with holdfast.lock("nightly", url=f"unix://{self.path}", ttl=2) as hold:
            end = hold._end
            until("renewed", lambda: hold._end > end)


@unittest.skipUnless(shutil.which("openssl"), "openssl is missing")
class Certificates(Case):
    def setUp(self):
        super().setUp()
        self.pem = {}
        for name in "mine", "others":
            key, cert = (os.path.join(self.folder, f"{name}.{kind}") for kind in ("key", "pem"))
            subprocess.run(
                ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", "/CN=localhost",
                 "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", cert], check=True, capture_output=True)  # fmt: skip
            self.pem[name] = cert
        self.secure = self.start("--tls-cert", self.pem["mine"], "--tls-key", self.pem["mine"][:-3] + "key", store="secure.db")

    def test_certificates(self):
        with holdfast.lock("nightly", url=self.secure.url, ca=self.pem["mine"]) as hold:
            hold.check()
        with holdfast.lock("nightly", url=f"{self.secure.url}?ca={self.pem['mine']}"):
            pass
        for ca in self.pem["others"], None:
            with self.assertNoLogs(), self.assertRaisesRegex(holdfast.Unreachable, "not trusted"):
                holdfast.lock("nightly", url=self.secure.url, ca=ca, wait=0).acquire()
        with self.assertRaisesRegex(holdfast.Error, "cannot be used"):
            holdfast.lock("nightly", url=self.secure.url, ca="/not/there").acquire()

    def assertNoLogs(self):  # of Python 3.10
        return super().assertNoLogs("holdfast") if sys.version_info >= (3, 10) else contextlib.nullcontext()

    def test_connections_are_kept(self):
        with holdfast.lock("nightly", url=self.secure.url, ca=self.pem["mine"]) as hold:
            server = hold._server
            (kept,) = server._idle
            hold._renew(10)
            self.assertIs(server._idle[0][2], kept[2])


if __name__ == "__main__":
    unittest.main()
