"""`docs/cli.md` says what the command line does: every verb, every option, every field."""

from __future__ import annotations

import json
import re
import shlex
from argparse import ArgumentParser

import pytest

from memory.cli.main import SERVER_COMMANDS, USAGE_CODES, all_verbs, main
from memory.cli.verb import Verb, add_common_options
from source_tree import ROOT

PAGE = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
FIELDS = json.loads((ROOT / "tests" / "golden" / "cli_json.json").read_text(encoding="utf-8"))
SECTIONS = {
    title: text
    for title, _, text in (part.partition("\n") for part in re.split(r"^## ", PAGE, flags=re.M)[1:])
}
VERBS = all_verbs()


def names_of(parser: ArgumentParser) -> set[str]:
    """Every option and every positional argument, as help names them."""
    names: set[str] = set()
    for action in parser._actions:
        names.update(option for option in action.option_strings if option.startswith("--"))
        if not action.option_strings:
            names.add(str(action.metavar))
    return names - {"--help"}


def common_names() -> set[str]:
    parser = ArgumentParser()
    add_common_options(parser)
    return names_of(parser)


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.name)
def test_verb_has_a_section_with_all_its_options_and_no_others(verb: Verb) -> None:
    section = SECTIONS[f"lambo {verb.name}"]
    rows = [line for line in section.splitlines() if line.startswith("| `")]
    documented = {
        name.split()[0] for row in rows for name in re.findall(r"`([^`]+)`", row.split(" | ")[0])
    }
    assert documented == names_of(verb.parser()) - common_names()


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.name)
def test_verb_has_a_working_example_and_its_fields(verb: Verb) -> None:
    section = SECTIONS[f"lambo {verb.name}"]
    blocks = re.findall(r"^```\n(.*?)^```", section, flags=re.M | re.S)
    assert blocks
    for command in "".join(blocks).replace("\\\n", " ").splitlines():
        words = shlex.split(command.rpartition("| ")[2])[1:]
        verb.parser().parse_args(words[len(verb.name.split()) :])
    told = set(re.findall(r"`([a-z_]+)`", section.partition("\nJSON:")[2]))
    assert told >= set(FIELDS.get(verb.name, {})), "a field is not documented"


def test_common_options_and_exit_codes_are_documented() -> None:
    assert set(re.findall(r"^\| `(--[a-z-]+)", SECTIONS["Common options"], re.M)) == common_names()
    codes = re.findall(r"^\| (\d+) \|", SECTIONS["What is printed, and exit codes"], re.M)
    assert codes == ["0", "1", "2", "3", "130"]
    assert "usage" in USAGE_CODES


def test_server_commands_are_documented() -> None:
    told = set(re.findall(r"^\| `lambo ([a-z-]+)`", SECTIONS["Server commands"], re.M))
    assert told == set(SERVER_COMMANDS)


def test_no_section_is_about_a_verb_that_does_not_exist() -> None:
    titles = {title.removeprefix("lambo ") for title in SECTIONS if title.startswith("lambo ")}
    assert titles == {verb.name for verb in VERBS}


def test_help_of_the_overview_fits_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--help"])
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 100
