/** Times are in milliseconds. */
export interface LockOptions {
  /** How long to wait for the lock: 0 does not wait. Default: as long as it takes. */
  wait?: number;
  /** Gives up the wait. It does nothing once the lock is held. */
  signal?: AbortSignal;
  /** Several shared holds at a time, and no exclusive one beside them. */
  shared?: boolean;
  /** How many shared holds there may be, this one included: a semaphore. All of them give the same limit. */
  limit?: number;
  /** Nobody who comes later is served before. */
  fair?: boolean;
  /** After how long the lock is free when this program has died, at least 500. Default: 30,000. */
  ttl?: number;
  /** Names the holder for others. Default: the user of this process. */
  owner?: string;
  /** Says for others what the lock is held for. */
  comment?: string;
  /**
   * The server: https://HOST, http://127.0.0.1:PORT or unix:///PATH, with the parameters token_file, ca, cert and key,
   * which name files. Default: HOLDFAST_STORE.
   */
  url?: string;
  /** The caller's token. Default: HOLDFAST_SERVER_TOKEN, if no file is named. */
  token?: string;
  /** A file with the caller's token. It is read for each request. */
  tokenFile?: string;
  /** A PEM file of the authorities that may have issued the server's certificate. */
  ca?: string;
}

/** A lock that is held. It is renewed in the background, which does not keep the process alive. */
export declare class Hold implements AsyncDisposable {
  private constructor();
  readonly resource: string;
  /** A number that rises with each grant of the lock. What the holder writes to may refuse smaller ones. 0 is not known. */
  readonly token: number;
  /** Aborted, with a LockLost, when the lock is lost. A release does not abort it. */
  readonly signal: AbortSignal;
  /** Throws LockLost if the lock is lost, and another error once it has been released. */
  check(): void;
  /**
   * Ends the hold and its renewal. It never rejects, and is false if the server did not confirm it: then the lock is free
   * after its TTL.
   */
  release(): Promise<boolean>;
  /** Releases the lock, and rejects with LockLost if it was lost. */
  [Symbol.asyncDispose](): Promise<void>;
}

/**
 * Waits for the lock, calls work while it holds the lock, releases it, and returns what work has returned. If the lock was
 * lost before work ended, it rejects with LockLost, whose cause is the error of work, if there is one.
 */
export declare function lock<T>(resource: string, work: (hold: Hold) => T | Promise<T>): Promise<T>;
export declare function lock<T>(resource: string, options: LockOptions | undefined, work: (hold: Hold) => T | Promise<T>): Promise<T>;

/** Waits for the lock. Who has it must release it. */
export declare function acquire(resource: string, options?: LockOptions): Promise<Hold>;

/** What is wrong with the request, the server or the store. Wrong options are a TypeError or a RangeError. */
export declare class HoldfastError extends Error {
  /** That of the server's answer, such as "invalid" or "damaged". */
  readonly kind: string;
}

/** Others held the lock until the wait was over. */
export declare class Held extends HoldfastError {
  readonly holders: ReadonlyArray<Readonly<{
    mode: "exclusive" | "shared";
    owner: string;
    host: string;
    comment: string;
    ref?: string;
    ttlMs: number | null;
    ageMs: number | null;
    renewedAgoMs: number | null;
  }>>;
  /** The place in the queue, 1 if this caller was next, null if it had none. */
  readonly position: number | null;
  /** When the holds end unless they are renewed, -1 if they have no end, undefined if that is not known. */
  readonly retryAfterMs?: number;
}

/** The lock has ended before its release, or may have: it was not renewed in time, or released by force. */
export declare class LockLost extends HoldfastError {}

/** The caller's token is wrong or missing, or it lacks a right. */
export declare class Denied extends HoldfastError {}

/** There was no definite answer until the wait was over, or the server's certificate is not trusted. */
export declare class Unreachable extends HoldfastError {}
