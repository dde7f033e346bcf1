"""`lambo` in a process of its own on a data folder, and what its databases hold, row by row."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from children import child_environment

ENGINE_FILE = "lambo.sqlite3"
DJANGO_FILE = "django.sqlite3"


@dataclass(frozen=True)
class Told:
    """What a command came to."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        assert self.code == 0, self.err
        return json.loads(self.out)


def command_environment(data_dir: Path, **variables: str) -> dict[str, str]:
    config = data_dir.parent / "lambo.toml"
    config.touch()
    named = {"LAMBO_DATA_DIR": str(data_dir), "LAMBO_CONFIG": str(config), **variables}
    return {**child_environment(named), "PYTHONWARNINGS": "error"}


def command_of(*words: str) -> list[str]:
    return [sys.executable, "-P", "-m", "memory.cli.main", *words]


def run_lambo(data_dir: Path, *words: str, **variables: str) -> Told:
    """A command; its talk holds no traceback."""
    ran = subprocess.run(
        command_of(*words),
        env=command_environment(data_dir, **variables),
        cwd=data_dir.parent,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert "Traceback" not in ran.stderr, ran.stderr
    return Told(ran.returncode, ran.stdout, ran.stderr)


def all_rows(data_dir: Path, name: str = ENGINE_FILE) -> Mapping[str, list[tuple[Any, ...]]]:
    """Every row of every table of a database file, in an order of its own; views left out."""
    with closing(sqlite3.connect(f"{(data_dir / name).as_uri()}?mode=ro", uri=True)) as file:
        file.text_factory = bytes
        names = [
            row[0].decode()
            for row in file.execute(
                "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
            )
        ]
        return {
            table: sorted(file.execute(f'SELECT * FROM "{table}"').fetchall(), key=repr)
            for table in names
        }


def with_free_leases(
    tables: Mapping[str, list[tuple[Any, ...]]],
) -> Mapping[str, list[tuple[Any, ...]]]:
    """The same rows as if nobody held a session: name, token and position are left."""
    leases = [(row[0], b"", b"", row[3], row[4], 0) for row in tables["lambo_lease"]]
    kept = {name: rows for name, rows in tables.items() if name.startswith("lambo_")}
    return {**kept, "lambo_lease": sorted(leases, key=repr)}
