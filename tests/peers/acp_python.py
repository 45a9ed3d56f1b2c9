"""Drives an ACP agent with the official Python library and prints one line of JSON about what it saw.

    python acp_python.py --cwd DIR --prompt TEXT --permission allow|reject|cancel [--cancel-when FILE] -- COMMAND [ARG...]

With --cancel-when the prompt is cancelled as soon as FILE exists; FILE holds the id of the process that must be gone
afterwards, while the agent still runs. Any answer of the agent that does not fit the library's models fails.
"""

import argparse
import asyncio
import importlib.metadata
import json
import os
import time

import acp


def dump(model):
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)


class Host(acp.Client):
    def __init__(self, permission):
        self.permission = permission
        self.updates = []
        self.permissions = []

    async def session_update(self, session_id, update, **kwargs):
        self.updates.append(dump(update))

    async def request_permission(self, session_id, tool_call, options, **kwargs):
        self.permissions.append({"toolCall": dump(tool_call), "options": [dump(option) for option in options]})
        if self.permission == "cancel":
            return acp.RequestPermissionResponse(outcome={"outcome": "cancelled"})
        wanted = "allow_once" if self.permission == "allow" else "reject_once"
        chosen = next(option.option_id for option in options if option.kind == wanted)
        return acp.RequestPermissionResponse(outcome={"outcome": "selected", "optionId": chosen})


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def until(what, condition, seconds):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(what)
        await asyncio.sleep(0.02)


async def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--cwd", required=True)
    parser.add_argument("--prompt", required=True)
    parser.add_argument("--permission", choices=["allow", "reject", "cancel"], required=True)
    parser.add_argument("--cancel-when")
    parser.add_argument("command", nargs="+")
    given = parser.parse_args()

    host = Host(given.permission)
    seen = {"peer": "acp-python", "version": importlib.metadata.version("agent-client-protocol")}
    # The library keeps the agent's stderr in a pipe that nobody reads, unless it is told otherwise.
    async with acp.spawn_agent_process(
        host,
        *given.command,
        env=dict(os.environ),
        cwd=given.cwd,
        transport_kwargs={"stderr": None},
    ) as (connection, process):
        initialized = await connection.initialize(protocol_version=acp.PROTOCOL_VERSION)
        session = await connection.new_session(cwd=given.cwd, mcp_servers=[])
        prompt = asyncio.ensure_future(
            connection.prompt(session_id=session.session_id, prompt=[acp.text_block(given.prompt)])
        )
        seen |= {"initialized": dump(initialized), "session": dump(session), "cancelMs": None, "processGone": None}
        if given.cancel_when:
            await until("the tool did not start", lambda: os.path.exists(given.cancel_when) or prompt.done(), 60)
            asked = time.monotonic()
            await connection.cancel(session_id=session.session_id)
            await prompt
            seen["cancelMs"] = int((time.monotonic() - asked) * 1000)
            with open(given.cancel_when, encoding="utf-8") as marker:
                pid = int(marker.read())
            await until("the tool's process is still there", lambda: not alive(pid), 10)
            seen["processGone"] = True
        seen["stopReason"] = (await prompt).stop_reason
    seen |= {"updates": host.updates, "permissions": host.permissions, "exit": {"code": process.returncode}}
    print(json.dumps(seen))


asyncio.run(main())
