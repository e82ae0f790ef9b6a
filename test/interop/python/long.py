"""Makes long calls with the Python SDK, each of a client of its own, whose server comes to harm.

    python3 long.py '{"calls": [{"name", "http": URL, "revision", "tasks": true, "to": 60}]}'

Each client calls a tool that counts, one number a second. A call without a session is sent again when it has failed, by a new client if that has ended.
Each line of output is a JSON object with the client's name: {"attempt"} when the call is sent for the n-th time, with "progress" for
each number, "task" for the id of the task that it has become, and "text" or "error" for its outcome; {"after"}, which a short
call is answered with in the end; {"fault"} for what ends the client; and {"done": true}. Nothing is set: no timeout, no retries.
"""

import asyncio
import json
import sys
from contextlib import asynccontextmanager
from typing import Any, Literal

import mcp
import mcp.client.session
from mcp.client.streamable_http import streamable_http_client

try:
    from mcp import Client  # from 2.0 on
    from mcp.client import ClientExtension
    from mcp.client.extension import ResultClaim
    from mcp.types import CallToolResult, Request, RequestParams, Result
except ImportError:
    Client = None

STATELESS = "2026-07-28"
connecting = asyncio.Lock()


def tell(**what):
    print(json.dumps(what), flush=True)


def reason(e):
    """The errors at the bottom of an exception, as task groups wrap them."""
    if isinstance(e, BaseExceptionGroup):
        return "; ".join(reason(inner) for inner in e.exceptions)
    return f"{type(e).__name__}: {e}"


if Client is not None:
    class Made(Result):
        result_type: Literal["task"] = "task"
        task_id: str

    class GetParams(RequestParams):
        task_id: str

    class Get(Request[GetParams, Literal["tasks/get"]]):
        name_param = "taskId"
        method: Literal["tasks/get"] = "tasks/get"
        params: GetParams

    class Got(Result):
        status: str
        result: dict[str, Any] | None = None

    class Tasks(ClientExtension):
        """The extension of tasks, which the SDK leaves to its user."""

        identifier = "io.modelcontextprotocol/tasks"

        def __init__(self, call):
            self.call = call

        def claims(self):
            return [ResultClaim(result_type="task", model=Made, resolve=self.follow)]

        async def follow(self, made, context):
            tell(name=self.call["name"], attempt=self.call["attempt"], task=made.task_id)
            while True:
                try:
                    got = await context.session.send_request(Get(params=GetParams(task_id=made.task_id)), Got)
                except mcp.MCPError:  # the node that was asked has ended: another one is asked
                    got = None
                if got and got.status == "completed":
                    return CallToolResult.model_validate(got.result)
                if got and got.status != "working":
                    raise RuntimeError(f"the task is {got.status}")
                await asyncio.sleep(1)


@asynccontextmanager
async def connected(call):
    """Yields a client that speaks the revision, and the one that was agreed upon. Each SDK asks for its latest."""
    url, revision = call["http"], call["revision"]
    if Client is not None:
        # The lock is held until the client is connected: what the SDK asks for is the same for all.
        await connecting.acquire()
        try:
            if revision != STATELESS:
                mcp.client.session.LATEST_HANDSHAKE_VERSION = revision
            extensions = [Tasks(call)] if call["tasks"] else None
            client = Client(url, mode="auto" if revision == STATELESS else "legacy", extensions=extensions)
            await client.__aenter__()
        finally:
            connecting.release()
        try:
            yield client, client.protocol_version
        finally:
            await client.__aexit__(None, None, None)
        return
    async with streamable_http_client(url) as (read, write, _), mcp.ClientSession(read, write) as session:
        async with connecting:
            mcp.types.LATEST_PROTOCOL_VERSION = revision
            agreed = (await session.initialize()).protocolVersion
        yield session, agreed


async def drive(call):
    name, stateless, over = call["name"], call["revision"] == STATELESS, False
    call["attempt"] = 0
    while not over:
        try:
            async with connected(call) as (client, agreed):
                if agreed != call["revision"]:
                    raise RuntimeError(f"the revision is {agreed}")
                while not over:
                    call["attempt"] += 1
                    attempt = call["attempt"]
                    tell(name=name, attempt=attempt)

                    async def progressed(progress, total, message):
                        tell(name=name, attempt=attempt, progress=int(progress))

                    try:
                        result = await client.call_tool("count", {"to": call["to"], "delay_ms": 1000}, progress_callback=progressed)
                        tell(name=name, attempt=attempt, text=result.content[0].text)
                        over = True
                    except Exception as e:
                        tell(name=name, attempt=attempt, error=reason(e))
                        over = not stateless or attempt == 20
                        await asyncio.sleep(1)
                result = await client.call_tool("echo", {"text": "still here"})
                tell(name=name, after=result.content[0].text)
        except Exception as e:
            tell(name=name, fault=reason(e))
            if not stateless or call["attempt"] == 20:
                return
            await asyncio.sleep(1)


async def main(calls):
    await asyncio.gather(*(drive(call) for call in calls))
    tell(done=True)


asyncio.run(main(json.loads(sys.argv[1])["calls"]))
