"""The documentation says what the code says."""

from __future__ import annotations

import re
import tomllib
from dataclasses import fields
from enum import Enum
from pathlib import Path

import pytest
from prometheus_client.metrics import MetricWrapperBase

from lambo_site.configuration import (
    CONFIG_VARIABLE,
    DEMO_VARIABLE,
    SETTINGS,
    TOKEN_VARIABLE,
    ProcessSettings,
    Setting,
)
from lambo_site.metrics import Metrics
from memory.engine.config import BOUNDS, Bound, Config
from source_tree import ROOT, shown

DOCS = ROOT / "docs"


def rows_of(path: Path, *, columns: int | None = None) -> dict[str, list[str]]:
    """Every table row of a page by its first cell, back quotes removed from the first cell.

    With `columns`, only those of tables so wide.
    """
    rows: dict[str, list[str]] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("| ") and not line.startswith("| ---"):
            cells = [cell.strip() for cell in line.strip("|\n ").split(" | ")]
            if columns in (None, len(cells)):
                rows[cells[0].strip("`")] = cells
    return rows


def range_of(bound: Bound) -> str:
    """A bound as the tables write it."""
    return f"{bound.low:.15g} to {bound.high:.15g}" + (", whole" if bound.is_whole else "")


def default_of(value: object) -> str:
    """A default as the tables write it."""
    if value is None:
        return "never"
    if value == ():
        return "none"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, Enum):
        return f"`{value.value}`"
    return f"`{value:.15g}`" if isinstance(value, int | float) else f"`{value}`"


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.key)
def test_setting_of_a_process_is_documented_with_its_default_and_limit(setting: Setting) -> None:
    cells = rows_of(DOCS / "configuration.md", columns=5)[setting.key]
    settings = ProcessSettings(data_dir=Path("/data"))
    owner = settings.config if setting.is_engine else settings
    assert cells[1] == f"`{setting.variable}`"
    if setting.name != "data_dir":
        default = getattr(owner, setting.name)
        # Of what is not set a page says "never" where it is a time, else "none".
        expected = {"never", "none"} if default is None else {default_of(default)}
        assert cells[2] in expected
        if isinstance(default, Enum):
            assert cells[3] == ", ".join(f"`{member.value}`" for member in type(default))
    if setting.bound is not None:
        assert cells[3] == range_of(setting.bound)
    assert len(cells[4]) > 10


@pytest.mark.parametrize("name", [field.name for field in fields(Config)])
def test_setting_of_the_library_is_documented_with_its_default_and_limit(name: str) -> None:
    cells = rows_of(DOCS / "configuration.md", columns=4)[name]
    default = getattr(Config(), name)
    assert cells[1] in ({"never", "none"} if default is None else {default_of(default)})
    if name in BOUNDS:
        assert cells[2] == range_of(BOUNDS[name])
    elif isinstance(default, bool):
        assert cells[2] == "`true`, `false`"
    else:
        assert cells[2] == ", ".join(f"`{member.value}`" for member in type(default))
    assert len(cells[3]) > 5


def test_no_setting_is_documented_that_does_not_exist() -> None:
    text = (DOCS / "configuration.md").read_text(encoding="utf-8")
    known = {setting.variable for setting in SETTINGS}
    known |= {CONFIG_VARIABLE, DEMO_VARIABLE, TOKEN_VARIABLE}
    assert set(re.findall(r"LAMBO_[A-Z_]*[A-Z]", text)) == known


def test_every_variable_named_in_the_project_exists() -> None:
    """One that only documentation or a script knows would stop the server it is meant for."""
    known = {setting.variable for setting in SETTINGS}
    known |= {CONFIG_VARIABLE, DEMO_VARIABLE, TOKEN_VARIABLE}
    sources = [ROOT / "README.md", ROOT / "Makefile", *DOCS.rglob("*.md")]
    sources += [path for name in ("memory", "mcp_bridge") for path in (ROOT / name).rglob("*.py")]
    unknown = {
        f"{shown(path)}: {variable}"
        for path in sources
        for variable in re.findall(r"\bLAMBO_[A-Z_]*[A-Z]", path.read_text(encoding="utf-8"))
        if variable not in known
    }
    assert unknown == set()


def requirements() -> list[str]:
    """Every line of the project's dependencies, extras included."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"].values()
    return [*project["dependencies"], *(line for extra in extras for line in extra)]


def test_every_dependency_has_one_line_and_no_other_has() -> None:
    required = requirements()
    names = sorted(re.split(r"[\[~<>=! ]", line, maxsplit=1)[0] for line in required)
    text = (DOCS / "dependencies.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"^- `([a-z0-9-]+)`.*: .{10,}$", text, re.MULTILINE)) == names


def test_every_dependency_has_an_upper_bound() -> None:
    assert [line for line in requirements() if "<" not in line and "~=" not in line] == []


def test_every_management_command_is_documented() -> None:
    text = (DOCS / "cli.md").read_text(encoding="utf-8")
    commands = sorted(
        path.stem.replace("_", "-")
        for path in ROOT.glob("*/management/commands/*.py")
        if path.name != "__init__.py" and path.stem != "lambo"
    )
    assert commands
    assert [name for name in commands if f"lambo {name}" not in text] == []


def test_every_verb_of_the_command_line_is_documented() -> None:
    # Imported here, so that a broken verb fails this test and not the whole module.
    from memory.cli.main import SERVER_COMMANDS, all_verbs

    text = (DOCS / "cli.md").read_text(encoding="utf-8")
    names = [verb.name for verb in all_verbs()] + list(SERVER_COMMANDS)
    assert [name for name in names if f"lambo {name}" not in text] == []


def test_every_series_of_the_metrics_is_documented_with_its_type_and_labels() -> None:
    documented = {
        name: (cells[1], re.findall(r"`(\w+)`", cells[2]))
        for name, cells in rows_of(DOCS / "monitoring.md", columns=4).items()
        if name.startswith("lambo_")
    }
    metrics = Metrics()
    own = [metric for metric in vars(metrics).values() if isinstance(metric, MetricWrapperBase)]
    made = {one._name: (one._type, list(one._labelnames)) for one in own}
    made["lambo_build_info"] = ("gauge", ["version"])
    assert documented == made


def test_decisions_are_numbered_without_a_gap_and_complete() -> None:
    pages = sorted((DOCS / "adr").glob("*.md"))
    assert [page.name[:5] for page in pages] == [f"{n:04}-" for n in range(1, len(pages) + 1)]
    for page in pages:
        text = page.read_text(encoding="utf-8")
        assert re.fullmatch(r"\d{4}(-[a-z0-9]+)+\.md", page.name)
        assert text.startswith(f"# {page.name[:4]}: ")
        assert re.search(r"^Status: (accepted|superseded by \d{4})$", text, re.MULTILINE)
        for heading in ("Context", "Decision", "Alternatives refused", "Consequences"):
            assert f"\n## {heading}\n" in text, f"{page.name} lacks {heading}"


def test_links_between_pages_lead_somewhere() -> None:
    broken = []
    for page in [ROOT / "README.md", ROOT / "CHANGELOG.md", *DOCS.rglob("*.md")]:
        for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text(encoding="utf-8")):
            is_ours = "://" not in target and not target.startswith("mailto:")
            if is_ours and not (page.parent / target).exists():
                broken.append(f"{shown(page)}: {target}")
    assert broken == []
