"""The demo, again and again in fresh processes: one story, byte for byte.

`make determinism ROUNDS=100` runs it as often as it says; the suite a few times.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from children import child_environment

ROUNDS = int(os.environ.get("DETERMINISM_ROUNDS", "5"))
UUID = re.compile(rb"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")

pytestmark = [pytest.mark.slow, pytest.mark.timeout(60 + 30 * ROUNDS)]


def told_by_a_fresh_run(folder: Path) -> bytes:
    """What one demo prints, its ids masked."""
    folder.mkdir()
    ran = subprocess.run(
        [sys.executable, "-P", "-m", "memory.cli.main", "demo", "--json"],
        env=child_environment({"TMPDIR": str(folder), "PYTHONHASHSEED": "random"}),
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return UUID.sub(b"<id>", ran.stdout)


def test_every_fresh_run_of_the_demo_tells_the_same(tmp_path: Path) -> None:
    told: Counter[bytes] = Counter()
    for number in range(ROUNDS):
        told[told_by_a_fresh_run(tmp_path / f"run-{number}")] += 1
    print(f"\n{ROUNDS} fresh runs, {len(told)} different output(s)")
    assert len(told) == 1
