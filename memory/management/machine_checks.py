"""What a checkup looks at outside the store: settings, folder, disk, server, embedder.

Opens files for reading alone, makes none, and changes no mode. Asks a running server nothing but
its signs of life. Knows nothing of tables.

Invariant: the folder is as it was, also where it was not.
"""

from __future__ import annotations

import os
import shutil
import socket
import stat
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import httpx

from memory.data_folder import DataFolder, Runtime
from memory.embed.registry import build_embedder
from memory.engine.embedding import EmbeddingContract, EmbeddingFailure, check_vector
from memory.management.checkup import Finding, ok, problem, warning
from memory.version import VERSION

DISK_BYTES_PROBLEM: Final = 100 * 2**20
DISK_BYTES_WARNING: Final = 2**30
OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
ANSWER_SECONDS: Final = 5.0
SAMPLE: Final = "the user schema has a column for the tenant"


def check_configuration(process: Any) -> Iterator[Finding]:
    """The settings were read, or nobody could be asked: which they are, and which do nothing."""
    source = process.config_path or "no lambo.toml"
    yield ok("configuration", f"settings are valid ({source}, and variables)")
    for text in process.config.find_warnings():
        yield warning("configuration", text, "remove the setting, or see docs/configuration.md")
    if process.debug:
        yield warning(
            "configuration", "debug is on: pages show source code", "unset LAMBO_DEBUG in use"
        )


def check_folder(folder: DataFolder) -> Iterator[Finding]:
    """Whether the folder is there, writable, and closed to others."""
    path = folder.path
    if not path.exists():
        yield warning(
            "data folder", f"{path} is not there yet", "the first lambo serve makes it, mode 0700"
        )
        return
    if not path.is_dir():
        yield problem("data folder", f"{path} is no folder", "name another one with LAMBO_DATA_DIR")
        return
    if not os.access(path, os.R_OK | os.W_OK | os.X_OK):
        yield problem(
            "data folder",
            f"this user cannot write to {path}",
            f"run as its owner ({path.stat().st_uid}), or chown it",
        )
        return
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & OTHERS:
        yield warning(
            "data folder", f"{path} is open to other users ({mode:04o})", f"chmod 700 {path}"
        )
    else:
        yield ok("data folder", f"{path} is this user's alone and writable")
    secret = (folder.secret_key_path, folder.chain_key_path, folder.runtime_path)
    for file in sorted({*secret, *path.glob("*.sqlite3*"), folder.node_path}):
        if not file.exists():
            continue
        mode = stat.S_IMODE(file.stat().st_mode)
        if mode & OTHERS:
            tell = problem if file in secret else warning
            yield tell(
                "data folder", f"{file.name} is open to others ({mode:04o})", f"chmod 600 {file}"
            )


def check_disk(path: Path) -> Iterator[Finding]:
    """Whether there is room for what will be written."""
    nearest = next(at for at in (path, *path.parents) if at.exists())
    free = shutil.disk_usage(nearest).free
    shown = f"{free / 2**30:.1f} GiB free at {nearest}"
    if free < DISK_BYTES_PROBLEM:
        yield problem("disk", shown, "make room: a full disk stops all writes")
    elif free < DISK_BYTES_WARNING:
        yield warning("disk", shown, "make room soon: a full disk stops all writes")
    else:
        yield ok("disk", shown)


def check_server(process: Any, folder: DataFolder, runtime: Runtime | None) -> Iterator[Finding]:
    """Whether a server runs on the folder, and whether it can acknowledge a write."""
    if runtime is None:
        yield from _check_no_server(process, folder)
        return
    try:
        with httpx.Client(base_url=runtime.url, timeout=ANSWER_SECONDS, trust_env=False) as client:
            health, ready = client.get("/healthz"), client.get("/readyz")
    except httpx.HTTPError as error:
        yield problem(
            "server",
            f"process {runtime.pid} holds the folder and does not answer at {runtime.url} "
            f"({type(error).__name__})",
            "look at its log; restart it if it hangs",
        )
        return
    where = f"process {runtime.pid} at {runtime.url}"
    if health.status_code != 200:
        yield problem("server", f"{where} answers {health.status_code}", "look at its log")
    elif ready.status_code != 200:
        yield problem(
            "server",
            f"{where} is not ready: the store does not answer, or it starts or stops",
            "look at its log and at the store; it heals by itself when the store is back",
        )
    else:
        yield ok("server", f"{where} is ready")
    if runtime.version != VERSION:
        yield warning(
            "server", f"it is version {runtime.version}, this is {VERSION}", "restart the server"
        )


def _check_no_server(process: Any, folder: DataFolder) -> Iterator[Finding]:
    holder = folder.find_holder()
    if holder is not None:
        yield warning(
            "server",
            f"process {holder} holds the folder and has not said where it listens",
            "it starts or stops: look again in some seconds",
        )
        return
    with closing(
        socket.socket(socket.AF_INET6 if ":" in process.bind else socket.AF_INET)
    ) as probe:
        probe.settimeout(1.0)
        host = {"0.0.0.0": "127.0.0.1", "::": "::1", "localhost": "127.0.0.1"}.get(
            process.bind, process.bind
        )
        is_taken = probe.connect_ex((host, process.port)) == 0
    if is_taken:
        yield problem(
            "server",
            f"no server runs on this folder, and port {process.port} is taken by another program",
            "stop that, or name another port with LAMBO_PORT",
        )
    else:
        yield ok("server", "none runs on this folder; what follows was read from its files")


class EmbedderCheck:
    """Whether the embedder can be loaded and gives a vector of its contract."""

    def __init__(self, process: Any) -> None:
        self._process = process
        self.is_loaded = False
        """Whether `contract` is known; None is that of no embedder."""
        self.contract: EmbeddingContract | None = None

    def __call__(self) -> Iterator[Finding]:
        process = self._process
        began_at = time.monotonic()
        embedder = build_embedder(
            process.embedder_kind,
            dim=process.embedder_dim,
            url=process.embedder_url,
            model=process.embedder_model,
            model_path=process.embedder_model_path,
            api_key=process.embedder_api_key,
        )
        self.is_loaded = True
        if embedder is None:
            yield ok("embedder", "none is configured: recall goes by words and by dependency")
            return
        contract = self.contract = embedder.contract
        try:
            seconds = process.config.embed_deadline_seconds
            (given,) = embedder.embed([SAMPLE], deadline_seconds=seconds)
        finally:
            embedder.close()
        is_failed = isinstance(given, EmbeddingFailure)
        result = given if is_failed else check_vector(given, contract.dim)
        if isinstance(result, EmbeddingFailure):
            yield problem(
                "embedder",
                f"{contract.describe()}: {result}",
                "see docs/embedders.md; writes go on without vectors, and get them later",
            )
            return
        took = 1_000 * (time.monotonic() - began_at)
        yield ok("embedder", f"{contract.describe()}; loaded and asked in {took:.0f} ms")
