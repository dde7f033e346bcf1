"""The programs of docs/python-client.md run against a server and print what the page says."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from children import child_environment
from memory.client import AsyncLamboClient, LamboClient
from memory.client_verbs import Verbs
from serving import serving
from source_tree import ROOT

PAGE = (ROOT / "docs" / "python-client.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(
    r"```python\n(.*?)```\n\nIt prints:\n\n```text\n(.*?)```", PAGE, flags=re.DOTALL
)


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with serving(tmp_path_factory.mktemp("client")) as server:
        yield server.data_dir


def test_every_program_of_the_page_says_what_it_prints() -> None:
    assert len(EXAMPLES) == PAGE.count("```python") == 3


@pytest.mark.slow
@pytest.mark.parametrize("place", range(len(EXAMPLES)))
def test_the_program_prints_what_the_page_says(place: int, data_dir: Path, tmp_path: Path) -> None:
    program, printed = EXAMPLES[place]
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        cwd=tmp_path,
        env=child_environment({"LAMBO_DATA_DIR": str(data_dir), "PYTHONPATH": str(ROOT)}),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stderr, done.stdout) == ("", printed)


def test_every_method_is_on_the_page_and_no_other() -> None:
    table = PAGE[PAGE.index("| method | verb |") :].partition("\n\n")[0]
    told = {name for row in table.splitlines() for name in re.findall(r"`(\w+)`", row)}
    methods = {name for name in vars(Verbs) if not name.startswith("_")}
    assert told == methods
    assert all(hasattr(kind, name) for kind in (LamboClient, AsyncLamboClient) for name in told)


def test_the_package_says_that_it_is_typed() -> None:
    assert (ROOT / "memory" / "py.typed").is_file()
