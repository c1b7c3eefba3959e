import assert from "node:assert/strict";
import { once } from "node:events";
import test from "node:test";
import { acquire, Denied, HoldfastError, lock, Unreachable } from "../index.js";
import { relay, serve, until } from "./kit.js";

// It is the first test, because there is one warning in 30 s.
test("a server that is not there is Unreachable", async (t) => {
  const warned = once(process, "warning");
  const start = performance.now();
  await assert.rejects(acquire("nightly", { url: "http://127.0.0.1:1", wait: 0 }), (e) => e instanceof Unreachable && /ECONNREFUSED/.test(e.message));
  assert.ok(performance.now() - start > 4000);
  assert.match((await warned)[0].message, /http:\/\/127\.0\.0\.1:1 gives no definite answer/);
});

const send = (response, status, type, text, headers) => {
  response.writeHead(status, { "Content-Type": type, ...headers });
  response.end(text);
  return true;
};
const problem = (response, type, status, headers) =>
  send(response, status, "application/problem+json", JSON.stringify({ type, title: "No", status, detail: "no" }), { "Holdfast-Store": "0123456789abcdef01234567", ...headers });
const mine = { "Holdfast-Store": "0123456789abcdef01234567" };
const other = JSON.stringify({ resource: "nightly", holdId: "0123456789abcdef01234567", token: 1, safeForMs: 60_000,
  results: [{ holdId: "0123456789abcdef01234567", outcome: "lost", found: false }] });

// Answers that are not the server's answer to the request. The server has applied it.
const stray = {
  "another hold's": (response) => send(response, 200, "application/json", other, mine),
  "a portal's page": (response) => send(response, 200, "text/html", "<h1>Log in to the network</h1>"),
  "a portal's JSON": (response) => send(response, 200, "application/json", '{"token": 1, "safeForMs": 60000}'),
  "a firewall's 409": (response) => send(response, 409, "text/html", "<h1>Conflict</h1>"),
  "a proxy's 403": (response) => send(response, 403, "application/problem+json", '{"type": "about:blank", "status": 403, "detail": "no"}', mine),
  "a proxy's 502": (response) => send(response, 502, "text/html", "<h1>Bad gateway</h1>"),
  "an unknown type": (response) => problem(response, "urn:holdfast:strange", 418),
  "another status": (response) => send(response, 502, "application/problem+json", '{"type": "urn:holdfast:denied", "status": 403, "detail": "no"}', mine),
  "a redirect": (response) => send(response, 307, "text/plain", "", { Location: "http://127.0.0.1:1/" }),
  "the answer of a cache without the header": (response, body) => send(response, 200, "application/json", body),
  "null": (response) => send(response, 200, "application/json", "null", mine),
  "half of the answer": (response, body) => {
    response.writeHead(200, { "Content-Type": "application/json", "Content-Length": body.length, ...mine });
    response.write(body.slice(0, -3), () => response.destroy());
    return true;
  },
  "no end of the answer": (response, body) => {
    response.writeHead(200, { "Content-Type": "application/json", ...mine });
    response.write(body, () => response.destroy());
    return true;
  },
  "none": (response) => response.destroy(),
};

test("the request is repeated after", { concurrency: true }, async (t) => {
  const server = await serve(t);
  await Promise.all(Object.entries(stray).map(([name, answer], i) => t.test(name, async (t) => {
    const resource = `nightly-${i}`;
    const front = await relay(t, server, ({ path, number }, response, body) => {
      if (path !== "/v1/renew" || number === 0) return number === 0 && answer(response, body);
    });
    const hold = await acquire(resource, { url: front.url, ttl: 6000 });
    assert.equal(front.of("/v1/acquire").length, 2);
    await until("renewed", () => front.of("/v1/renew").length > 1);
    hold.check();
    assert.equal(await hold.release(), true);
    assert.equal(front.of("/v1/release").length, 2);
    assert.equal(new Set(front.asked.map(({ body }) => (body.holds?.[0] ?? body).holdId)).size, 1);
    assert.deepEqual(await server.holds(resource), []);
  })));
});

test("a server that is busy or drains says when to come back", async (t) => {
  const server = await serve(t);
  const front = await relay(t, server, ({ path, number }, response) => {
    if (path !== "/v1/acquire" || number > 1) return false;
    return number === 0 ? problem(response, "urn:holdfast:draining", 503, { "Retry-After": "0" }) : problem(response, "urn:holdfast:busy", 429, { "Retry-After": "1" });
  });
  await (await acquire("nightly", { url: front.url })).release();
  const [first, second, third] = front.of("/v1/acquire").map(({ at }) => at);
  assert.ok(second - first < 1000 && third - second >= 990, `${second - first} and ${third - second}`);
});

test("a refusal of a renewal does not move the end", async (t) => {
  const server = await serve(t);
  const front = await relay(t, server, ({ path, number }, response) => path === "/v1/renew" && number === 0 && problem(response, "urn:holdfast:denied", 403));
  await lock("nightly", { url: front.url, ttl: 2000 }, async (hold) => {
    await until("renewed", () => front.of("/v1/renew").length > 1);
    hold.check();
  });
});

test("a final refusal is not repeated", async (t) => {
  const server = await serve(t);
  const front = await relay(t, server, (_, response) => problem(response, "urn:holdfast:damaged", 422));
  await assert.rejects(acquire("nightly", { url: front.url }), (e) => e instanceof HoldfastError && e.kind === "damaged");
  assert.equal(front.asked.length, 1);
});

test("too many wrong tokens are a refusal", async (t) => {
  const server = await serve(t);
  const front = await relay(t, server, (_, response) => problem(response, "urn:holdfast:busy", 429, { "Retry-After": "60", "WWW-Authenticate": "Bearer" }));
  await assert.rejects(acquire("nightly", { url: front.url }), Denied);
  assert.equal(front.asked.length, 1);
});

test("two stores behind one name are refused", async (t) => {
  const servers = [await serve(t), await serve(t)];
  let current = servers[0];
  const front = await relay(t, () => current);
  const hold = await acquire("nightly", { url: front.url, ttl: 3000 });
  current = servers[1];
  await assert.rejects(acquire("other", { url: front.url }), { kind: "unusable" });
  await until("renewed at the wrong one", () => front.of("/v1/renew").length > 0);
  hold.check(); // the other store knows nothing of it
  current = servers[0];
  assert.equal(await hold.release(), true);
});
