"""What is installed is what is in the tree: code, migrations, templates, and nothing else."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from source_tree import PACKAGES, ROOT

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel built from a copy, so that the tree stays as it is."""
    source = tmp_path_factory.mktemp("source")
    for package in PACKAGES:
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / package, source / package, ignore=ignored)
    # Neighbours that must stay out of it.
    for folder in ("tests", "docs", "benchmarks", "data"):
        (source / folder).mkdir()
        (source / folder / "__init__.py").touch()
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, source)
    target = tmp_path_factory.mktemp("wheel")
    run = subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--no-deps", "--wheel-dir", str(target), "."],
        cwd=source,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    if run.returncode and not os.environ.get("CI"):
        pytest.skip(f"no wheel can be built here (setuptools comes from the index): {run.stderr}")
    assert run.returncode == 0, run.stderr
    (built,) = target.glob("*.whl")
    return built


def test_wheel_holds_every_file_of_the_packages_and_no_other(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name}
    expected = {
        path.relative_to(ROOT).as_posix()
        for package in PACKAGES
        for path in (ROOT / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    # The site's templates stand at the top of the tree; a link brings them into the package.
    expected |= {
        f"lambo_site/{path.relative_to(ROOT).as_posix()}"
        for path in (ROOT / "templates").rglob("*")
        if path.is_file()
    }
    assert held == expected
    assert "lambo_site/templates/portal/page.html" in held
    assert "memory/migrations/0001_initial.py" in held


def test_wheel_brings_the_command_and_the_version(wheel: Path) -> None:
    from memory.version import VERSION

    with zipfile.ZipFile(wheel) as archive:
        (entry_points,) = (name for name in archive.namelist() if name.endswith("entry_points.txt"))
        assert re.search(
            r"^lambo = memory\.cli\.main:main$", archive.read(entry_points).decode(), re.M
        )
    assert wheel.name.startswith(f"lambo-{VERSION}-")


def test_no_data_is_kept_inside_the_package() -> None:
    """What lies beside the code is gone at the next upgrade."""
    from django.conf import settings

    kept = [Path(settings.PROCESS.data_dir)]
    kept += [
        Path(database["NAME"].removeprefix("file://").partition("?")[0])
        for database in settings.DATABASES.values()
        if not database["NAME"].startswith("file:memorydb")
    ]
    for path in kept:
        assert ROOT not in path.parents
