import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { userInfo } from "node:os";
import { join } from "node:path";
import test from "node:test";
import { acquire, Denied, Held, HoldfastError, lock, LockLost, Unreachable } from "../index.js";
import { folder, holdfast, program, relay, serve, until } from "./kit.js";

test("a lock is held while the function works", async (t) => {
  const server = await serve(t);
  for (const url of [server.url, `${server.url}/`, server.socket]) {
    const got = await lock("nightly", { url, comment: "all of it" }, async (hold) => {
      const [{ token, owner, comment, mode }] = await server.holds("nightly");
      assert.deepEqual([token, owner, comment, mode], [hold.token, userInfo().username, "all of it", "exclusive"]);
      assert.equal(hold.signal.aborted, false);
      hold.check();
      return 17;
    });
    assert.equal(got, 17);
    assert.deepEqual(await server.holds("nightly"), []);
  }
});

test("the error of the function ends the lock", async (t) => {
  const server = await serve(t);
  process.env.HOLDFAST_STORE = server.url;
  await assert.rejects(lock("nightly", () => Promise.reject(new Error("no disk"))), { message: "no disk" });
  assert.deepEqual(await server.holds("nightly"), []);
});

test("a hold is released once", async (t) => {
  const { url, ...server } = await serve(t);
  const hold = await acquire("nightly", { url });
  assert.equal(hold.resource, "nightly");
  assert.deepEqual(await Promise.all([hold.release(), hold.release()]), [true, true]);
  assert.deepEqual(await server.holds("nightly"), []);
  assert.equal(hold.signal.aborted, false);
  assert.throws(() => hold.check(), { kind: "released" });
  const again = await acquire("nightly", { url });
  assert.ok(again.token > hold.token);
  await again[Symbol.asyncDispose ?? Symbol.for("Symbol.asyncDispose")]();
  assert.deepEqual(await server.holds("nightly"), []);
});

test("the next one waits", async (t) => {
  const server = await serve(t);
  const { url } = server;
  const first = await acquire("nightly", { url });
  const second = acquire("nightly", { url, fair: true });
  await until("waiting", async () => (await server.waiters("nightly")).length === 1);
  const released = first.release();
  await (await second).release();
  await released;
});

test("a wait ends with Held, and without a place in the queue", async (t) => {
  const server = await serve(t);
  const front = await relay(t, server);
  const hold = await acquire("nightly", { url: server.url, owner: "ada" });
  for (const wait of [0, 300]) {
    const start = performance.now();
    await assert.rejects(acquire("nightly", { url: front.url, wait }), (e) => {
      assert.ok(e instanceof Held && e instanceof HoldfastError && e.name === "Held");
      assert.equal(e.holders[0].owner, "ada");
      assert.ok(e.retryAfterMs > 0);
      return true;
    });
    assert.ok(performance.now() - start >= wait);
    assert.deepEqual(await server.waiters("nightly"), []);
  }
  assert.deepEqual(front.asked.map((call) => call.path), ["/v1/acquire", "/v1/acquire", "/v1/release"]);
  await hold.release();
});

test("shared holds have a limit", async (t) => {
  const { url } = await serve(t);
  const options = { url, shared: true, limit: 2, wait: 0 };
  const holds = [await acquire("pool", options), await acquire("pool", options)];
  await assert.rejects(acquire("pool", options), Held);
  await assert.rejects(acquire("pool", { url, wait: 0 }), Held);
  await holds[0].release();
  holds.push(await acquire("pool", options));
  for (const hold of holds) await hold.release();
});

test("a hold is renewed", async (t) => {
  const server = await serve(t);
  await lock("nightly", { url: server.url, ttl: 600 }, async (hold) => {
    await until("renewed twice", async () => (await server.holds("nightly"))[0].ageMs > 1200);
    hold.check();
  });
});

test("a signal ends the wait", async (t) => {
  const server = await serve(t);
  const front = await relay(t, server);
  const hold = await acquire("nightly", { url: server.url });
  const control = new AbortController();
  const waiting = acquire("nightly", { url: front.url, signal: control.signal });
  await until("waiting", async () => (await server.waiters("nightly")).length === 1);
  control.abort(new Error("no more time"));
  await assert.rejects(waiting, { message: "no more time" });
  assert.deepEqual(await server.waiters("nightly"), []);
  const asked = front.asked.length;
  await assert.rejects(acquire("nightly", { url: front.url, signal: control.signal }), { message: "no more time" });
  assert.equal(front.asked.length, asked);
  await hold.release();
  await (await acquire("nightly", { url: server.url, wait: 0 })).release();
});

test("neither a hold nor its renewals keep the process alive", async (t) => {
  const front = await relay(t, await serve(t));
  const idle = await program(t, front.url, "nightly", "6000", "idle");
  assert.deepEqual(await idle.ended, [0, null]);
  assert.deepEqual(front.asked.map((call) => call.path), ["/v1/acquire"]);
});

test("a wait keeps the process alive", async (t) => {
  const server = await serve(t);
  const hold = await acquire("nightly", { url: server.url });
  const idle = await program(t, server.url, "nightly", "30000", "idle");
  await until("waiting", async () => (await server.waiters("nightly")).length === 1);
  await hold.release();
  assert.deepEqual(await idle.ended, [0, null]);
  assert.deepEqual(idle.lines, ["held"]);
});

test("a program that is killed blocks others for its TTL", async (t) => {
  const server = await serve(t);
  const killed = await program(t, server.url, "nightly", "1500");
  await killed.printed("held");
  const [{ token }] = await server.holds("nightly");
  killed.child.kill("SIGKILL");
  const hold = await acquire("nightly", { url: server.url });
  assert.ok(hold.token > token);
  assert.ok((await server.holds("nightly")).length === 1);
  await hold.release();
});

test("the token says who the caller is", async (t) => {
  const dir = folder(t), auth = join(dir, "auth"), file = join(dir, "token");
  const made = spawnSync(holdfast, ["token", "billing"], { encoding: "utf8" });
  const token = made.stdout.trim(), entry = JSON.parse(made.stderr);
  entry.rules.push({ resources: "billing/*", may: ["lock"] });
  writeFileSync(auth, JSON.stringify({ callers: [entry] }), { mode: 0o600 });
  writeFileSync(file, made.stdout);
  const { url } = await serve(t, { dir, args: ["--auth", auth] });
  await (await acquire("billing/a", { url, token })).release();
  await (await acquire("billing/a", { url: `${url}?token_file=${file}` })).release();
  await (await acquire("billing/a", { url, tokenFile: file })).release();
  await assert.rejects(acquire("nightly", { url, token }), (e) => e instanceof Denied && e.kind === "denied");
  await assert.rejects(acquire("billing/a", { url, token: "hf_wrong" }), (e) => e instanceof Denied && !e.message.includes("hf_wrong"));
  process.env.HOLDFAST_SERVER_TOKEN = token;
  t.after(() => delete process.env.HOLDFAST_SERVER_TOKEN);
  await (await acquire("billing/a", { url })).release();
});

test("the server's certificate is checked", async (t) => {
  const dir = folder(t);
  const goroot = execFileSync("go", ["env", "GOROOT"], { encoding: "utf8" }).trim();
  execFileSync("go", ["run", join(goroot, "src/crypto/tls/generate_cert.go"), "--host", "127.0.0.1", "--ca"], { cwd: dir, stdio: "ignore" });
  const { url } = await serve(t, { dir, scheme: "https", args: ["--tls-cert", join(dir, "cert.pem"), "--tls-key", join(dir, "key.pem")] });
  await assert.rejects(acquire("nightly", { url }), (e) => e instanceof Unreachable && e.kind === "untrusted");
  await (await acquire("nightly", { url, ca: join(dir, "cert.pem") })).release();
  await (await acquire("nightly", { url: `${url}?ca=${join(dir, "cert.pem")}` })).release();
});

test("wrong options are refused before a request", async (t) => {
  const url = "http://127.0.0.1:1";
  const refused = [
    [{ url, lmit: 3 }, /no option lmit/],
    [{ url, wait: -1 }, /wait/],
    [{ url, ttl: 100 }, /ttl/],
    [{ url, ttl: Infinity }, /ttl/],
    [{ url: "http://locks.example.com" }, /https/],
    [{ url: "redis://cache" }, /holdfast serve/],
    [{ url: "https://s3cret@h" }, /token_file/],
    [{ url: "https://h?tokn=s3cret" }, /none of token_file/],
    [{ url: "s3cret" }, /not a URL/],
    [{ url: "unix://run/s" }, /three slashes/],
    [{ url: "unix:///s?ca=x" }, /https/],
    [{ url, token: "s3cret\nX: y" }, /character/],
    [{ url, tokenFile: "/nowhere" }, /ENOENT/],
    [{ url: "" }, /HOLDFAST_STORE/],
  ];
  for (const [options, message] of refused) {
    await assert.rejects(acquire("nightly", options), (e) => {
      assert.match(e.message, message);
      return !e.message.includes("s3cret");
    });
  }
  await assert.rejects(acquire(17, { url }), TypeError);
  await assert.rejects(lock("nightly", { url }), TypeError);
  const server = await serve(t);
  await assert.rejects(acquire("nightly", { url: server.url, limit: 3 }), (e) => e.kind === "invalid" && e.message.includes("nightly"));
});

test("errors have their class's name", () => {
  for (const kind of [HoldfastError, Held, LockLost, Denied, Unreachable]) assert.equal(kind.prototype.name, kind.name);
});
