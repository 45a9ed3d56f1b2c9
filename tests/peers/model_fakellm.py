"""Serves one scripted turn over Chat Completions with fakellm: a Read call, then the answer.

    python model_fakellm.py FOLDER      (prints {"url", "version"}, ends when stdin does; FOLDER: for its rules)
"""

import importlib.metadata
import json
import os
import pathlib
import socket
import sys
import threading

RULES = """
version: 1
rules:
  - name: read_the_note
    when: {turn: 1, messages_contain: "What does note.txt say?", tools_include: Read}
    respond: {tool_calls: [{name: Read, arguments: {path: note.txt}}]}
  - name: answer
    when: {turn: 2, tool_result_contains: "the tide turns at noon"}
    respond: {content: "It says that the tide turns at noon. Wörter wie Füße und 潮 bleiben ganz."}
  - name: anything_else
    respond: {status: 400, error: "no rule for this request"}
"""

rules = pathlib.Path(sys.argv[1]) / "fakellm.yaml"
rules.write_text(RULES, encoding="utf-8")
# It reads its rules when it is imported.
os.environ["FAKELLM_CONFIG"] = str(rules)
import uvicorn  # noqa: E402
from fakellm.server import app  # noqa: E402

listener = socket.socket()
listener.bind(("127.0.0.1", 0))
port = listener.getsockname()[1]
server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))


def until_stdin_ends():
    sys.stdin.read()
    server.should_exit = True


threading.Thread(target=until_stdin_ends, daemon=True).start()
print(json.dumps({"url": f"http://127.0.0.1:{port}/v1", "version": importlib.metadata.version("fakellm")}), flush=True)
server.run(sockets=[listener])
