"""What a reader should never meet in the source."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from source_tree import PACKAGES, ROOT, is_migration, python_files, shown, tree_of

LINES_MAX = 600
FOLDERS = (*PACKAGES, "tests", "benchmarks")
DRAWERS = {"utils", "util", "helpers", "helper", "common", "base", "manager", "misc", "shared"}
LEFTOVERS = re.compile(r"\b(TO" + r"DO|FIX" + r"ME|XX" + r"X|HA" + r"CK)\b")
MAY_PRINT = re.compile(r"^(memory/cli/|[a-z_]+/management/|benchmarks/|tests/)")
MAY_READ_ENVIRONMENT = re.compile(
    # Django's own entry, the doors of the composition root, and clients, which run elsewhere.
    r"^(lambo_site/(settings|asgi|wiring|library)\.py|memory/(cli/|client\.py)|mcp_bridge/stdio\.py"
    r"|[a-z_]+/management/commands/)"
)
PAUSE_SECONDS_MAX = 0.05
MACHINE_PATHS = re.compile(r"/(?:work|home|Users)/[a-z]|/root/")

TEXTS = sorted(
    path
    for pattern in ("*.md", "*.toml", "Makefile", ".ci/run", "docs/**/*.md")
    for path in ROOT.glob(pattern)
)
FILES = python_files(*FOLDERS)


def test_there_is_something_to_look_at() -> None:
    assert len(FILES) > 50


@pytest.mark.parametrize("path", [*FILES, *TEXTS], ids=shown)
def test_file_holds_no_leftover_and_no_path_of_a_machine(path: Path) -> None:
    found = [
        f"{shown(path)}:{number}: {line.strip()}"
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if LEFTOVERS.search(line) or (MACHINE_PATHS.search(line) and "MACHINE_PATHS" not in line)
    ]
    assert found == []


@pytest.mark.parametrize("path", FILES, ids=shown)
def test_module_is_small_named_by_a_noun_and_explained(path: Path) -> None:
    is_named_by_django = path.parent.name.endswith("_backend")  # it looks for a module `base`
    assert path.stem not in DRAWERS or is_named_by_django, "a drawer: name the noun that is in it"
    if is_migration(path) or path.name == "__init__.py":
        return
    lines = path.read_text(encoding="utf-8").count("\n")
    assert lines <= LINES_MAX, f"{lines} lines: which two nouns are hiding in it?"
    is_test = path.name.startswith("test_")  # its name and those of its tests say it
    assert is_test or ast.get_docstring(tree_of(path)), "a module says what it owns"


@pytest.mark.parametrize("path", FILES, ids=shown)
def test_only_commands_and_tests_print(path: Path) -> None:
    if MAY_PRINT.match(shown(path)):
        return
    calls = [
        node.lineno
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        if node.func.id == "print"
    ]
    assert calls == []


@pytest.mark.parametrize("path", python_files(*PACKAGES), ids=shown)
def test_only_settings_and_clients_read_the_environment(path: Path) -> None:
    """Everything else is told what it needs, so that a server is configured once and wholly."""
    if MAY_READ_ENVIRONMENT.match(shown(path)):
        return
    reads = [
        node.lineno
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Attribute) and node.attr in {"environ", "getenv"}
        if isinstance(node.value, ast.Name) and node.value.id == "os"
    ]
    assert reads == []


@pytest.mark.parametrize("path", python_files(*(f"{name}/engine" for name in PACKAGES)), ids=shown)
def test_engines_neither_look_at_the_time_nor_make_ids(path: Path) -> None:
    """Both are arguments: a replayed log must give the same graph."""
    calls = [
        f"{node.lineno}: {node.func.attr}"
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        if node.func.attr in {"now", "utcnow", "today", "uuid1", "uuid4", "default_rng"}
    ]
    assert calls == []


@pytest.mark.parametrize("path", python_files("tests"), ids=shown)
def test_tests_do_not_sleep(path: Path) -> None:
    """A test waits for something to be so, with a deadline; never for time to pass.

    A pause inside such a wait lets others run and is short.
    """
    if not path.name.startswith("test_"):
        return  # a stand-in may take its time, as what it stands for does
    sleeps = [
        node.lineno
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        if node.func.attr == "sleep" and node.args and not _is_short(node.args[0])
    ]
    assert sleeps == []


def _is_short(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and float(str(node.value)) <= PAUSE_SECONDS_MAX
