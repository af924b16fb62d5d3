"""The Python SDK as a client of `ringback mcp`: sdk_client.py PROGRAM; prints one line per mode, or raises."""

import asyncio
import os
import sys

from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client


async def check(program: str, mode: str) -> str:
    server = StdioServerParameters(command=program, args=["mcp"], env=dict(os.environ))
    async with Client(stdio_client(server), mode=mode) as client:
        tools = await client.list_tools()
        assert [tool.name for tool in tools.tools] == ["run", "wait", "output", "list", "stop", "send", "inbox"]
        begun = await client.call_tool("run", {"command": "sleep 1; echo hi; exit 3", "wait_ms": 0})
        waited = await client.call_tool("wait", {"ids": [begun.structured_content["id"]]})
        assert waited.structured_content["verdict"].startswith("FAILED exit 3"), waited
        assert waited.structured_content["tail"] == "| hi", waited
        wrong = await client.call_tool("run", {"comand": "true"})
        assert wrong.is_error and "comand" in wrong.content[0].text, wrong
        return f"{mode}: {client.protocol_version}"


async def main() -> None:
    for mode in ("auto", "legacy", "2026-07-28"):
        print(await check(sys.argv[1], mode))


asyncio.run(main())
