"""`python -m lambo_site.stored_recall`: one recall from the store of a folder that nobody serves.

The command line runs it in a process of its own, so that Django and the model are read for this
question alone and no server is left behind. Takes the question as one JSON object on stdin and
writes one on stdout: `answer`, `error` (as every surface shows it), or `unable` with the reason
where the store cannot be read so, and a server has to be asked.

Invariant: it holds neither the folder nor a lease, opens the engine's file read-only, and changes
nothing.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import django

django.setup(set_prefix=False)

# Models come after the set-up.
from django.conf import settings  # noqa: E402

from lambo_site.configuration import ProcessSettings  # noqa: E402
from lambo_site.databases import ENGINE_FILE  # noqa: E402
from lambo_site.wiring import read_views  # noqa: E402
from memory.argument_reading import parse_arguments  # noqa: E402
from memory.engine.config import Durability  # noqa: E402
from memory.engine.errors import LamboError, StoreUnavailable  # noqa: E402
from memory.engine.ports import StoreRejected  # noqa: E402
from memory.engine.requests import Caller  # noqa: E402
from memory.engine.rights import LOCAL  # noqa: E402
from memory.schemas import RecallArguments  # noqa: E402


def main() -> None:
    """Answer what stands on stdin."""
    json.dump(answer(json.load(sys.stdin), settings.PROCESS), sys.stdout)


def answer(asked: dict[str, Any], process: ProcessSettings) -> dict[str, Any]:
    """The object to write for a question: `session`, `agent_id` and the verb's `arguments`."""
    if process.requires_tokens:
        return {"unable": "callers show tokens here"}
    if process.config.durability is Durability.MEMORY:
        return {"unable": "nothing is stored"}
    if not (process.data_dir / ENGINE_FILE).exists():
        return {"unable": "nothing was stored yet"}
    try:
        return {"answer": asyncio.run(_recall(asked, process))}
    except (StoreUnavailable, StoreRejected) as error:
        return {"unable": str(error)}
    except LamboError as error:
        return {"error": error.as_wire()}


async def _recall(asked: dict[str, Any], process: ProcessSettings) -> dict[str, Any]:
    request = parse_arguments(RecallArguments, asked["arguments"]).to_request()
    caller = Caller(asked["agent_id"])
    async with read_views(process) as views:
        own = await views.find(asked["session"])
        reply = await views.recall(own, request, caller, LOCAL)
    return {"text": reply.text, "structured": reply.structured}


if __name__ == "__main__":
    main()
