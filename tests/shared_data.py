"""Where the tests find the data files shared between projects; absent files skip the test.

`SHARED_DATA_DIR` names the directory; without it, `shared` beside the checkout.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

SHARED = Path(os.environ.get("SHARED_DATA_DIR") or Path(__file__).resolve().parents[2] / "shared")


def shared_file(relative: str) -> Path:
    """The path of a shared data file; skips the calling test when it is not there."""
    path = SHARED / relative
    if not path.is_file():
        pytest.skip(f"shared data absent: {relative}")
    return path
