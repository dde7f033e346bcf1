"""Loaded by pytest before Django's settings: gives the run a world of its own.

A developer's LAMBO_* variables, `lambo.toml` and data folder must neither steer a test nor be
touched by one. No model is loaded for tests that do not ask for it.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from pathlib import Path

_folder = Path(tempfile.mkdtemp(prefix="lambo-tests-"))
atexit.register(shutil.rmtree, _folder, ignore_errors=True)

for _name in [name for name in os.environ if name.startswith("LAMBO_")]:
    del os.environ[_name]

_config = _folder / "lambo.toml"
_config.touch()
os.environ["LAMBO_CONFIG"] = str(_config)
os.environ["LAMBO_DATA_DIR"] = str(_folder / "data")
os.environ["LAMBO_EMBEDDER"] = "none"
os.environ["LAMBO_CLUSTER"] = "false"
