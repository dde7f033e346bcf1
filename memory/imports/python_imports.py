"""Which files of a repository a Python file imports, by the rules of packages alone.

Pure: paths and source in, paths out; nothing is run and nothing is looked up on this machine. A
name is looked for from the root of the importing file's own package, then from the top of the
repository, then among packages that stand elsewhere (as under `src`), if just one has it.

Invariant: only files that were given are found, and no file imports itself.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterable, Iterator
from posixpath import dirname, join
from typing import Final

SOURCE_BYTES_MAX: Final = 1_000_000
INIT: Final = "__init__.py"


class PythonFiles:
    """The Python files of one tree, and what their import statements lead to."""

    def __init__(self, paths: Iterable[str]) -> None:
        self.paths = frozenset(path for path in paths if path.endswith(".py"))
        self._packages_elsewhere: dict[str, set[str]] = {}
        for path in self.paths:
            root = self.root_of(path)
            top = path[len(root) :].lstrip("/").split("/")[0]
            if root and not top.endswith(".py"):
                self._packages_elsewhere.setdefault(top, set()).add(root)

    def root_of(self, path: str) -> str:
        """The folder a file's own package stands in; its own folder if it is in none."""
        folder = dirname(path)
        while folder and join(folder, INIT) in self.paths:
            folder = dirname(folder)
        return folder

    def imported_by(self, path: str, source: bytes) -> set[str] | None:
        """The files that a file's import statements name; None where it cannot be parsed."""
        if len(source) > SOURCE_BYTES_MAX:
            return None
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of the source, which is not ours
                tree = ast.parse(source)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None
        found = {target for name in _names(path, tree) if (target := self._find(path, name))}
        return found - {path}

    def _find(self, path: str, name: _Name) -> str | None:
        """The file of the longest beginning of a name; a last part may be no module."""
        if name.folder is not None:
            return self._longest(name.folder, name.parts)
        for root in dict.fromkeys((self.root_of(path), "")):
            if (found := self._longest(root, name.parts)) is not None:
                return found
        roots = self._packages_elsewhere.get(name.parts[0], set())
        return self._longest(next(iter(roots)), name.parts) if len(roots) == 1 else None

    def _longest(self, folder: str, parts: tuple[str, ...]) -> str | None:
        for end in range(len(parts), -1, -1):
            stem = join(folder, *parts[:end])
            for candidate in (f"{stem}.py" if end else "", join(stem, INIT)):
                if candidate in self.paths and (end or folder):
                    return candidate
        return None


class _Name:
    """A dotted name; a relative one starts at `folder`."""

    __slots__ = ("folder", "parts")

    def __init__(self, parts: tuple[str, ...], folder: str | None = None) -> None:
        self.parts = parts
        self.folder = folder


def _names(path: str, tree: ast.AST) -> Iterator[_Name]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield _Name(tuple(alias.name.split(".")))
        elif isinstance(node, ast.ImportFrom):
            base = tuple(node.module.split(".")) if node.module else ()
            folder = _folder_above(path, node.level) if node.level else None
            for alias in node.names:
                last = () if alias.name == "*" else (alias.name,)
                if base or folder is not None:
                    yield _Name((*base, *last), folder)


def _folder_above(path: str, level: int) -> str:
    folder = dirname(path)
    for _ in range(level - 1):
        folder = dirname(folder)
    return folder
