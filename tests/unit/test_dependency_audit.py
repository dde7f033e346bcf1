"""What the audit of a run makes of a report: findings fail it, silence does not."""

from __future__ import annotations

import importlib.util
import json
import subprocess
from types import ModuleType
from typing import Any

import pytest

from source_tree import ROOT

CLEAN = {"name": "django", "version": "5.2.8", "vulns": []}
UNKNOWN = {"name": "numpy", "skip_reason": "Dependency not found on PyPI"}
HOLED = {
    "name": "h11",
    "version": "0.1",
    "vulns": [{"id": "PYSEC-0000-1", "fix_versions": ["0.2"], "aliases": [], "description": "x"}],
}


@pytest.fixture(scope="module")
def audit() -> ModuleType:
    spec = importlib.util.spec_from_file_location("ci_audit", ROOT / ".ci" / "audit.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("said", "code", "told"),
    [
        (json.dumps({"dependencies": [CLEAN, UNKNOWN]}), 0, "1 of 2 packages"),
        (json.dumps({"dependencies": [CLEAN, HOLED]}), 1, "h11 0.1: PYSEC-0000-1, fixed in 0.2"),
        (json.dumps({"dependencies": [UNKNOWN]}), 0, "0 of 1 packages"),
        ("", 0, "not done"),
    ],
)
def test_only_a_finding_fails_the_run(
    audit: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    said: str,
    code: int,
    told: str,
) -> None:
    def answer(*_words: Any, **_options: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess([], 1, stdout=said, stderr="")

    monkeypatch.setattr(audit.subprocess, "run", answer)
    assert audit.main() == code
    assert told in capsys.readouterr().out
