"""Secrets are compared in constant time, and by nobody else than those who must."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from source_tree import PACKAGES, ROOT, python_files, shown, tree_of

SECRETS = {"secret", "operator_secret", "_operator_secret", "api_key", "_api_key", "chain_key"}
JUDGES = {
    "memory/engine/tokens.py": "opens",
    "memory/runtime.py": "is_operator_secret",
}
"""Who decides whether a secret that was shown is the right one."""


def names_in(node: ast.AST) -> set[str]:
    parts = list(ast.walk(node))
    return {part.id for part in parts if isinstance(part, ast.Name)} | {
        part.attr for part in parts if isinstance(part, ast.Attribute)
    }


@pytest.mark.parametrize("path", python_files(*PACKAGES), ids=shown)
def test_no_secret_is_compared_letter_by_letter(path: Path) -> None:
    found = [
        node.lineno
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Compare)
        if any(isinstance(operator, ast.Eq | ast.NotEq) for operator in node.ops)
        if names_in(node) & SECRETS
    ]
    assert found == []


@pytest.mark.parametrize(("file", "judge"), JUDGES.items())
def test_whoever_judges_a_secret_does_it_in_constant_time(file: str, judge: str) -> None:
    (function,) = (
        node
        for node in ast.walk(tree_of(ROOT / file))
        if isinstance(node, ast.FunctionDef) and node.name == judge
    )
    assert "compare_digest" in names_in(function)
    assert not any(
        isinstance(operator, ast.Eq | ast.NotEq)
        for node in ast.walk(function)
        if isinstance(node, ast.Compare)
        for operator in node.ops
    )
