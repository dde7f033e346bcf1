"""What the same web server does with an application that does nothing: `write_rate`'s baseline.

It reads the body as JSON and answers JSON of the size of a derive's reply. Run as a process of its
own; prints the port it listens on.
"""

from __future__ import annotations

import json
import socket
from typing import Any

import uvicorn

REPLY = {
    "summary": "derived 1 concept(s): 1 created, 0 matched existing",
    "interaction_id": "00000000-0000-4000-8000-000000000000",
    "created": ["00000000-0000-4000-8000-000000000001"],
    "matched": [],
    "reinforced": 0,
    "warnings": [],
}


async def application(scope: Any, receive: Any, send: Any) -> None:
    """Answer every request."""
    body, more = b"", True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    json.loads(body)
    content = json.dumps(REPLY).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(content)).encode()),
    ]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": content})


def main() -> None:
    # TCP by name, as the product does: only then does asyncio turn Nagle's algorithm off.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    print(listener.getsockname()[1], flush=True)
    config = uvicorn.Config(
        application, lifespan="off", access_log=False, log_level="warning", ws="none"
    )
    uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    main()
