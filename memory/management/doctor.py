"""What `lambo doctor` looks at, in order, and what it leaves out where there is no ground for it.

Works beside a running server and without one. Settings that cannot be read are a finding like
others. Looks at nothing itself: `machine_checks` and `store_checks` do.

Invariant: nothing is written, anywhere, and no folder is made.
"""

from __future__ import annotations

import json
import sys
import uuid
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from django.core.management import execute_from_command_line
from django.utils.module_loading import import_string

from memory.data_folder import DataFolder, DataFolderUnusable, Runtime
from memory.engine.config import Durability
from memory.engine.errors import InvalidConfiguration
from memory.management.checkup import Check, Finding, Report, ok, problem, run_checks, warning
from memory.management.machine_checks import (
    EmbedderCheck,
    check_configuration,
    check_disk,
    check_folder,
    check_server,
)
from memory.system import SystemClock

LOAD_SETTINGS: Final = "lambo_site.configuration.load_process_settings"


def main(words: Sequence[str], environ: Mapping[str, str]) -> int:
    """The command from its own door: settings are read before Django asks for them."""
    if not {"-h", "--help"} & set(words):
        try:
            import_string(LOAD_SETTINGS)(environ, folder=Path.cwd())
        except InvalidConfiguration as error:
            advice = "see docs/configuration.md; nothing else was looked at"
            report = Report([problem("configuration", error.message, advice)])
            print_report(report, as_json="--json" in words)
            return report.exit_code
    execute_from_command_line(["lambo", "doctor", *words])
    return 0


def print_report(report: Report, *, as_json: bool) -> None:
    """The report on stdout, as one JSON object or as text."""
    print(json.dumps(report.as_wire(), indent=2) if as_json else report.text)
    sys.stdout.flush()


def check_up(process: Any) -> Report:
    """Look at everything that concerns a server with these settings."""
    folder = DataFolder(process.data_dir)
    runtime, trouble = _find_runtime(folder)
    embedder = EmbedderCheck(process)
    checks: list[tuple[str, Check]] = [
        ("configuration", partial(check_configuration, process)),
        ("data folder", partial(check_folder, folder)),
        ("disk", partial(check_disk, folder.path)),
        ("server", partial(check_server, process, folder, runtime)),
        ("embedder", embedder),
    ]
    findings = [*trouble, *run_checks(checks)]
    if process.config.durability is Durability.MEMORY:
        return Report([*findings, ok("store", "sessions are kept in memory only: none to look at")])
    return Report([*findings, *_check_store(process, folder, runtime, embedder)])


def _find_runtime(folder: DataFolder) -> tuple[Runtime | None, list[Finding]]:
    try:
        return folder.find_runtime(), []
    except DataFolderUnusable as error:
        return None, [problem("server", error.message, "see the message")]


def _check_store(
    process: Any, folder: DataFolder, runtime: Runtime | None, embedder: EmbedderCheck
) -> Iterable[Finding]:
    # Imported here: it reaches models, which need Django to be set up.
    from memory.management import store_checks

    circumstances = store_checks.Circumstances(
        process=process,
        folder=folder,
        has_server=folder.find_holder() is not None,
        node_id=_node_id(folder) if runtime is None else runtime.node_id,
        now=SystemClock().now(),
    )
    missing = store_checks.open_readers(circumstances)
    try:
        if missing:
            text = f"there is no {' and no '.join(missing)} yet: no server has run here"
            return [warning("store", text, "lambo serve makes what is missing")]
        tables = run_checks([("store", store_checks.check_tables)])
        if any(finding.level != "ok" for finding in tables):
            return [*tables, warning("store", "the rest was not looked at", "first the above")]
        return tables + run_checks(
            [
                ("clock", partial(store_checks.check_clock, circumstances)),
                ("leases", partial(store_checks.check_leases, circumstances)),
                ("vectors", partial(_check_vectors, store_checks.check_vectors, embedder)),
                ("troubles", store_checks.check_troubles),
                ("tokens", partial(store_checks.check_tokens, circumstances)),
                ("cluster", partial(store_checks.check_cluster, circumstances)),
                ("audit chain", partial(store_checks.check_chain, circumstances)),
            ]
        )
    finally:
        store_checks.close_readers()


def _check_vectors(check: Any, embedder: EmbedderCheck) -> Iterable[Finding]:
    if not embedder.is_loaded:
        return [warning("vectors", "not compared: the embedder cannot be loaded", "first that")]
    found: Iterable[Finding] = check(embedder.contract)
    return found


def _node_id(folder: DataFolder) -> str | None:
    """The node id on file, if there is one."""
    try:
        with open(folder.node_path, "rb") as file:
            return str(uuid.UUID(file.read(36).decode("ascii")))
    except (OSError, ValueError):
        return None
