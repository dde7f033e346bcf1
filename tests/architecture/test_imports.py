"""Who imports whom, and that the engines are as pure as the contracts say."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import grimp
import pytest

from children import child_environment
from source_tree import ENGINES, PACKAGES, ROOT, python_files, shown

ALLOWED_PACKAGES = {"numpy", "snowballstemmer", "uniseg"}
IMPURE_STANDARD_LIBRARY = {
    "asyncio",
    "concurrent",
    "ctypes",
    "fcntl",
    "http",
    "io",
    "logging",
    "multiprocessing",
    "os",
    "pathlib",
    "queue",
    "random",
    "secrets",
    "select",
    "selectors",
    "shutil",
    "signal",
    "socket",
    "sqlite3",
    "ssl",
    "subprocess",
    "tempfile",
    "threading",
    "time",
    "urllib",
}
"""I/O, clocks, randomness, locks, waiting: what an engine gets as an argument or not at all."""

WITHOUT_DJANGO = """
import importlib, pkgutil, sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"django", "asgiref", "ninja", "channels", "mcp", "pydantic"}:
            raise ImportError(f"{name} is not to be imported here")

sys.meta_path.insert(0, Refuse())
count = 0
for name in sys.argv[1:]:
    package = importlib.import_module(name)
    for module in pkgutil.walk_packages(package.__path__, name + "."):
        importlib.import_module(module.name)
        count += 1
assert "asyncio" not in sys.modules, "an engine imported asyncio"
print(count)
"""


@pytest.fixture(scope="module")
def graph() -> grimp.ImportGraph:
    return grimp.build_graph(*PACKAGES, include_external_packages=True, cache_dir=None)


def lint_imports(root: Path) -> subprocess.CompletedProcess[str]:
    """The contracts of `root/pyproject.toml` checked over the packages beside it."""
    command = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    return subprocess.run(
        [sys.executable, "-c", command, "--no-cache"],
        cwd=root,
        env=child_environment({"PYTHONPATH": str(root)}),
        capture_output=True,
        text=True,
        check=False,
    )


def test_import_contracts_hold() -> None:
    run = lint_imports(ROOT)
    assert run.returncode == 0, run.stdout + run.stderr
    assert re.search(r"Contracts: [1-9]\d* kept, 0 broken\.", run.stdout)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "line", "contract"),
    [
        ("memory/engine/graph.py", "import django", "The engines know nothing but"),
        ("recall/engine/pipeline.py", "import asyncio", "The engines know nothing but"),
        ("canon/engine/saints.py", "import recall.engine.pipeline", "do not know each other"),
        ("memory/service/memory.py", "import memory.store.sqlite", "Inside memory"),
        ("memory/service/memory.py", "import numpy", "neither Django nor numpy"),
        ("memory/verbs.py", "import recall.engine.pipeline", "lambo_site over mcp_bridge"),
        ("memory/client.py", "import memory.models", "The MCP surface never reaches models"),
        ("memory/cli/launcher.py", "import httpx", "need no Django"),
        ("memory/drawer.py", "", "Inside memory"),
    ],
)
def test_one_stray_import_breaks_a_contract(
    module: str, line: str, contract: str, tmp_path: Path
) -> None:
    """The contracts are known to bite, not only to be kept."""
    for package in PACKAGES:
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / package, tmp_path / package, ignore=ignored)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    with (tmp_path / module).open("a", encoding="utf-8") as file:
        file.write(f"\n{line}\n")
    run = lint_imports(tmp_path)
    assert run.returncode == 1, run.stderr
    assert re.search(rf"{contract}.* BROKEN$", run.stdout, re.MULTILINE), run.stdout


def test_every_contract_says_why() -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    contracts = text.count("[[tool.importlinter.contracts]]")
    assert len(re.findall(r"\[\[tool\.importlinter\.contracts\]\]\n# ", text)) == contracts


@pytest.mark.parametrize("engine", ENGINES)
def test_engine_imports_nothing_from_outside_but_the_named_three(
    engine: str, graph: grimp.ImportGraph
) -> None:
    own = {engine, *graph.find_descendants(engine)}
    outside: dict[str, str] = {}
    for module in own:
        for imported in graph.find_modules_directly_imported_by(module):
            top = imported.partition(".")[0]
            if imported in own or top in sys.stdlib_module_names | ALLOWED_PACKAGES:
                continue
            if not imported.startswith(ENGINES):
                outside[module] = imported
    assert outside == {}


@pytest.mark.parametrize("engine", ENGINES)
def test_engine_reads_no_clock_draws_no_chance_and_does_no_io(
    engine: str, graph: grimp.ImportGraph
) -> None:
    impure = {
        module: imported
        for module in {engine, *graph.find_descendants(engine)}
        for imported in graph.find_modules_directly_imported_by(module)
        if imported.partition(".")[0] in IMPURE_STANDARD_LIBRARY
    }
    assert impure == {}


@pytest.mark.slow
def test_engines_import_where_django_cannot_be_imported() -> None:
    """A static check does not see what an `__init__` or a third package pulls in."""
    run = subprocess.run(
        [sys.executable, "-c", WITHOUT_DJANGO, *ENGINES],
        env=child_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert int(run.stdout) >= 15


@pytest.mark.slow
def test_service_imports_where_django_cannot_be_imported() -> None:
    code = WITHOUT_DJANGO.replace('assert "asyncio"', 'assert "django"')
    run = subprocess.run(
        [sys.executable, "-c", code, "memory.service"],
        env=child_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr


def test_package_files_are_empty() -> None:
    """What an `__init__` imports, every import of a module below it imports too."""
    filled = [
        shown(path)
        for path in python_files(*PACKAGES)
        if path.name == "__init__.py" and path.read_text(encoding="utf-8").strip()
    ]
    assert filled == []


def test_every_folder_with_code_is_a_package() -> None:
    """Otherwise it is missing from the wheel."""
    missing = {
        shown(path.parent)
        for path in python_files(*PACKAGES)
        if not (path.parent / "__init__.py").exists()
    }
    assert missing == set()
