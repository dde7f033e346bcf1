"""The project's files as the architecture tests see them."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("lambo_site", "memory", "canon", "recall", "mcp_bridge")
ENGINES = ("memory.engine", "canon.engine", "recall.engine")


def python_files(*folders: str) -> list[Path]:
    """Every Python file under the folders, sorted."""
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


def shown(path: Path) -> str:
    """The path as a test's name and message show it."""
    return path.relative_to(ROOT).as_posix()


@cache
def tree_of(path: Path) -> ast.Module:
    """The parsed source."""
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def is_migration(path: Path) -> bool:
    """Written by Django."""
    return path.parent.name == "migrations" and path.name[:4].isdecimal()
