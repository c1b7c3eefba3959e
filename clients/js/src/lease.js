import { randomBytes } from "node:crypto";
import { setTimeout as pause } from "node:timers/promises";
import { now, since } from "./clock.js";

const again = new Set(["unknown", "busy", "draining"]);
let warned; // when

// mayRepeat says whether the same request may have another answer later.
export const mayRepeat = (answer) => again.has(answer.kind) || (answer.kind === "ok" && answer.outcome === "unknown");

// rest waits before a repeat, for most milliseconds at most. It is random, so that callers do not
// ask in step.
export function rest(answer, most, options) {
  const ms = Math.max(100 + 400 * Math.random(), answer.retryAfter ?? 0);
  return pause(Math.min(ms, most), null, options);
}

// Lease is a hold in the store with a random hold ID, from the first request for it to its release.
export class Lease {
  token = 0;
  trouble; // why the last request had no definite answer
  #server;
  #request;
  #hold;
  #sent = now(); // the request that has moved the end
  #safeForMs = 0;
  #fresh = false;

  constructor(server, request) {
    this.#server = server;
    this.#request = request;
    this.#hold = { resource: request.resource, holdId: randomBytes(12).toString("hex") };
  }

  // left returns for how many milliseconds the caller may act as holder.
  left() {
    return this.#safeForMs - since(this.#sent);
  }

  async acquire(waitMs, signal) {
    const sent = now();
    const answer = await this.#ask("/v1/acquire", { ...this.#request, ...this.#hold, waitMs }, waitMs + 10_000, { signal });
    if (answer.kind === "ok") {
      this.token = answer.token;
      this.#extend(sent, answer.safeForMs);
    }
    return answer;
  }

  async renew(ms, options) {
    const sent = now();
    const hold = { ...this.#hold, token: this.token, ttlMs: this.#request.ttlMs };
    const answer = await this.#ask("/v1/renew", { holds: [hold] }, ms, options);
    if (answer.outcome === "renewed") this.#extend(sent, answer.safeForMs);
    return answer;
  }

  // release also gives up the place in the queue. It repeats an unknown release for ms, and says
  // whether it was done: if not, the hold ends by its TTL.
  async release(ms) {
    const start = now();
    const hold = { ...this.#hold, token: this.token, placeId: this.#hold.holdId };
    for (let left = ms; left > 0; left = ms - since(start)) {
      const answer = await this.#ask("/v1/release", { holds: [hold] }, Math.max(100, Math.min(left, 3000)));
      if (!mayRepeat(answer)) return answer.outcome === "released";
      await rest(answer, Math.max(0, ms - since(start)));
    }
    return false;
  }

  #extend(sent, safeForMs = 0) {
    const ms = safeForMs === -1 ? Infinity : safeForMs;
    if (ms - since(sent) > this.left()) [this.#sent, this.#safeForMs] = [sent, ms];
  }

  async #ask(path, body, ms, options) {
    const answer = await this.#server.ask(path, body, ms, { ...options, fresh: this.#fresh });
    this.#fresh = answer.kind === "unknown";
    this.trouble = answer.outcome === "renewed" ? undefined : answer.detail ?? answer.outcome;
    if (mayRepeat(answer) && !options?.signal?.aborted && !(warned && since(warned) < 30_000)) {
      warned = now();
      process.emitWarning(`${this.#server.name} gives no definite answer, so it is asked again: ${this.trouble}`, "HoldfastWarning");
    }
    return answer;
  }
}
