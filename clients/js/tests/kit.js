// What the tests share: a real server, a relay before it, and programs that hold a lock.
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import http from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as pause } from "node:timers/promises";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("../../..", import.meta.url));
const built = process.env.HOLDFAST_BIN ? undefined : mkdtempSync(join(tmpdir(), "holdfast-js-"));

export const holdfast = process.env.HOLDFAST_BIN ?? join(built, "holdfast");
if (built) {
  execFileSync("go", ["build", "-o", holdfast, "."], { cwd: join(root, "cmd/holdfast"), env: { ...process.env, GOWORK: "off" }, stdio: "inherit" });
  process.on("exit", () => rmSync(built, { recursive: true }));
}
delete process.env.HOLDFAST_SERVER_TOKEN;
process.env.NODE_NO_WARNINGS = "1"; // of the programs that are started

export const patience = 60_000;

export async function until(what, done) {
  for (const start = performance.now(); !(await done()); await pause(10)) {
    if (performance.now() - start > patience) throw new Error(`not ${what} after ${patience} ms`);
  }
}

export function folder(t) {
  const dir = mkdtempSync(join(tmpdir(), "holdfast-js-"));
  t.after(() => rmSync(dir, { recursive: true, force: true }));
  return dir;
}

// serve starts a server for a store in a file. A second one with the same options serves the same
// store at the same address.
export async function serve(t, options = {}) {
  const dir = options.dir ?? folder(t);
  const { scheme = "http", port = 0, args = [], store = join(dir, "locks.db") } = options;
  const socket = join(dir, "socket");
  const child = spawn(holdfast, ["serve", "--store", `sqlite:${store}`, "--listen", `127.0.0.1:${port}`, "--unix", socket, ...args],
    { stdio: ["ignore", "ignore", "pipe"] });
  const ended = once(child, "exit");
  t.after(async () => {
    child.kill("SIGKILL");
    await ended;
  });
  let printed = "", url;
  for await (const line of createInterface(child.stderr)) {
    printed += `${line}\n`;
    url ??= line.match(`listening on (${scheme}://\\S+?),? `)?.[1];
    if (line === "holdfast: ready") break;
  }
  if (!url) throw new Error(`the server does not run:\n${printed}`);
  child.stderr.resume();
  const server = { dir, url, socket: `unix://${socket}`, child, port: new URL(url).port };
  server.end = async (signal) => {
    child.kill(signal);
    await ended;
  };
  server.again = () => serve(t, { ...options, dir, store, port: server.port });
  server.ask = (path, body) => ask(socket, path, body);
  server.holds = async (resource) => (await server.ask(`/v1/holds?resource=${resource}`)).holds;
  server.waiters = async (resource) => (await server.ask(`/v1/waiters?resource=${resource}`)).waiters;
  server.force = async (resource) => {
    const [{ holdId, token }] = await server.holds(resource);
    return server.ask("/v1/force-release", { resource, holdId, token, reason: "a test" });
  };
  return server;
}

async function ask(socketPath, path, body) {
  const request = http.request({ socketPath, path, agent: false, method: body ? "POST" : "GET", headers: { Host: "localhost", "Content-Type": "application/json" } });
  request.end(body && JSON.stringify(body));
  const [response] = await once(request, "response");
  const answer = JSON.parse(await textOf(response));
  if (response.statusCode !== 200) throw new Error(`${path}: ${answer.detail}`);
  return answer;
}

async function textOf(stream) {
  let text = "";
  for await (const part of stream.setEncoding("utf8")) text += part;
  return text;
}

// relay passes each request on, and notes it. Before the answer is sent, change may send another
// one and return true.
export async function relay(t, target, change = () => false) {
  const asked = [];
  const front = http.createServer(async (request, response) => {
    try {
      const text = await textOf(request);
      const call = { path: request.url, at: performance.now(), body: JSON.parse(text), number: asked.filter((c) => c.path === request.url).length };
      asked.push(call);
      const server = typeof target === "function" ? target(call) : target;
      const onward = http.request(server.url + request.url, { method: "POST", agent: false, headers: { "Content-Type": "application/json" } });
      response.on("close", () => onward.destroy());
      onward.on("error", () => response.destroy());
      onward.end(text);
      const [answer] = await once(onward, "response");
      const body = await textOf(answer);
      if (await change(call, response, body, answer)) return;
      response.writeHead(answer.statusCode, { "Content-Type": answer.headers["content-type"], "Holdfast-Store": answer.headers["holdfast-store"] });
      response.end(body);
    } catch {
      response.destroy();
    }
  });
  front.listen(0, "127.0.0.1");
  await once(front, "listening");
  t.after(() => {
    front.close();
    front.closeAllConnections();
  });
  return { url: `http://127.0.0.1:${front.address().port}`, asked, of: (path) => asked.filter((call) => call.path === path) };
}

// program starts tests/holder.js. What it has printed is in lines.
export async function program(t, url, ...args) {
  const child = spawn(process.execPath, [fileURLToPath(new URL("holder.js", import.meta.url)), ...args],
    { env: { ...process.env, HOLDFAST_STORE: url }, stdio: ["pipe", "pipe", "inherit"] });
  const lines = [], ended = once(child, "exit");
  createInterface(child.stdout).on("line", (line) => lines.push(line));
  child.stdin.on("error", () => {}); // it has ended
  t.after(async () => {
    child.kill("SIGKILL");
    await ended;
  });
  return {
    lines, child, ended,
    tell: (line) => child.stdin.write(`${line}\n`),
    printed: (line) => until(`printed: ${line}`, () => lines.includes(line)),
  };
}
