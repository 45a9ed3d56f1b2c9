// Drives an ACP agent with the official Node library and prints one line of JSON about what it saw.
//
//   node acp_node.mjs --peers DIR --cwd DIR --prompt TEXT --permission allow|reject|cancel \
//       [--cancel-when FILE] [--fs FILE] -- COMMAND [ARG...]
//
// With --cancel-when the prompt is cancelled as soon as FILE exists; FILE holds the id of the process that must be
// gone afterwards, while the agent still runs. With --fs the client holds the texts that FILE has by path, as an editor
// holds what is not saved, and prints what became of them. Any answer of the agent that does not fit the library's schemas fails.
import { spawn } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { Readable, Writable } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import { pathToFileURL } from "node:url";
import { parseArgs } from "node:util";

const { values: options, positionals: command } = parseArgs({
  allowPositionals: true,
  options: {
    peers: { type: "string" },
    cwd: { type: "string" },
    prompt: { type: "string" },
    permission: { type: "string" },
    "cancel-when": { type: "string" },
    fs: { type: "string" },
  },
});
const require = createRequire(join(options.peers, "node", "package.json"));
const entry = require.resolve("@agentclientprotocol/sdk");
const acp = await import(pathToFileURL(entry).href);
// The library's package.json is not among its exports.
const packageRoot = entry.slice(0, entry.lastIndexOf("sdk") + 3);
const version = JSON.parse(readFileSync(join(packageRoot, "package.json"), "utf8")).version;

function alive(pid) {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

async function until(what, condition, milliseconds) {
  for (const end = Date.now() + milliseconds; !condition(); await sleep(20)) {
    if (Date.now() > end) throw new Error(`timed out: ${what}`);
  }
}

const agent = spawn(command[0], command.slice(1), { cwd: options.cwd, stdio: ["pipe", "pipe", "inherit"] });
const exited = new Promise((resolve) => agent.on("exit", (code, signal) => resolve({ code, signal })));
const updates = [];
const permissions = [];

function answer(params) {
  permissions.push(params);
  if (options.permission === "cancel") return { outcome: { outcome: "cancelled" } };
  const wanted = options.permission === "allow" ? "allow_once" : "reject_once";
  const option = params.options.find((each) => each.kind === wanted);
  if (!option) throw new Error(`no ${wanted} among ${JSON.stringify(params.options)}`);
  return { outcome: { outcome: "selected", optionId: option.optionId } };
}

const texts = options.fs ? JSON.parse(readFileSync(options.fs, "utf8")) : null;
const files = [];

function read({ path }) {
  files.push(`read ${path}`);
  if (!(path in texts)) throw acp.RequestError.resourceNotFound(path);
  return { content: texts[path] };
}

function write({ path, content }) {
  files.push(`write ${path}`);
  texts[path] = content;
  return {};
}

const stream = acp.ndJsonStream(Writable.toWeb(agent.stdin), Readable.toWeb(agent.stdout));
const client = acp.client({ name: "longshore-tests" });
if (texts) {
  client
    .onRequest(acp.methods.client.fs.readTextFile, ({ params }) => read(params))
    .onRequest(acp.methods.client.fs.writeTextFile, ({ params }) => write(params));
}
const result = await client
  .onNotification(acp.methods.client.session.update, ({ params }) => {
    updates.push(params.update);
  })
  .onRequest(acp.methods.client.session.requestPermission, ({ params }) => answer(params))
  .connectWith(stream, async (context) => {
    const initialized = await context.request(acp.methods.agent.initialize, {
      protocolVersion: acp.PROTOCOL_VERSION,
      clientInfo: { name: "longshore-tests", version: "1" },
      clientCapabilities: texts ? { fs: { readTextFile: true, writeTextFile: true } } : {},
    });
    const session = await context.request(acp.methods.agent.session.new, { cwd: options.cwd, mcpServers: [] });
    const prompt = context.request(acp.methods.agent.session.prompt, {
      sessionId: session.sessionId,
      prompt: [{ type: "text", text: options.prompt }],
    });
    let cancelMs = null;
    let processGone = null;
    const marker = options["cancel-when"];
    if (marker) {
      await until("the tool to start", () => existsSync(marker), 60_000);
      const asked = Date.now();
      await context.notify(acp.methods.agent.session.cancel, { sessionId: session.sessionId });
      await prompt;
      cancelMs = Date.now() - asked;
      const pid = Number(readFileSync(marker, "utf8"));
      await until("the tool's process to be gone", () => !alive(pid), 10_000);
      processGone = true;
    }
    const { stopReason } = await prompt;
    return { initialized, session, stopReason, cancelMs, processGone };
  });
agent.stdin.end();
const exit = await exited;
console.log(JSON.stringify({ peer: "acp-node", version, ...result, updates, permissions, texts, files, exit }));
