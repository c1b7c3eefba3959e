import { setTimeout as pause } from "node:timers/promises";
import { HoldfastError, LockLost } from "./errors.js";

const aborted = Object.getOwnPropertyDescriptor(AbortSignal.prototype, "aborted").get;
const longestTimer = 2 ** 31 - 1;

export class Hold {
  #lease;
  #loss = new AbortController();
  #over = new AbortController(); // aborted when the hold is lost or released
  #releasing;

  constructor(resource, lease) {
    this.resource = resource;
    this.token = lease.token;
    this.#lease = lease;
    // While something blocks the event loop, no timer can abort the signal, and afterwards other
    // callbacks may run first. So everything that looks at the signal looks at the clock.
    const signal = this.#loss.signal;
    Object.defineProperty(signal, "aborted", { get: () => (this.#look(), aborted.call(signal)) });
    Object.defineProperty(signal, "throwIfAborted", { value: () => {
      if (signal.aborted) throw signal.reason;
    } });
    this.#guard();
    this.#keep().catch(() => {}); // only the pause fails, when the hold is over
  }

  get signal() {
    this.#look();
    return this.#loss.signal;
  }

  // Work may take these two out of the hold: ({ check, signal }) => ….
  check = () => {
    this.signal.throwIfAborted();
    if (this.#releasing) throw new HoldfastError(`"${this.resource}" has been released`, { kind: "released" });
  };

  release = () => {
    this.#look();
    this.#over.abort();
    this.#releasing ??= this.#lease.release(this.#loss.signal.aborted ? 1000 : 10_000);
    return this.#releasing;
  };

  async [Symbol.asyncDispose ?? Symbol.for("Symbol.asyncDispose")]() {
    await this.release();
    this.#loss.signal.throwIfAborted();
  }

  #look() {
    if (!this.#over.signal.aborted && this.#lease.left() <= 0) {
      this.#lose(`was not renewed in time${this.#lease.trouble ? `: ${this.#lease.trouble}` : ""}`);
    }
  }

  #lose(why) {
    if (this.#over.signal.aborted) return;
    this.#over.abort();
    this.#loss.abort(new LockLost(`the lock "${this.resource}" is lost: it ${why}`));
  }

  // guard looks often, because timers stand still while the machine is suspended.
  #guard() {
    this.#look();
    if (!this.#over.signal.aborted) setTimeout(() => this.#guard(), Math.min(Math.max(1, this.#lease.left()), 250)).unref();
  }

  async #keep() {
    const { signal } = this.#over;
    for (;;) {
      const third = Math.max(50, this.#lease.left() / 3); // so that two more attempts are possible
      await pause(Math.min(third, longestTimer), null, { ref: false, signal });
      this.#look();
      if (signal.aborted) return;
      const { outcome } = await this.#lease.renew(Math.max(100, this.#lease.left() / 3), { idle: true, signal });
      if (outcome === "lost") this.#lose("has ended in the store, or somebody has released it by force");
    }
  }
}
