"""`lambo serve`: the server, in the foreground.

Owns the flags and what is made sure before anything is served, in this order: settings, the one
worker, the lock of the data folder, the address, the tables. Serving itself is `serving`.
"""

from __future__ import annotations

import logging
import os
import sys
from argparse import ArgumentParser, BooleanOptionalAction
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand
from django.db import connections
from django.utils.module_loading import import_string

from memory import runtime
from memory.data_folder import DataFolder, HeldFolder
from memory.engine.errors import InvalidConfiguration, LamboError
from memory.management.cluster import Cluster
from memory.management.migrating import bring_tables_up_to_date
from memory.management.serving import (
    EXIT_FAILED,
    EXIT_USAGE,
    open_socket,
    serve_until_told,
)
from memory.store.tokens import DjangoTokenStore
from memory.system import SystemClock
from memory.version import VERSION

logger = logging.getLogger("lambo.server")

VARIABLE_BY_FLAG: Mapping[str, str] = {
    "bind": "LAMBO_BIND",
    "port": "LAMBO_PORT",
    "data_dir": "LAMBO_DATA_DIR",
    "config_path": "LAMBO_CONFIG",
    "auth_mode": "LAMBO_AUTH",
    "has_cluster": "LAMBO_CLUSTER",
}
"""A flag is a variable by another name: the settings are read once, from variables."""

WAY_IN = (
    "first start; a token for an agent: lambo token create --name NAME --agent AGENT "
    "--scope read --scope write --session '*'; a login for /admin/: lambo admin create"
)
LOAD_SETTINGS = "lambo_site.configuration.load_process_settings"


class Command(BaseCommand):
    help = "Serve memories until Ctrl-C. Example: lambo serve --port 7700"
    # Checks would open databases before the lock is held; doctor runs them.
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--bind", "--host", dest="bind", help="address (default 127.0.0.1)")
        parser.add_argument("--port", help="port (default 7700)")
        parser.add_argument("--data-dir", help="where everything is kept (default ./data)")
        parser.add_argument("--config", dest="config_path", help="settings file (./lambo.toml)")
        parser.add_argument(
            "--migrate",
            action=BooleanOptionalAction,
            default=True,
            help="bring the database's tables up to date first (default), or refuse to start",
        )
        parser.add_argument(
            "--require-tokens",
            dest="auth_mode",
            action="store_const",
            const="tokens",
            help="ask every caller for a token; always so beyond this machine",
        )
        parser.add_argument(
            "--no-cluster",
            dest="has_cluster",
            action="store_const",
            const="false",
            help="start no worker processes: the server asks for its jobs itself",
        )
        parser.add_argument(
            "--background-idle-minutes",
            type=int,
            metavar="N",
            help="stop after N minutes without a call",
        )

    def handle(self, *_args: Any, **options: Any) -> None:
        try:
            _become_the_process_of(options)
            code = _serve(
                idle_minutes=options["background_idle_minutes"], may_migrate=options["migrate"]
            )
        except InvalidConfiguration as error:
            _say(error)
            code = EXIT_USAGE
        except LamboError as error:
            _say(error)
            code = EXIT_FAILED
        if code:
            sys.exit(code)


def _say(error: LamboError) -> None:
    """Why nothing is served: a sentence for people, or a line of the log for programs."""
    line = f"lambo serve: {error.message}"
    if settings.PROCESS.log_format == "json":
        logger.error(line)
    else:
        print(line, file=sys.stderr)


def _become_the_process_of(options: Mapping[str, Any]) -> None:
    """Start over with the variables that the flags stand for, if they are not set already.

    Django's settings were made before the flags were read. The process keeps its id.
    """
    wanted = {
        variable: options[flag]
        for flag, variable in VARIABLE_BY_FLAG.items()
        if options[flag] is not None and os.environ.get(variable) != options[flag]
    }
    if not wanted:
        return
    environ = {**os.environ, **wanted}
    import_string(LOAD_SETTINGS)(environ, folder=Path.cwd())  # raises before anything is changed
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(sys.executable, sys.orig_argv, environ)


def _serve(*, idle_minutes: int | None, may_migrate: bool) -> int:
    # Whatever is made in the data folder is its owner's alone, databases included.
    os.umask(0o077)
    process = settings.PROCESS
    config = process.config
    if idle_minutes is not None:
        config = replace(config, idle_exit_minutes=idle_minutes)
    _check_one_worker()
    for warning in process.find_warnings():
        logger.warning("lambo serve: %s", warning)
    with DataFolder(process.data_dir).hold() as held:
        listener = open_socket(process.bind, process.port)
        bring_tables_up_to_date(may_migrate=may_migrate)
        if not process.is_on_loopback:
            _check_there_is_a_token(process.bind)
        if not held.folder.secret_key_path.exists():
            logger.info("lambo serve: %s", WAY_IN)
        str(settings.SECRET_KEY)  # made now: a read-only folder is told before anybody logs in
        runtime.set_held_folder(held)
        return serve_until_told(
            import_string(settings.ASGI_APPLICATION),
            listener,
            on_listening=lambda: _publish(held, process.url),
            idle_minutes=config.idle_exit_minutes,
            durability=str(config.durability),
            cluster=_make_cluster(held) if process.runs_cluster else None,
        )


def _make_cluster(held: HeldFolder) -> Cluster:
    return Cluster(node_id=held.node_id, environ=os.environ)


def _check_there_is_a_token(bind: str) -> None:
    """A server of the network that nobody can use is a mistake, found while somebody looks."""
    now = SystemClock().now()
    is_one = any(record.is_live(now) for record in DjangoTokenStore().load_tokens())
    connections.close_all()
    if not is_one:
        raise InvalidConfiguration(
            f"server.bind {bind} is beyond loopback, where every caller needs a token, and there "
            "is none; make one with lambo token create, while no server runs or one on 127.0.0.1",
            setting="server.bind",
        )


def _publish(held: HeldFolder, url: str) -> None:
    published = held.publish(url=url, version=VERSION)
    runtime.set_operator_secret(published.operator_secret)
    logger.info(
        "lambo serve: listening on %s (version %s, data folder %s, node %s)",
        url,
        VERSION,
        held.folder.path,
        held.node_id,
    )


def _check_one_worker() -> None:
    """Sessions live in one process's memory; several workers would each have half of them."""
    workers = os.environ.get("WEB_CONCURRENCY", "").strip()
    if workers not in ("", "1"):
        raise InvalidConfiguration(
            f"WEB_CONCURRENCY must be 1 or unset, not {workers!r:.60}: sessions live in the memory "
            "of one process; for more, run several servers on one database",
            setting="WEB_CONCURRENCY",
        )
