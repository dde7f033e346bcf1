"""What a checkup looks at in the databases: tables, clock, leases, vectors, calendar, chain.

Reads through connections that cannot write. A SQLite file that no server has open, and that has
nothing in a write-ahead log, is opened as one that cannot change: opening it otherwise would leave
files beside it.

Invariant: nothing is written, no file is made, and one statement at a time is asked, so a server
beside it notices nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from django.db import connections, router
from django.db.migrations.executor import MigrationExecutor
from django.utils import timezone

from memory.anchors import AnchorFile
from memory.data_folder import DataFolder
from memory.engine.audit_chain import key_fingerprint
from memory.engine.embedding import EmbeddingContract
from memory.engine.times import SECOND, Micros, format_rfc3339
from memory.management.checkup import Finding, ok, problem, warning
from memory.store.audit_trail import DjangoAuditTrail
from memory.tasks import TASK

ENGINE, ENGINE_READER, DJANGO = "memory", "memory_ro", "default"
CHECKED: Final = {ENGINE: "doctor_memory", DJANGO: "doctor_django"}
"""By the alias that writes, the one a checkup reads through."""

SKEW_SECONDS_WARNING: Final = 2.0
SKEW_SECONDS_PROBLEM: Final = 60.0
OVERDUE: Final = timedelta(minutes=15)
"""Of a schedule of the cluster, which looks every 30 seconds and may be busy for five minutes."""
ANCHOR_AGE_SECONDS: Final = 2 * 3_600.0
SHOWN: Final = 3


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What the checks of the store are told: the time, and what is known of the server."""

    process: Any
    folder: DataFolder
    has_server: bool
    node_id: str | None
    now: Micros


def open_readers(circumstances: Circumstances) -> list[str]:
    """Set up the connections that read, and name the files that are not there (of SQLite)."""
    missing = []
    for alias, reader in CHECKED.items():
        settings = dict(connections.settings[alias])
        if connections[alias].vendor == "sqlite":
            path = Path(settings["NAME"])
            if not path.exists():
                missing.append(path.name)
                continue
            log = path.with_name(f"{path.name}-wal")
            is_still = not circumstances.has_server and not (log.exists() and log.stat().st_size)
            mode = "mode=ro&immutable=1" if is_still else "mode=ro"
            settings["NAME"] = f"file:{quote(str(path))}?{mode}"
            settings["OPTIONS"] = {"timeout": 5, "init_command": "PRAGMA query_only=ON"}
        connections.settings[reader] = settings
    return missing


def close_readers() -> None:
    """Let the databases go."""
    for reader in CHECKED.values():
        if reader in connections.settings:
            connections[reader].close()
            del connections[reader]
            del connections.settings[reader]


def ask(reader: str, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
    """The rows of one statement."""
    with connections[reader].cursor() as cursor:
        cursor.execute(sql, list(parameters))
        return list(cursor.fetchall())


def ask_engine(sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
    return ask(CHECKED[ENGINE], sql, parameters)


def check_tables() -> Iterator[Finding]:
    """Whether the databases answer and have this version's tables."""
    for alias, reader in CHECKED.items():
        executor = MigrationExecutor(connections[reader])
        plan = [
            step
            for step, _ in executor.migration_plan(executor.loader.graph.leaf_nodes())
            if router.allow_migrate(alias, step.app_label)
        ]
        known = executor.loader.disk_migrations or {}
        apps = {app for app, _ in known}
        newer = [
            f"{app}.{name}"
            for app, name in executor.loader.applied_migrations
            if app in apps and (app, name) not in known and router.allow_migrate(alias, app)
        ]
        if newer:
            yield problem(
                "store",
                f"the database {alias!r} is of a newer version: {', '.join(sorted(newer)[:SHOWN])}",
                "run that version, or restore a backup made before it",
            )
        elif plan:
            yield warning(
                "store",
                f"the database {alias!r} lacks {len(plan)} migration(s)",
                "the next lambo serve applies them, or lambo migrate; back up first",
            )
        else:
            yield ok("store", f"the database {alias!r} answers and is up to date")


def check_clock(circumstances: Circumstances) -> Iterator[Finding]:
    """Whether this machine's clock is behind the newest write that is stored."""
    now = circumstances.now
    latest = max(
        (
            row[0]
            for table in ("lambo_interaction", "lambo_dead_letter", "lambo_receipt")
            for row in ask_engine(f"SELECT max(created_at) FROM {table}")
            if row[0] is not None
        ),
        default=None,
    )
    if latest is None:
        yield ok("clock", "nothing was written yet that it could be compared with")
        return
    ahead = (latest - now) / SECOND
    if ahead < SKEW_SECONDS_WARNING:
        yield ok("clock", f"not behind the newest write ({format_rfc3339(latest)})")
        return
    tell = problem if ahead >= SKEW_SECONDS_PROBLEM else warning
    yield tell(
        "clock",
        f"{ahead:.0f} s behind the newest write ({format_rfc3339(latest)})",
        "set the clock of this machine (NTP); until it has caught up, new writes are dated just "
        "after the newest, and evidence seems younger than it is",
    )


def check_leases(circumstances: Circumstances) -> Iterator[Finding]:
    """Who may write which sessions now."""
    rows = ask_engine(
        "SELECT node_id, count(*), max(expires_at), min(endpoint) FROM lambo_lease"
        " WHERE expires_at > %s GROUP BY node_id ORDER BY node_id",
        circumstances.now,
    )
    ours = sum(count for node, count, _, _ in rows if node == circumstances.node_id)
    others = [row for row in rows if row[0] != circumstances.node_id]
    for node, count, until, endpoint in others:
        yield warning(
            "leases",
            f"node {node} at {endpoint} holds {count} session(s) until {format_rfc3339(until)}",
            "fine if another server shares this database; else wait for the end, or find out who "
            "copied the data folder",
        )
    if ours and not circumstances.has_server:
        yield ok("leases", f"{ours} are left of a server that was killed; the next takes them over")
    elif not others or ours:
        yield ok("leases", f"this node holds {ours} session(s)")
    longest = max((until for _, _, until, _ in rows), default=0) - circumstances.now
    if longest / SECOND > circumstances.process.config.lease_ttl_seconds + SKEW_SECONDS_PROBLEM:
        yield problem(
            "leases",
            f"a lease ends only in {longest / SECOND:.0f} s",
            "a clock was set back: compare the clocks of the servers and of the database",
        )


def check_vectors(contract: EmbeddingContract | None) -> Iterator[Finding]:
    """Whether stored vectors are of the configured embedder, and which concepts have none."""
    live = "deleted_at IS NULL"
    rows = ask_engine(
        "SELECT embedding_kind, embedding_model, embedding_dim, embedding_template, count(*),"
        f" min(session_id) FROM lambo_session WHERE {live} AND embedding_kind IS NOT NULL"
        " GROUP BY embedding_kind, embedding_model, embedding_dim, embedding_template"
    )
    if connections[CHECKED[ENGINE]].vendor == "sqlite":
        yield ok("vectors", "they are searched in memory, exactly: there is no index to keep")
    is_fitting = True
    for kind, model, dim, template, count, name in rows:
        stored = EmbeddingContract(kind, model, dim, template)
        if contract is None or stored != contract:
            is_fitting = False
            mine = "none" if contract is None else contract.describe()
            yield warning(
                "vectors",
                f"{count} session(s), such as {name!r:.60}, have vectors of {stored.describe()}; "
                f"the configured embedder is {mine}: they are read by words and take no writes",
                "configure that embedder again, or lambo reembed --session NAME",
            )
    if is_fitting:
        sessions = sum(row[4] for row in rows)
        yield ok("vectors", f"those of {sessions} session(s) are of the configured embedder")
    (missing,) = ask_engine(
        "SELECT count(*) FROM lambo_concept c JOIN lambo_session s ON s.session_id = c.session_id"
        f" WHERE s.{live} AND s.embedding_kind IS NOT NULL AND NOT EXISTS (SELECT 1 FROM"
        " lambo_embedding e WHERE e.session_id = c.session_id AND e.concept_id = c.id)"
    )[0]
    if missing:
        yield warning(
            "vectors",
            f"{missing} concept(s) have no vector: recall by meaning cannot find them",
            "a server fills them in when it opens the session and its embedder works",
        )


def check_troubles() -> Iterator[Finding]:
    """What the store or a load had to put aside."""
    for table, when, what, none, advice in (
        (
            "lambo_dead_letter",
            "created_at",
            "call(s) were refused by the store and kept as dead letters",
            "the store has refused no call",
            "read the errors at /admin/memory/deadletter/; send the calls again under new keys",
        ),
        (
            "lambo_set_aside",
            "set_aside_at",
            "stored row(s) could not be used and were set aside",
            "no stored row had to be set aside",
            "read them at /admin/memory/setaside/; somebody may have changed rows by hand",
        ),
    ):
        count, newest = ask_engine(f"SELECT count(*), max({when}) FROM {table}")[0]
        if count:
            text = f"{count} {what}, the last at {format_rfc3339(newest)}"
            yield warning("troubles", text, advice)
        else:
            yield ok("troubles", none)


def check_tokens(circumstances: Circumstances) -> Iterator[Finding]:
    """Whether anybody could come in where tokens are asked for."""
    process = circumstances.process
    if not process.requires_tokens:
        yield ok("tokens", "local mode: only this machine is let in, and asked for none")
        return
    (count,) = ask_engine(
        "SELECT count(*) FROM lambo_token WHERE revoked_at IS NULL"
        " AND (expires_at IS NULL OR expires_at > %s)",
        circumstances.now,
    )[0]
    if count:
        yield ok("tokens", f"{count} are live")
        return
    tell = warning if process.is_on_loopback else problem
    yield tell(
        "tokens",
        "callers need one and there is none" + ("" if process.is_on_loopback else ": no start"),
        "lambo token create, while a server runs on 127.0.0.1 or none does",
    )


def check_cluster(circumstances: Circumstances) -> Iterator[Finding]:
    """Whether the calendar of the worker processes moves."""
    if not circumstances.process.runs_cluster:
        yield ok("cluster", "none is configured: the server asks for its jobs itself")
        return
    if not circumstances.has_server:
        yield ok("cluster", "it runs beside a server, and none runs")
        return
    moment = timezone.now()
    rows = ask(
        CHECKED[DJANGO],
        "SELECT name, next_run FROM django_q_schedule WHERE func = %s AND cluster = %s"
        " AND repeats <> 0",
        [TASK, circumstances.node_id],
    )
    late = [name for name, at in rows if _aware(at) < moment - OVERDUE]
    (failed,) = ask(
        CHECKED[DJANGO],
        "SELECT count(*) FROM django_q_task WHERE success = %s AND stopped > %s AND started < %s",
        [False, moment - timedelta(days=1), moment - OVERDUE],
    )[0]
    if late:
        yield problem(
            "cluster",
            f"jobs are overdue by more than {OVERDUE.seconds // 60} minutes: {', '.join(late)}",
            "look for 'cluster' in the server's log; restart the server",
        )
    elif rows:
        yield ok("cluster", f"{len(rows)} jobs are on time")
    else:
        yield ok("cluster", "it has no calendar: the running server asks for its jobs itself")
    if failed:
        yield warning(
            "cluster", f"{failed} run(s) failed in the last day", "see /admin/django_q/failure/"
        )


def _aware(value: Any) -> Any:
    """An instant as every engine gives it: SQLite has texts without a zone, in UTC."""
    if isinstance(value, str):
        value = datetime.fromisoformat(value)
    return timezone.make_aware(value) if timezone.is_naive(value) else value


def check_chain(circumstances: Circumstances) -> Iterator[Finding]:
    """Whether the chain key is the one of the database, and the anchors are what is stored."""
    folder, trail = circumstances.folder, DjangoAuditTrail(CHECKED[ENGINE])
    known = trail.find_key_fingerprint()
    given: str | None = circumstances.process.chain_key
    if given is None and folder.chain_key_path.is_file():
        given = folder.chain_key_path.read_text("ascii", "replace").strip()
    if known is None:
        yield ok("audit chain", "no audit row was sealed yet")
        return
    if given is None:
        yield problem(
            "audit chain",
            "the database has sealed audit rows and there is no chain key",
            f"bring back LAMBO_CHAIN_KEY, or the file {folder.chain_key_path} from a copy",
        )
        return
    if key_fingerprint(given.encode()) != known:
        yield problem(
            "audit chain",
            "the chain key is not the one that the audit rows were sealed with",
            "bring the right one back; no server starts with another",
        )
        return
    yield from _check_anchors(circumstances)


def _check_anchors(circumstances: Circumstances) -> Iterator[Finding]:
    anchors = AnchorFile(circumstances.folder.anchors_path).read()
    if anchors.unreadable_count:
        yield warning(
            "audit chain",
            f"{anchors.unreadable_count} lines of anchors.jsonl cannot be read",
            "a line may be torn after a power cut; the others count",
        )
    broken = []
    for session_id, hashes in sorted(anchors.by_session.items()):
        newest = max(hashes)
        stored = ask_engine(
            "SELECT link_hash FROM lambo_audit_event WHERE session_id = %s AND sequence = %s",
            session_id,
            newest,
        )
        if [row[0] for row in stored] != [hashes[newest]]:
            broken.append(session_id)
    if broken:
        yield problem(
            "audit chain",
            f"the newest anchor of {len(broken)} session(s) is not what is stored, such as "
            f"{broken[0]!r:.60}",
            "lambo canon verify names the row; a database restored from an older copy shows this",
        )
    elif anchors.line_count:
        count = len(anchors.by_session)
        yield ok("audit chain", f"the newest anchors of {count} session(s) are what is stored")
    else:
        yield ok("audit chain", "the key fits; there is no anchor yet, one is noted every hour")
