"""Makes two calls with the Python SDK, and tells what becomes of them while the server is away.

    python3 restart.py URL sessions|stateless

Each line of output is a JSON object: {"revision"} once connected, {"progress"} for each number that the call of count
comes to, and {"call", "text" or "error"} for the outcome of each. After a line of input, which says that the server is
back, come the outcomes of later calls, {"logs"} for what was heard on the session's own stream, and {"done": true}.
`at` is in seconds since the program began. Everything is as the SDK has it by default: nothing here sets a timeout,
retries, or looks after a connection.
"""

import asyncio
import json
import sys
import time
from contextlib import asynccontextmanager

import mcp
from mcp.client.streamable_http import streamable_http_client

try:
    from mcp import Client  # from 2.0 on
except ImportError:
    Client = None

TOO_LONG = 60  # seconds after which a call that neither returns nor fails is given up, as release 1.x leaves it waiting

began = time.monotonic()


def tell(**what):
    print(json.dumps({**what, "at": round(time.monotonic() - began, 2)}), flush=True)


def reason(e):
    """The errors at the bottom of an exception, as task groups wrap them."""
    if isinstance(e, BaseExceptionGroup):
        return "; ".join(reason(inner) for inner in e.exceptions)
    return f"{type(e).__name__}: {e}"


@asynccontextmanager
async def connected(url, stateless, heard):
    """Yields a session or client, and the revision that was agreed upon."""
    async def log(params):
        heard.append((params.logger, params.data))

    if Client is None:
        async with (
            streamable_http_client(url) as (read, write, _),
            mcp.ClientSession(read, write, logging_callback=log) as session,
        ):
            yield session, (await session.initialize()).protocolVersion
        return
    async with Client(url, mode="auto" if stateless else "legacy", logging_callback=log) as client:
        yield client, client.protocol_version


async def main(url, era):
    heard = []
    async with connected(url, era == "stateless", heard) as (client, revision):
        tell(revision=revision)
        # Release 2.0 asks for the tools after a call, for the schema of its result, unless it has them: a server that ends
        # answers a new request of this era with 503.
        await client.list_tools()

        async def progressed(progress, total, message):
            tell(progress=progress)

        async def call(name, arguments, **options):
            try:
                result = await asyncio.wait_for(client.call_tool(name, arguments, **options), TOO_LONG)
            except Exception as e:
                tell(call=name, error=reason(e))
            else:
                tell(call=name, text=" ".join(c.text for c in result.content))

        async with asyncio.TaskGroup() as both:
            both.create_task(call("count", {"to": 12, "delay_ms": 1000}, progress_callback=progressed))
            both.create_task(call("sleep", {"ms": 10_000}))
        await asyncio.to_thread(sys.stdin.readline)
        await call("echo", {"text": "still here"})
        if era == "sessions":
            await call("tick", {"n": 2})
            for _ in range(200):  # what comes on another stream than the result may come after it
                if ("tick", "2 of 2") in heard:
                    break
                await asyncio.sleep(0.05)
            tell(logs=[data for logger, data in heard if logger == "tick"])
    tell(done=True)


asyncio.run(main(*sys.argv[1:]))
