import { hostname, userInfo } from "node:os";
import { now, since } from "./src/clock.js";
import { Denied, Held, HoldfastError, LockLost, Unreachable } from "./src/errors.js";
import { Hold } from "./src/hold.js";
import { Lease, mayRepeat, rest } from "./src/lease.js";
import { Server } from "./src/server.js";

export { Denied, Held, HoldfastError, LockLost, Unreachable };

const longestWait = 20_000; // of one request
const patience = 5000; // for a definite answer, if the wait is shorter

export async function lock(resource, options, work) {
  if (typeof options === "function") [options, work] = [undefined, options];
  if (typeof work !== "function") throw new TypeError("lock needs a function that works while the lock is held");
  const hold = await acquire(resource, options);
  try {
    const result = await work(hold);
    hold.signal.throwIfAborted();
    return result;
  } catch (e) {
    const { aborted, reason } = hold.signal;
    throw aborted && e !== reason ? new LockLost(reason.message, e) : e;
  } finally {
    await hold.release();
  }
}

export async function acquire(resource, options = {}) {
  const { request, wait, signal, server } = settings(resource, options);
  signal?.throwIfAborted();
  const start = now();
  let lease = new Lease(server, request);
  let unsettled = false; // the store may have a hold or a place of the lease
  try {
    for (;;) {
      const waitMs = Math.floor(Math.min(longestWait, Math.max(0, wait - since(start))));
      const answer = await lease.acquire(waitMs, signal);
      unsettled ||= answer.kind === "ok" || mayRepeat(answer) || (answer.kind === "held" && waitMs > 0);
      // The answer came too late, or the store cannot tell for how long the hold is safe.
      if (answer.kind === "ok" && lease.left() <= 0 && (await lease.renew(3000)).outcome === "lost") lease = new Lease(server, request);
      if (answer.kind === "ok" && lease.left() > 0) return new Hold(resource, lease);
      signal?.throwIfAborted();
      const held = answer.kind === "held";
      const left = (held ? wait : Math.max(wait, patience)) - since(start);
      if (left <= 0 || !(held || answer.kind === "ok" || mayRepeat(answer))) throw refusal(answer, resource, server);
      await rest(answer, left, { signal });
    }
  } catch (e) {
    if (unsettled) await lease.release(3000);
    throw signal?.aborted ? signal.reason : e;
  }
}

function refusal(answer, resource, server) {
  const { kind, detail } = answer;
  if (kind === "held") return new Held(answer);
  const message = `cannot lock "${resource}" at ${server.name}: ${detail ?? "its answers come too late"}`;
  if (kind === "denied" || kind === "unauthenticated") return new Denied(message, { kind });
  if (kind === "ok" || kind === "untrusted" || mayRepeat(answer)) return new Unreachable(message, { kind });
  return new HoldfastError(message, { kind });
}

function settings(resource, options) {
  const { wait = Infinity, shared = false, limit, fair, ttl = 30_000, owner = user(), comment, signal, url, token, tokenFile, ca, ...others } = options;
  for (const name of Object.keys(others)) throw new TypeError(`lock has no option ${name}`);
  if (typeof resource !== "string") throw new TypeError("the name of the lock is not a string");
  if (!(wait >= 0)) throw new RangeError("wait is not a number of milliseconds, 0 or more");
  if (!(ttl >= 500 && ttl < Infinity)) throw new RangeError("ttl is not a number of milliseconds, 500 or more");
  const request = { resource, mode: shared ? "shared" : "exclusive", limit, fair, ttlMs: Math.floor(ttl), owner, host: hostname(), comment };
  return { request, wait, signal, server: new Server({ url, token, tokenFile, ca }) };
}

function user() {
  try {
    return userInfo().username;
  } catch { // it has no name on this machine
    return "";
  }
}
