"""The process under test in `test_stdio.py`: a bridge whose server is a stand-in in memory.

It prints wherever code that is not ours could: before anything is imported, in an import, in a
call, and from a child process. Run with the working copy and `tests` on the path.
"""

print("printed before the claim 🦊".encode("ascii", "replace").decode())

from mcp_bridge.protocol_pipes import claim_stdio  # noqa: E402

pipes = claim_stdio()
print("printed after the claim, before the imports")

import asyncio  # noqa: E402
import dataclasses  # noqa: E402
import io  # noqa: E402
import subprocess  # noqa: E402
import sys  # noqa: E402
import threading  # noqa: E402
import warnings  # noqa: E402
from collections.abc import Mapping  # noqa: E402
from typing import Any  # noqa: E402

from mcp_bridge.forwarding import Forwarder  # noqa: E402
from mcp_bridge.stdio import serve_stdio  # noqa: E402
from mcp_bridge.tools import CallContext  # noqa: E402
from surface.mcp.stand_in import Calls, specs  # noqa: E402

calls = Calls()
input_ended = threading.Event()


class Watched(io.BufferedReader):
    """The protocol's input, which tells when it has ended."""

    def readline(self, size: int | None = -1, /) -> bytes:
        line = super().readline(size)
        if not line:
            input_ended.set()
        return line


class InProcess:
    """The HTTP client's part, without HTTP."""

    async def call(
        self,
        session: str,
        verb: str,
        arguments: Mapping[str, Any],
        *,
        agent_id: str | None = None,
        idempotency_key: str | None = None,
    ) -> Mapping[str, Any]:
        print("printed in a call 🦊")
        sys.stdout.write("written without a line end")
        warnings.warn("warned in a call", stacklevel=1)
        if arguments.get("query") == "child":
            subprocess.run(["echo", "printed by a child"], check=True)  # noqa: ASYNC221  # brief
        if arguments.get("query") == "slow":
            await asyncio.to_thread(input_ended.wait, 30)
        context = CallContext(session=session, agent_id=agent_id, idempotency_key=idempotency_key)
        reply = await calls(verb, dict(arguments), context)
        if verb == "stats":
            reply.structured["agent"] = agent_id
            reply.structured["key"] = idempotency_key
        return dataclasses.asdict(reply)

    async def aclose(self) -> None:
        pass


def find_server() -> str:
    print("printed while looking for the server")
    if "--unreachable" in sys.argv:
        raise OSError("nothing there")
    return "http://127.0.0.1:1"


forwarder = Forwarder(find_server, lambda url: InProcess())
agent = sys.argv[sys.argv.index("--agent") + 1] if "--agent" in sys.argv else None
assert isinstance(pipes.reader, io.BufferedReader)
watched = dataclasses.replace(pipes, reader=Watched(pipes.reader.raw))
asyncio.run(serve_stdio(forwarder, specs(), "shop", agent, watched))
print("printed at the end")
