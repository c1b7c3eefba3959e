import { readFileSync } from "node:fs";
import http from "node:http";
import https from "node:https";

const agents = { http: new http.Agent({ keepAlive: true }), https: new https.Agent({ keepAlive: true }) };
const stores = new Map(); // the ID of the store behind each server
const kinds = new Set(["invalid", "unauthenticated", "denied", "not-found", "method", "held", "too-large", "media-type",
  "misdirected", "damaged", "busy", "unusable", "unsupported", "unknown", "draining"]);
const largest = 16 << 20; // bytes of an answer

// Server is what a URL of a server says, as in the command holdfast.
export class Server {
  #secure;
  #target; // options of each request
  #path;
  #files = {}; // ca, cert and key: they are read for each request, because they are renewed
  #tokenFile;
  #token;

  constructor({ url = process.env.HOLDFAST_STORE, token, tokenFile, ca }) {
    if (!url) throw new TypeError("no server: name its URL in HOLDFAST_STORE or in the option url");
    let u;
    try {
      u = new URL(url);
    } catch { // its error has the URL, which may have a secret
      throw new TypeError("the URL of the server is not a URL");
    }
    if (u.username || u.password) throw new TypeError("the URL of the server has a user or a password: give the token in a file, ?token_file=FILE");
    this.#secure = u.protocol === "https:";
    this.#path = u.pathname.replace(/\/+$/, "");
    this.name = `${u.protocol}//${u.host}`;
    if (u.protocol === "unix:") {
      if (u.host || !this.#path) throw new TypeError("the URL names no socket: write unix:///PATH/TO/SOCKET, with three slashes");
      this.name = `unix:${this.#path}`;
      this.#target = { socketPath: decodeURIComponent(this.#path), host: "localhost" };
      this.#path = "";
    } else if (this.#secure || u.protocol === "http:") {
      if (!this.#secure && !/^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/.test(u.hostname)) {
        throw new TypeError("http is for 127.0.0.1, [::1] and localhost: on a network, others would read the token and could answer: write https://");
      }
      this.#target = { host: u.hostname.replace(/^\[|\]$/g, ""), port: u.port || undefined };
    } else {
      throw new TypeError(`the scheme ${u.protocol} is none of https, http and unix: this client needs a server (holdfast serve)`);
    }
    this.#files = { ca };
    this.#tokenFile = tokenFile;
    for (const [name, value] of u.searchParams) {
      if (name === "token_file") this.#tokenFile ??= value;
      else if (name === "ca" || name === "cert" || name === "key") this.#files[name] ??= value;
      else throw new TypeError("the URL of the server has a parameter that is none of token_file, ca, cert and key");
    }
    for (const [name, file] of Object.entries(this.#files)) {
      if (file && !this.#secure) throw new TypeError(`${name} is for https`);
    }
    this.#token = token ?? (this.#tokenFile ? undefined : process.env.HOLDFAST_SERVER_TOKEN);
    this.#credentials(); // fails now if a file cannot be read
  }

  #credentials() {
    const token = (this.#token ?? (this.#tokenFile ? readFileSync(this.#tokenFile, "utf8") : "")).trim();
    if (/[^\x21-\x7e]/.test(token)) throw new TypeError("the token has a character that no token has");
    const tls = {};
    for (const [name, file] of Object.entries(this.#files)) if (file) tls[name] = readFileSync(file);
    return { token, tls };
  }

  // ask sends a request about one hold, and returns what the answer says of it, with a kind: ok,
  // that of a refusal, or unknown. fresh asks on a new connection, because an old one may be dead.
  // With idle, the request does not keep the process alive.
  async ask(path, body, ms, { signal, fresh, idle } = {}) {
    let response;
    try {
      const { token, tls } = this.#credentials();
      const text = JSON.stringify(body);
      const headers = { "Content-Type": "application/json", "Content-Length": Buffer.byteLength(text), "Holdfast-Timeout-Ms": Math.ceil(ms) };
      if (token) headers.Authorization = `Bearer ${token}`;
      const agent = fresh ? false : agents[this.#secure ? "https" : "http"];
      response = await exchange(this.#secure ? https : http,
        { ...this.#target, ...tls, agent, method: "POST", path: this.#path + path, headers, signal }, text, ms, idle);
    } catch (e) { // none, or half of one
      return { kind: e.untrusted ? "untrusted" : "unknown", detail: e.message };
    }
    const answer = understand(response, (body.holds?.[0] ?? body).holdId, path === "/v1/acquire");
    if (!answer) return { kind: "unknown", detail: `status ${response.status}, not by holdfast serve` };
    if (answer.kind === "ok") {
      const key = this.name + this.#path, store = response.headers["holdfast-store"];
      if (!stores.has(key)) stores.set(key, store);
      if (stores.get(key) !== store) {
        return { kind: "unusable", detail: `${this.name} has answered for two stores: locks in one exclude nobody from the other. If the store was replaced on purpose, restart this program` };
      }
    }
    return answer;
  }
}

function exchange({ request: send }, options, text, ms, idle) {
  return new Promise((resolve, reject) => {
    const request = send(options, (response) => {
      const parts = [];
      let size = 0;
      response.on("data", (part) => {
        parts.push(part);
        size += part.length;
        if (size > largest) request.destroy(new Error(`an answer of more than ${largest} bytes`));
      });
      response.on("end", () => resolve({ status: response.statusCode, headers: response.headers, text: Buffer.concat(parts).toString() }));
      response.on("error", reject); // also if only half of it has come
    });
    const timer = setTimeout(() => request.destroy(new Error(`no answer within ${Math.round(ms)} ms`)), ms);
    if (idle) {
      timer.unref();
      request.on("socket", (socket) => socket.unref());
    }
    request.on("error", (e) => {
      e.untrusted = Boolean(e.code) && e.code === request.socket?.authorizationError;
      reject(e);
    });
    request.on("close", () => {
      clearTimeout(timer);
      reject(new Error("the connection ended without an answer"));
    });
    request.end(text);
  });
}

// understand returns undefined unless the response is a complete answer of a server about this hold.
function understand({ status, headers, text }, holdId, acquire) {
  let body;
  try {
    body = JSON.parse(text);
  } catch {
    return undefined;
  }
  const media = headers["content-type"];
  if (!/^[0-9a-f]{24}$/.test(headers["holdfast-store"] ?? "") || typeof body !== "object" || body === null) return undefined;
  if (status === 200 && media === "application/json") {
    if (!acquire && !(Array.isArray(body.results) && body.results.length === 1)) return undefined;
    const result = acquire ? body : body.results[0];
    if (result?.holdId !== holdId || !(acquire ? isWhole(result.token, 0) : typeof result.outcome === "string")) return undefined;
    if (result.safeForMs !== undefined && !isWhole(result.safeForMs, -1)) return undefined;
    return { ...result, kind: "ok" };
  }
  const [, kind] = /^urn:holdfast:([a-z-]+)$/.exec(body.type) ?? [];
  if (media !== "application/problem+json" || body.status !== status || !kinds.has(kind) || typeof body.detail !== "string") return undefined;
  if (kind === "held" && !(Array.isArray(body.holders) && (body.holdId ?? holdId) === holdId)) return undefined;
  return { ...body, kind: kind === "busy" && headers["www-authenticate"] ? "unauthenticated" : kind, retryAfter: Number(headers["retry-after"]) * 1000 || 0 };
}

const isWhole = (n, least) => Number.isSafeInteger(n) && n >= least;
