from __future__ import annotations

import asyncio
import threading
import unittest
from unittest import mock

from .support import PATIENCE, TTL, Case, until

import holdfast
from holdfast import _lock


class Asyncio(Case):
    def lock(self, **options):
        return holdfast.lock("nightly", **{"url": self.server.url, "ttl": TTL, **options})

    async def until(self, what, done):
        async def poll():
            while not await asyncio.to_thread(done):
                await asyncio.sleep(0.01)

        await asyncio.wait_for(poll(), PATIENCE)

    def test_block(self):
        async def main():
            async with self.lock() as hold:
                hold.check()
                end = hold._end
                await self.until("renewed", lambda: hold._end > end)
            with self.assertRaises(holdfast.LockLost):
                hold.check()

        asyncio.run(main())
        self.free()

    def test_blocked_loop(self):
        """The renewal is a thread: work that blocks the loop keeps the lock."""

        async def main():
            async with self.lock(ttl=1) as hold:
                first = hold._end
                until("renewed", lambda: hold._end > first + 1)
                hold.check()

        asyncio.run(main())

    def test_many_waits(self):
        """They take no threads of the loop."""

        async def one(order):
            async with self.lock(wait=PATIENCE, ttl=20) as hold:
                order.append(hold.token)

        async def main():
            order = []
            async with self.lock(ttl=20):
                tasks = [asyncio.create_task(one(order)) for _ in range(40)]
                await self.until("waiting", lambda: self.server.waiters("nightly"))
                self.assertEqual(order, [])
            await asyncio.gather(*tasks)
            self.assertEqual(len(order), 40)
            self.assertEqual(order, sorted(order))

        asyncio.run(main())
        self.free()

    def test_held(self):
        async def main():
            async with self.lock():
                with self.assertRaises(holdfast.Held):
                    async with self.lock(wait=0):
                        self.fail("two hold the lock")

        asyncio.run(main())
        self.free()

    def test_loss(self):
        async def main():
            with self.assertRaises(holdfast.LockLost):
                async with self.lock() as hold:
                    self.server.force("nightly")
                    await self.until("lost", lambda: hold.lost)

        asyncio.run(main())

    def test_cancelled_wait(self):
        async def wait():
            async with self.lock(wait=PATIENCE):
                self.fail("it was cancelled")

        async def main():
            async with self.lock():
                task = asyncio.create_task(wait())
                await self.until("waiting", lambda: self.server.waiters("nightly"))
                task.cancel()
                with self.assertRaises(asyncio.CancelledError):
                    await task
                self.assertEqual(self.server.waiters("nightly"), [])

        asyncio.run(main())
        self.free()

    def test_timeout(self):
        async def main():
            async with self.lock():
                lock = self.lock()
                with self.assertRaises(asyncio.TimeoutError):
                    await asyncio.wait_for(lock.__aenter__(), 0.3)
            async with lock:  # it can be used again
                pass

        asyncio.run(main())
        self.free()

    def test_cancelled_work(self):
        async def main():
            inside = asyncio.Event()

            async def work():
                async with self.lock():
                    inside.set()
                    await asyncio.Event().wait()

            task = asyncio.create_task(work())
            await inside.wait()
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task
            self.free()

        asyncio.run(main())

    def test_cancelled_with_the_grant(self):
        """The grant and the cancellation meet: nothing stays held, and nothing is renewed."""
        granted, go_on = threading.Event(), threading.Event()
        begin = _lock.Hold._begin

        def slow(hold, grant, sent):
            result = begin(hold, grant, sent)
            granted.set()
            go_on.wait(PATIENCE)
            return result

        async def main():
            async def work():
                async with self.lock():
                    self.fail("it was cancelled")

            with mock.patch.object(_lock.Hold, "_begin", slow):
                task = asyncio.create_task(work())
                await asyncio.to_thread(granted.wait, PATIENCE)
                task.cancel()
                await asyncio.sleep(0)
                task.cancel()  # twice
                go_on.set()
                with self.assertRaises(asyncio.CancelledError):
                    await task
            self.free()

        asyncio.run(main())
        self.assertEqual([t.name for t in threading.enumerate() if t.name == "holdfast nightly"], [])

    def test_cancelled_release(self):
        proxy = self.proxy()
        asked, go_on = threading.Event(), threading.Event()

        def slow(handler, text):
            asked.set()
            go_on.wait(PATIENCE)
            handler.close_connection = True

        proxy.turns["/v1/release"] = [slow]

        async def main():
            async def work():
                async with self.lock(url=proxy.url):
                    pass

            task = asyncio.create_task(work())
            await asyncio.to_thread(asked.wait, PATIENCE)
            task.cancel()
            await asyncio.sleep(0)
            go_on.set()
            with self.assertRaises(asyncio.CancelledError):
                await task
            self.free()

        with self.assertLogs("holdfast"):
            asyncio.run(main())


if __name__ == "__main__":
    unittest.main()
