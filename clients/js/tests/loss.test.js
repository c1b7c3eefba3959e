import assert from "node:assert/strict";
import { once } from "node:events";
import { setTimeout as pause } from "node:timers/promises";
import test from "node:test";
import { acquire, lock, LockLost } from "../index.js";
import { program, relay, serve, until } from "./kit.js";

const lost = (e) => e instanceof LockLost && e.kind === "lost" && e.message.includes('"nightly"');

test("a release by force aborts the signal", async (t) => {
  const server = await serve(t);
  await assert.rejects(lock("nightly", { url: server.url, ttl: 1500 }, async ({ signal, check }) => {
    await server.force("nightly");
    await once(signal, "abort");
    assert.ok(lost(signal.reason) && /by force/.test(signal.reason.message));
    assert.throws(() => signal.throwIfAborted(), lost);
    assert.throws(check, lost);
    return "not this";
  }), (e) => lost(e) && !e.cause);
});

test("LockLost has the error of the function", async (t) => {
  const server = await serve(t);
  await assert.rejects(lock("nightly", { url: server.url, ttl: 1500 }, async ({ signal }) => {
    await server.force("nightly");
    await once(signal, "abort");
    throw new Error("half a report");
  }), (e) => lost(e) && e.cause.message === "half a report");
  await assert.rejects(lock("nightly", { url: server.url, ttl: 1500 }, async ({ signal }) => {
    await server.force("nightly");
    await pause(60_000, null, { signal });
  }), (e) => lost(e) && e.cause.name === "AbortError");
});

test("the end of a block says that the lock was lost", async (t) => {
  const server = await serve(t);
  const hold = await acquire("nightly", { url: server.url, ttl: 1500 });
  await server.force("nightly");
  await once(hold.signal, "abort");
  assert.throws(() => hold.check(), lost);
  await assert.rejects(hold[Symbol.asyncDispose ?? Symbol.for("Symbol.asyncDispose")](), lost);
  await hold.release();
});

test("a lock is lost before its end in the store if the server gives no answer", async (t) => {
  const server = await serve(t);
  const hold = await acquire("nightly", { url: server.url, ttl: 2000 });
  const start = performance.now();
  server.child.kill("SIGSTOP");
  await once(hold.signal, "abort");
  assert.ok(performance.now() - start < 2000);
  assert.match(hold.signal.reason.message, /not renewed in time: no answer within/);
  assert.equal(await hold.release(), false);
});

test("a renewal that does not say for how long does not move the end", async (t) => {
  const server = await serve(t);
  const front = await relay(t, server, ({ path, number }, response, body, { headers }) => {
    if (path !== "/v1/renew" || number > 0) return false;
    const { results: [{ safeForMs, ...result }] } = JSON.parse(body);
    response.writeHead(200, { "Content-Type": headers["content-type"], "Holdfast-Store": headers["holdfast-store"] });
    response.end(JSON.stringify({ results: [result] }));
    return true;
  });
  const hold = await acquire("nightly", { url: front.url, ttl: 3000 });
  await until("renewed again", () => front.of("/v1/renew").length > 1);
  hold.check();
  await hold.release();
});

test("a lock survives the server", async (t) => {
  const server = await serve(t);
  const hold = await acquire("nightly", { url: server.url, ttl: 6000 });
  await server.end("SIGKILL");
  const again = await server.again();
  assert.equal((await again.holds("nightly"))[0].renewedAt, null);
  await until("renewed", async () => (await again.holds("nightly"))[0].renewedAt !== null);
  hold.check();
  assert.equal(await hold.release(), true);
});

test("a wait survives a server that drains", async (t) => {
  const server = await serve(t, { args: ["--drain-delay", "100ms"] });
  let current = server;
  const front = await relay(t, () => current);
  const hold = await acquire("nightly", { url: front.url });
  const waiting = acquire("nightly", { url: front.url });
  await until("waiting", async () => (await server.waiters("nightly")).length === 1);
  await server.end("SIGTERM");
  current = await server.again();
  assert.equal(await hold.release(), true);
  await (await waiting).release();
  const [, second, ...others] = front.of("/v1/acquire").map((call) => call.body.holdId);
  assert.ok(others.length > 0 && others.every((id) => id === second));
});

// A line that has come while the program was stopped is read before its timers run.
test("a program that was stopped past its end sees that before it goes on", async (t) => {
  const server = await serve(t);
  const first = await program(t, server.url, "nightly", "1500");
  await first.printed("held");
  first.tell("one");
  await first.printed("one");
  first.child.kill("SIGSTOP");
  first.tell("two");
  const second = await acquire("nightly", { url: server.url });
  first.child.kill("SIGCONT");
  await first.printed("LockLost before two");
  assert.deepEqual(first.lines, ["held", "one", "LockLost before two"]);
  second.check();
  await second.release();
});

test("what runs after the event loop was blocked sees the loss", async (t) => {
  const { url } = await serve(t);
  const hold = await acquire("nightly", { url, ttl: 600 });
  const { signal } = hold, seen = [];
  const derived = new AbortController();
  signal.addEventListener("abort", () => derived.abort());
  const look = (name) => seen.push([name, signal.aborted, derived.signal.aborted]);
  Promise.resolve().then(() => look("promise"));
  setImmediate(() => look("immediate"));
  setTimeout(() => look("timer"), 1);
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 700);
  look("now");
  await pause(10);
  assert.deepEqual(seen.sort(), ["immediate", "now", "promise", "timer"].map((name) => [name, true, true]));
  await assert.rejects(fetch(url, { signal }), lost);
  await hold.release();
});

// A function that blocks the event loop until the end is over has no result.
test("work that has taken too long is lost", async (t) => {
  const { url } = await serve(t);
  await assert.rejects(lock("nightly", { url, ttl: 600 }, () => {
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 700);
    return "not this";
  }), lost);
});

// clocks sets the two clocks by differences, until the test has ended.
function clocks(t) {
  const monotonic = performance.now.bind(performance), wall = Date.now;
  const by = { monotonic: 0, wall: 0 };
  Object.defineProperty(performance, "now", { configurable: true, value: () => monotonic() + by.monotonic });
  Date.now = () => wall() + by.wall;
  t.after(() => {
    delete performance.now;
    Date.now = wall;
  });
  return by;
}

test("the end comes by the clock that has advanced more", async (t) => {
  const server = await serve(t);
  const by = clocks(t);
  const day = 86_400_000;
  for (const [monotonic, wall, gone] of [[0, day, true], [day, 0, true], [day, -day, true], [0, -day, false], [0, 20_000, false], [0, 29_000, true]]) {
    Object.assign(by, { monotonic: 0, wall: 0 });
    const hold = await acquire("nightly", { url: server.url });
    Object.assign(by, { monotonic, wall });
    assert.equal(hold.signal.aborted, gone, `${monotonic} and ${wall}`);
    Object.assign(by, { monotonic: 0, wall: 0 });
    assert.equal(hold.signal.aborted, gone, "final");
    await hold.release();
  }
});

// The timers of the process stand still while the machine is suspended.
test("a suspended machine is noticed without a look", async (t) => {
  const { url } = await serve(t);
  const by = clocks(t);
  const hold = await acquire("nightly", { url });
  const aborted = once(hold.signal, "abort");
  by.wall = 60_000;
  const start = process.hrtime.bigint();
  await aborted;
  assert.ok(process.hrtime.bigint() - start < 5_000_000_000n);
  await hold.release();
});

// The time of a grant runs from the request, and not from the answer.
test("a grant that comes too late is renewed first", async (t) => {
  const server = await serve(t);
  const by = clocks(t);
  const front = await relay(t, server, ({ path, number }) => {
    if (path === "/v1/acquire" && number === 0) by.monotonic += 29_000;
  });
  const hold = await acquire("nightly", { url: front.url });
  assert.deepEqual(front.asked.map((call) => call.path), ["/v1/acquire", "/v1/renew"]);
  hold.check();
  by.monotonic += 20_000;
  hold.check();
  await hold.release();
});

test("a grant that comes after its end is another one", async (t) => {
  const server = await serve(t);
  const by = clocks(t);
  const front = await relay(t, server, async ({ path, number }) => {
    if (path !== "/v1/acquire" || number > 0) return;
    by.monotonic += 29_000;
    await server.force("nightly");
  });
  const hold = await acquire("nightly", { url: front.url });
  const [first, second, ...others] = front.of("/v1/acquire").map((call) => call.body.holdId);
  assert.ok(first !== second && others.length === 0);
  hold.check();
  await hold.release();
});
