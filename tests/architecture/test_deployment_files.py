"""The files of docs/deploy name what exists: paths, variables, commands, the port and the user."""

from __future__ import annotations

import configparser
import json
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from lambo_site.configuration import SETTINGS, ProcessSettings
from lambo_site.signs import READY
from memory.cli.main import MODULES, SERVER_COMMANDS
from memory.management.serving import EXIT_USAGE, STOP_SECONDS
from source_tree import PACKAGES, ROOT

DEPLOY = ROOT / "docs" / "deploy"
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
VARIABLES = {setting.variable for setting in SETTINGS}
PORT = ProcessSettings(data_dir=Path("/data")).port


def instructions() -> list[tuple[str, str]]:
    """The instructions of the container file, continued lines joined."""
    text = (DEPLOY / "Containerfile").read_text(encoding="utf-8")
    lines = re.sub(r"\\\n\s*", "", re.sub(r"^#.*\n", "", text, flags=re.MULTILINE)).splitlines()
    words = [line.partition(" ") for line in lines if line.strip()]
    return [(name, rest) for name, _, rest in words]


def of(name: str) -> list[str]:
    return [rest for kind, rest in instructions() if kind == name]


def test_container_file_has_only_instructions_that_exist() -> None:
    known = {"FROM", "WORKDIR", "COPY", "RUN", "ENV", "USER", "VOLUME", "EXPOSE", "STOPSIGNAL"}
    assert {name for name, _ in instructions()} <= known | {"HEALTHCHECK", "CMD"}


def test_container_file_copies_every_package_and_nothing_that_is_not_there() -> None:
    copied = [
        word for rest in of("COPY") if not rest.startswith("--") for word in rest.split()[:-1]
    ]
    assert [path for path in copied if not (ROOT / path).exists()] == []
    assert set(PACKAGES) <= set(copied)
    assert PROJECT["project"]["readme"] in copied


def test_container_runs_a_command_that_exists_as_a_user_without_rights() -> None:
    (command,) = (json.loads(rest) for rest in of("CMD"))
    assert command[0] in PROJECT["project"]["scripts"]
    assert command[1] in SERVER_COMMANDS
    (user,) = of("USER")
    assert any(rest.startswith("useradd ") and rest.endswith(f" {user}") for rest in of("RUN"))
    assert user != "root"
    for step in of("RUN"):
        assert shlex.split(step)[0] in {"python", "useradd", "/opt/lambo/bin/python"}
    images = {rest.split()[0] for rest in of("FROM")}
    (version,) = {tuple(map(int, re.findall(r"\d+", image))) for image in images}
    asked = tuple(map(int, re.findall(r"\d+", PROJECT["project"]["requires-python"])))
    assert version >= asked


def test_container_is_told_settings_that_exist_and_looks_at_the_right_door() -> None:
    told = dict(re.findall(r"(\w+)=(\S+)", " ".join(of("ENV"))))
    assert {name for name in told if name.startswith("LAMBO_")} <= VARIABLES
    (volume,) = of("VOLUME")
    assert told["LAMBO_DATA_DIR"].startswith(f"{volume}/")
    assert of("EXPOSE") == [str(PORT)]
    (health,) = of("HEALTHCHECK")
    code = json.loads(health.partition("CMD ")[2])[2]
    compile(code, "health check", "exec")
    assert f"127.0.0.1:{PORT}{READY}'" in code


def test_compose_file_starts_the_container_file_on_loopback_with_its_volume() -> None:
    document = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))
    assert set(document) == {"name", "services", "volumes"}
    service = document["services"]["lambo"]
    context = (DEPLOY / service["build"]["context"]).resolve()
    assert context == ROOT
    assert (context / service["build"]["dockerfile"]).is_file()
    assert service["ports"] == [f"127.0.0.1:{PORT}:{PORT}"]
    (name, target) = service["volumes"][0].split(":")
    assert name in document["volumes"]
    assert [target] == of("VOLUME")
    assert float(service["stop_grace_period"].removesuffix("s")) > STOP_SECONDS


def unit() -> configparser.ConfigParser:
    parser = configparser.ConfigParser(interpolation=None, delimiters=("=",))
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read(DEPLOY / "lambo.service", encoding="utf-8")
    return parser


def test_unit_runs_a_command_that_exists_with_settings_that_exist() -> None:
    service = unit()["Service"]
    program, verb = shlex.split(service["ExecStart"])
    assert Path(program).name in PROJECT["project"]["scripts"]
    assert verb in SERVER_COMMANDS
    told = dict(word.split("=") for word in shlex.split(service["Environment"]))
    assert set(told) <= VARIABLES
    assert told["LAMBO_DATA_DIR"] == f"/var/lib/{service['StateDirectory']}"
    assert service["StateDirectoryMode"] == "0700"
    assert float(service["TimeoutStopSec"]) > STOP_SECONDS
    assert service["RestartPreventExitStatus"] == str(EXIT_USAGE)


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd-analyze is not installed")
def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    text = (DEPLOY / "lambo.service").read_text(encoding="utf-8")
    # Only the program's path is another one than on the machine it is meant for.
    installed = tmp_path / "lambo.service"
    installed.write_text(text.replace("/opt/lambo/bin/lambo", sys.executable))
    run = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(installed)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    about_us = [line for line in run.stderr.splitlines() if "lambo.service" in line]
    assert about_us == []


def test_page_names_files_and_commands_that_exist() -> None:
    page = (ROOT / "docs" / "deployment.md").read_text(encoding="utf-8")
    assert set(re.findall(r"docs/deploy/[\w.]+", page)) == {
        "docs/deploy/compose.yaml",
        "docs/deploy/lambo.service",
    }
    named = {"token", "doctor"}
    assert named <= set(re.findall(r"(?<=lambo )[a-z]+", page))
    assert named <= set(MODULES) | set(SERVER_COMMANDS)
