"""From the common options to an open client: which folder, which server, which rights.

Finds the running server of the data folder or starts one in the background. Knows no verb. The
operator secret is read only for verbs that need it and goes to the folder's own server alone; a
token goes wherever its owner sends the call.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from memory.data_folder import read_runtime

if TYPE_CHECKING:
    from memory.client import Answer, LamboClient

TOKEN_VARIABLE: Final = "LAMBO_TOKEN"

_CONFIGURATION: Final = "lambo_site.configuration"
"""By name, as Django's settings are: the composition root is imported by nobody."""
_SETTINGS: Final = "lambo_site.settings"


def find_data_dir(options: Namespace, environ: Mapping[str, str]) -> Path:
    """The folder of `--data-dir`, else the configured one. Raises `InvalidConfiguration`."""
    if (given := getattr(options, "data_dir", None)) is not None:
        return Path(given).expanduser().resolve()
    configuration = importlib.import_module(_CONFIGURATION)
    config = getattr(options, "config", None)
    settings = configuration.load_process_settings(
        environ,
        folder=Path.cwd(),
        config_path=None if config is None else Path(config),
        is_client=True,
    )
    folder: Path = settings.data_dir
    return folder


def server_environment(options: Namespace, environ: Mapping[str, str]) -> dict[str, str]:
    """The variables of a server started on behalf of these options."""
    env = dict(environ)
    env.pop(TOKEN_VARIABLE, None)  # a server has no use for the secret of a caller
    if (config := getattr(options, "config", None)) is not None:
        env["LAMBO_CONFIG"] = str(Path(config).expanduser().resolve())
    if (data_dir := getattr(options, "data_dir", None)) is not None:
        env["LAMBO_DATA_DIR"] = str(Path(data_dir).expanduser().resolve())
    return env


def find_token(options: Namespace, environ: Mapping[str, str]) -> str | None:
    """The token of `--token`, else of the variable; None where none is given."""
    given: str | None = getattr(options, "token", None)
    return given if given is not None else environ.get(TOKEN_VARIABLE, "").strip() or None


def connect(
    options: Namespace, *, agent_id: str | None, as_operator: bool, always_operator: bool = False
) -> LamboClient:
    """An open client for the server these options mean; started if need be.

    The operator secret goes with the acts of people, or with every call.
    """
    import logging

    from memory.cli.launcher import find_or_start_server
    from memory.client import Address, LamboClient, Retries

    # Under `manage.py` logging is configured; a line per request is no talk for people.
    logging.getLogger("httpx").setLevel(logging.WARNING)
    token = find_token(options, os.environ)
    url: str | None = getattr(options, "url", None)
    if url is not None:
        return LamboClient(
            url,
            agent_id=agent_id,
            operator_secret=_secret_for(url, options) if as_operator else None,
            user=_person(),
            # Somebody waits at the terminal, and the address may be a typing error.
            retries=Retries(unreachable_seconds=2.0),
            token=token,
            always_operator=always_operator,
        )
    data_dir = find_data_dir(options, os.environ)
    env = server_environment(options, os.environ)

    def locate() -> Address:
        server = find_or_start_server(data_dir, env=env)
        if server.started:
            print(f"lambo: started a server at {server.url}, data in {data_dir}", file=sys.stderr)
        runtime = read_runtime(data_dir) if as_operator else None
        return Address(server.url, runtime.operator_secret if runtime else None)

    found = locate()
    return LamboClient(
        found.url,
        agent_id=agent_id,
        operator_secret=found.operator_secret,
        user=_person(),
        locate=locate,
        token=token,
        always_operator=always_operator,
    )


STORED_RECALL_COMMAND: Final = (sys.executable, "-P", "-m", "lambo_site.stored_recall")
STORED_RECALL_SECONDS: Final = 120.0


def recall_stored(
    options: Namespace, *, session: str, agent_id: str | None, arguments: dict[str, Any]
) -> Answer | None:
    """The answer of the store where no server runs on the folder; None where one has to be asked.

    None too where an address or a token was given: both mean a server. Raises what the recall does.
    """
    if getattr(options, "url", None) is not None or find_token(options, os.environ) is not None:
        return None
    from memory.cli.launcher import find_server
    from memory.client_calls import error_from_wire
    from memory.data_folder import DataFolder

    data_dir = find_data_dir(options, os.environ)
    # One that is starting answers soon, and better.
    if find_server(data_dir) is not None or DataFolder(data_dir).find_holder() is not None:
        return None
    asked = {"session": session, "agent_id": agent_id, "arguments": arguments}
    env = server_environment(options, os.environ)
    env["LAMBO_DATA_DIR"] = str(data_dir)
    env["DJANGO_SETTINGS_MODULE"] = _SETTINGS  # an agent may stand in a Django project of its own
    try:
        ran = subprocess.run(
            STORED_RECALL_COMMAND,
            input=json.dumps(asked).encode(),
            capture_output=True,
            env=env,
            timeout=STORED_RECALL_SECONDS,
            check=False,
        )
        told = json.loads(ran.stdout)
    except (ValueError, subprocess.TimeoutExpired):
        return None  # the server that is started instead says in its log what is wrong
    if "error" in told:
        raise error_from_wire(told["error"])
    if "answer" not in told:
        return None
    text, structured = told["answer"]["text"], told["answer"]["structured"]
    return {
        "text": text,
        "structured": structured,
        "warnings": structured["warnings"],
        "idempotency_key": None,
        "replayed": False,
    }


def _secret_for(url: str, options: Namespace) -> str | None:
    """The operator secret if the folder's own server stands at `url`; no stranger sees it."""
    runtime = read_runtime(find_data_dir(options, os.environ))
    return runtime.operator_secret if runtime and runtime.url == url.rstrip("/") else None


def _person() -> str:
    from memory.cli.identity import default_agent

    return default_agent()
