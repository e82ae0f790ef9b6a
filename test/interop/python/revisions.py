"""Has the Python SDK settle the revision with a server that speaks only some.

    python3 revisions.py REVISIONS URL MODE...

Each line of output is a JSON object: {"spoken", "transport", "mode", "revision" and "text", or "error"} for each mode of the client, where
"" leaves it to the SDK, and {"done": true}. "text" is what a tool has answered with.
"""

import asyncio
import json
import sys

import mcp
from mcp.client.streamable_http import streamable_http_client

try:
    from mcp import Client  # from 2.0 on
except ImportError:
    Client = None


async def settle(url, mode):
    """The revision that is agreed upon, and what a tool answers with."""
    hello = {"text": "hello"}
    if Client is None:
        async with streamable_http_client(url) as (read, write, _), mcp.ClientSession(read, write) as session:
            revision = (await session.initialize()).protocolVersion
            return revision, await session.call_tool("echo", hello)
    async with Client(url, **({"mode": mode} if mode else {})) as client:
        return client.protocol_version, await client.call_tool("echo", hello)


async def main(spoken, url, *modes):
    for mode in modes:
        outcome = {"spoken": spoken, "transport": "http", "mode": mode}
        try:
            revision, result = await asyncio.wait_for(settle(url, mode), 30)
            outcome |= {"revision": revision, "text": result.content[0].text}
        except Exception as e:
            while isinstance(e, BaseExceptionGroup):
                e = e.exceptions[0]
            outcome["error"] = f"{type(e).__name__}: {e}"
        print(json.dumps(outcome), flush=True)
    print(json.dumps({"done": True}))


asyncio.run(main(*sys.argv[1:]))
