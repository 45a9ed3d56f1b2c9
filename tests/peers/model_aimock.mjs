// Serves one scripted turn over Chat Completions with aimock: reasoning and a Read call, then the answer.
//
//   node model_aimock.mjs DIR      (DIR: where the peers are; prints {"url", "version"}, ends when stdin does)
//
// The answer is given only to a request whose last message is that call's result with the file's text in it.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const root = join(process.argv[2], "node", "node_modules", "@copilotkit", "aimock");
const require = createRequire(join(process.argv[2], "node", "package.json"));
const { LLMock } = await import(pathToFileURL(require.resolve("@copilotkit/aimock")).href);
const { version } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));

const mock = new LLMock({ port: 0, chunkSize: 7 });
mock.addFixture({
  match: { userMessage: "What does note.txt say?", hasToolResult: false, systemMessage: "note.txt" },
  response: {
    reasoning: "The file will tell.",
    content: "I read the note.",
    toolCalls: [{ id: "call_note", name: "Read", arguments: JSON.stringify({ path: "note.txt" }) }],
    usage: { prompt_tokens: 100, completion_tokens: 20, total_tokens: 120 },
  },
});
mock.addFixture({
  match: { toolCallId: "call_note", toolResultContains: "the tide turns at noon" },
  response: {
    content: "It says that the tide turns at noon. Wörter wie Füße und 潮 bleiben ganz.",
    usage: { prompt_tokens: 150, completion_tokens: 30, total_tokens: 180 },
  },
});
await mock.start();
console.log(JSON.stringify({ url: `${mock.url}/v1`, version }));
process.stdin.on("end", () => mock.stop().then(() => process.exit(0))).resume();
