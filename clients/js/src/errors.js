export class HoldfastError extends Error {
  static {
    this.prototype.name = "HoldfastError";
  }

  constructor(message, { kind, cause } = {}) {
    super(message, cause === undefined ? undefined : { cause });
    this.kind = kind;
  }
}

export class Held extends HoldfastError {
  static {
    this.prototype.name = "Held";
  }

  constructor(answer) {
    super(answer.detail, { kind: "held" });
    this.holders = answer.holders;
    this.position = answer.position;
    this.retryAfterMs = answer.retryAfterMs;
  }
}

export class LockLost extends HoldfastError {
  static {
    this.prototype.name = "LockLost";
  }

  constructor(message, cause) {
    super(message, { kind: "lost", cause });
  }
}

export class Denied extends HoldfastError {
  static {
    this.prototype.name = "Denied";
  }
}

export class Unreachable extends HoldfastError {
  static {
    this.prototype.name = "Unreachable";
  }
}
