"""docs/canon.md says what explanations and the `canon` commands have: no more, no less."""

from __future__ import annotations

import json
import re
import shlex
from argparse import ArgumentParser
from typing import Any

import pytest

from canon.engine.gates import Gate
from canon.management.commands.canon import SUBCOMMANDS
from canon.management.subcommand import Subcommand, prepare
from memory.reply_models import AdmissionRecord, DemotionRecord, GateRecord
from source_tree import ROOT

PAGE = (ROOT / "docs" / "canon.md").read_text(encoding="utf-8")
FIELDS = json.loads((ROOT / "tests" / "golden" / "canon_json.json").read_text(encoding="utf-8"))
DATA = {"None", "Candidate", "Venerable", "Canonical", *map(str, Gate)}
"""Keys that are data, not fields."""
SECTIONS = {
    title: text
    for title, _, text in (part.partition("\n") for part in re.split(r"^#+ ", PAGE, flags=re.M)[1:])
}


def words_in_quotes(text: str) -> set[str]:
    return set(re.findall(r"`([^`\n]+)`", text))


def parser_of(subcommand: Subcommand) -> ArgumentParser:
    parser = ArgumentParser(exit_on_error=False)
    prepare(parser, subcommand)
    return parser


def names_of(subcommand: Subcommand) -> set[str]:
    """Every option and every positional argument, as help names them."""
    return {
        action.option_strings[-1] if action.option_strings else str(action.metavar)
        for action in parser_of(subcommand)._actions
    } - {"--help"}


def keys_of(shape: Any) -> set[str]:
    if isinstance(shape, dict):
        return set(shape).union(*map(keys_of, shape.values()))
    if isinstance(shape, list):
        return set().union(*map(keys_of, shape))
    return set()


def test_every_subcommand_has_a_section_and_no_other_has() -> None:
    titles = {title.removeprefix("canon ") for title in SECTIONS if title.startswith("canon ")}
    assert titles == set(SUBCOMMANDS)


@pytest.mark.parametrize("name", SUBCOMMANDS)
def test_subcommand_is_documented_with_its_options_and_a_working_example(name: str) -> None:
    subcommand, section = SUBCOMMANDS[name], SECTIONS[f"canon {name}"]
    rows = [line for line in section.splitlines() if line.startswith("| `")]
    assert {row.split("`")[1].split()[0] for row in rows} == names_of(subcommand)
    blocks = re.findall(r"^```\n(.*?)^```", section, flags=re.M | re.S)
    for command in [*"".join(blocks).splitlines(), subcommand.example]:
        assert command.startswith(f"lambo canon {name}")
        parser_of(subcommand).parse_args(shlex.split(command)[3:])


@pytest.mark.parametrize("name", FIELDS)
def test_fields_of_a_subcommand_are_documented(name: str) -> None:
    told = words_in_quotes(SECTIONS[f"canon {name}"] + SECTIONS["The commands"])
    if name in ("inspect", "dry-run"):  # a check is described once
        told |= words_in_quotes(SECTIONS["What inspect says"])
    assert keys_of(FIELDS[name]) - DATA - told == set()


def test_fields_of_an_explanation_are_documented_and_no_others() -> None:
    rows = re.findall(r"^\| (`[a-z_`, ]+`) \|", SECTIONS["What inspect says"], flags=re.M)
    assert words_in_quotes(" ".join(rows)) == set(AdmissionRecord.model_fields)
    told = words_in_quotes(SECTIONS["What inspect says"])
    assert set(GateRecord.model_fields) | set(DemotionRecord.model_fields) <= told


def test_every_gate_is_documented() -> None:
    rows = re.findall(r"^\| `([a-z_]+)` \|", SECTIONS["The gates"], flags=re.M)
    assert sorted(rows) == sorted(map(str, Gate))
