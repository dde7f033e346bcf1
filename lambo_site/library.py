"""Lambo inside another Python program: the same host the server runs, without the server.

The data folder's lock holds here too: while a program has it open no server can, and the other way
round. Everything runs on the caller's event loop.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from lambo_site.configuration import ProcessSettings
from memory.engine.config import Config
from memory.engine.errors import InvalidConfiguration, StoreUnavailable
from memory.service.host import SessionHost


@asynccontextmanager
async def open_host(
    data_dir: str | Path, *, config: Config | None = None
) -> AsyncIterator[SessionHost]:
    """Open a data folder (made if absent), migrate it, and host its sessions.

    `config` replaces what `lambo.toml` and the variables say. One process opens one folder, once:
    Django's settings name it. Raises `DataFolderHeld` while a server or another program has it,
    and `StoreUnavailable` at the end if a write could not be confirmed as committed.
    """
    process = replace(_django_for(data_dir), has_cluster=False)
    if config is not None:
        process = replace(process, config=config)
    # Imported here: models need Django to be set up.
    from lambo_site.wiring import build_host
    from memory.data_folder import DataFolder
    from memory.management.migrating import bring_tables_up_to_date

    with DataFolder(process.data_dir).hold() as held:
        await asyncio.to_thread(bring_tables_up_to_date, may_migrate=True)
        host = build_host(process, node_id=held.node_id)
        await host.start()
        try:
            yield host
        finally:
            report = await host.close()
        if not report.ok:
            raise StoreUnavailable(f"{report.unsettled} write(s) were not confirmed as committed")


def _django_for(data_dir: str | Path) -> ProcessSettings:
    """Set Django up for a data folder, or check that it is."""
    from django.conf import settings

    folder = Path(data_dir).resolve()
    if not settings.configured:
        os.environ["LAMBO_DATA_DIR"] = str(folder)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "lambo_site.settings")
    import django

    django.setup(set_prefix=False)
    process: ProcessSettings = settings.PROCESS
    if process.data_dir.resolve() != folder:
        raise InvalidConfiguration(
            f"this process is set up for the data folder {process.data_dir}, not {folder}",
            setting="data_dir",
        )
    return process
