"""One load of a session in a process of its own, step by step; `open_session` runs it.

The job comes as JSON on standard input, and the data folder by `LAMBO_DATA_DIR`.
"""

from __future__ import annotations

import json
import sqlite3
import sys
from pathlib import Path
from time import perf_counter
from typing import Any


def read_plainly(path: Path, session_id: str) -> tuple[float, int]:
    """Seconds that plain sqlite3 needs for the same rows as tuples, and how many they are."""
    connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)
    try:
        start = perf_counter()
        rows = 0
        for table in ("lambo_interaction", "lambo_concept", "lambo_edge"):
            query = f"SELECT * FROM {table} WHERE session_id = ?"
            rows += len(connection.execute(query, [session_id]).fetchall())
        return perf_counter() - start, rows
    finally:
        connection.close()


def load(session_id: str) -> dict[str, Any]:
    """Seconds of each step of opening a session."""
    import django
    from django.conf import settings

    django.setup(set_prefix=False)
    from memory.engine.collection import collection_paused
    from memory.engine.inverted_index import InvertedIndex
    from memory.engine.snapshot import load_snapshot
    from memory.store.django_store import DjangoStore

    plain_seconds, rows = read_plainly(settings.PROCESS.data_dir / "lambo.sqlite3", session_id)
    store = DjangoStore()
    store.find_session(session_id)  # the first query of a process opens its connection
    start = perf_counter()
    loaded = store.load_session(session_id)
    assert loaded is not None
    read_at = perf_counter()
    graph = load_snapshot(loaded.snapshot)
    built_at = perf_counter()
    with collection_paused():  # as inside `load_snapshot`, where this is done too
        documents = [key.split() for key in graph.concepts.keys]
        InvertedIndex().bulk_load(range(len(documents)), documents)
        index_seconds = perf_counter() - built_at
    return {
        "plain_s": plain_seconds,
        "rows": rows,
        "concepts": graph.concept_count,
        "edges": graph.edge_count,
        "read_s": read_at - start,
        "graph_s": built_at - read_at - index_seconds,
        "index_s": index_seconds,
        "total_s": built_at - start,
    }


def main() -> None:
    print(json.dumps(load(json.load(sys.stdin)["session_id"])))


if __name__ == "__main__":
    main()
