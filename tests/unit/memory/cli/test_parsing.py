"""Command lines that make no sense, and those that are easily misread. No server is near."""

from __future__ import annotations

import io
import sys
from argparse import SUPPRESS, Namespace
from pathlib import Path
from typing import Any

import pytest

from memory.cli import main as command_line
from memory.cli.connection import find_data_dir, server_environment
from memory.cli.demote import read_chunk
from memory.cli.derive import KINDS, read_concepts, split_concept, split_pair
from memory.cli.derive import VERB as DERIVE
from memory.cli.main import all_verbs, main, split_common_options
from memory.cli.release import VERB as RELEASE
from memory.cli.reserve import VERB as RESERVE
from memory.cli.verb import StoreOnce, UsageError, Verb
from memory.engine.errors import InvalidConfiguration


@pytest.fixture(autouse=True)
def no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mistake in the arguments must be found before anything is started."""

    def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("a server was looked for")

    monkeypatch.setattr("memory.cli.connection.connect", refuse)


@pytest.mark.parametrize(
    ("text", "content", "kind"),
    [
        ("user schema:entity", "user schema", "entity"),
        ("note: see https://x.example/a:b:resource", "note: see https://x.example/a:b", "resource"),
        (":logic", "", "logic"),
        ("日本語：全角:observation", "日本語：全角", "observation"),
    ],
)
def test_concept_is_split_at_its_last_colon(text: str, content: str, kind: str) -> None:
    assert split_concept(text) == {"content": content, "concept_type": kind}


@pytest.mark.parametrize(
    "text", ["user schema", "user schema:", "x:Entity", "x:entity ", "", "a:b"]
)
def test_concept_without_a_kind_at_its_end_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="one of entity, logic"):
        split_concept(text)


def test_child_and_parent_are_split_at_the_first_colon() -> None:
    assert split_pair("email column:user schema: v2") == ("user schema: v2", "email column")
    for text in ("child", ":parent", "child:", "  :x", ""):
        with pytest.raises(UsageError):
            split_pair(text)


def concepts_of(*words: str) -> Any:
    return read_concepts(DERIVE.parser().parse_args(words))


def test_statement_by_content_comes_before_the_others() -> None:
    assert concepts_of("--concept", "b:logic", "--content", "a", "--kind", "entity") == [
        {"content": "a", "concept_type": "entity"},
        {"content": "b", "concept_type": "logic"},
    ]


def test_citations_belong_to_a_single_statement() -> None:
    words = ["--concept", "a:entity", "--depends-on", "x", "--depends-on", "y", "--against", "z"]
    assert concepts_of(*words) == [
        {
            "content": "a",
            "concept_type": "entity",
            "depends_on": ["x", "y"],
            "against": ["z"],
        }
    ]
    with pytest.raises(UsageError, match="single statement, not 2"):
        concepts_of(*words, "--concept", "b:entity")


@pytest.mark.parametrize(
    "words",
    [
        "",
        "frobnicate",
        "Derive",
        "--frobnicate derive",
        "--session",
        "derive",
        "derive --content x",
        "derive --kind entity",
        "derive --content x --kind Entity",
        "derive --concept x",
        "derive --concept x:entity --parent-of x",
        "derive --concept x:entity --frobnicate",
        "derive --conc x:entity",
        "recall",
        "recall x --query x",
        "recall x --top-k many",
        "recall x y",
        "inspect",
        "record-action",
        "reserve",
        "reserve --node x --concept x",
        "release",
        "retract",
        "retract x",
        "root-goal",
        "root-goal x --clear",
        "synonym x",
        "receipts",
        "demote x --file y",
        "demote --file does/not/exist",
        "session",
        "session frobnicate",
        "session create",
        "session delete x",
        "reembed x",
        "reembed --all --session x",
        "reembed --wait=no",
        "session delete x --confirm y",
        "session delete x --confirm X",
        "--session x demo",
        "demo --url http://127.0.0.1:1",
        "stats x",
    ],
)
def test_command_line_without_sense_is_exit_code_two(
    words: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    assert main(words.split()) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith("lambo")
    assert told.err.rstrip().endswith("[usage]") or "say what to do" in told.err


def test_error_names_the_verb_and_where_to_look(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["session", "create"]) == 2
    assert capsys.readouterr().err == (
        "lambo session create: the following arguments are required: NAME; "
        "see lambo session create --help [usage]\n"
    )


def test_typing_error_gets_a_suggestion(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["recal", "x"]) == 2
    assert "there is no verb 'recal'; did you mean recall?" in capsys.readouterr().err


def test_common_options_may_stand_before_the_verb_between_and_after() -> None:
    words = ["--json", "--session", "derive", "--data-dir=x", "session", "--json", "list"]
    head, rest = split_common_options(words)
    assert head == words[:4]
    assert rest == ["session", "--json", "list"]
    options = command_line._read_head(head)
    verb, own = command_line.find_verb(rest, options)
    assert verb.name == "session list"
    arguments = verb.parser().parse_args([*own, "--agent", "ann"], options)
    given = (arguments.session, arguments.data_dir, arguments.agent, arguments.json)
    assert given == ("derive", "x", "ann", True)


@pytest.mark.parametrize("verb", all_verbs(), ids=lambda verb: verb.name)
def test_option_of_one_value_is_taken_once(verb: Verb) -> None:
    actions = verb.parser()._actions
    singles = [each for each in actions if each.option_strings and type(each) is StoreOnce]
    assert {each.default for each in singles} <= {None, SUPPRESS}
    for action in singles:
        value = action.choices[0] if action.choices else "1"  # type: ignore[index]
        for option in action.option_strings:
            words = [action.option_strings[0], value, f"{option}={value}"]
            with pytest.raises(UsageError, match=f"{option}.*: may be given only once"):
                verb.parser().parse_args(words)


@pytest.mark.parametrize(
    ("words", "option"),
    [
        ("derive --content aa --kind entity --content bb --kind logic", "--content"),
        ("derive --content a --kind entity --kind entity", "--kind"),
        ("recall --query a --query b", "--query"),
        ("recall --query= --query b", "--query"),
        ("recall a --top-k 0 --top-k 0", "--top-k"),
        ("record-action --action a --action b", "--action"),
        ("reserve --node x --node-id y", "--node-id/--node"),
        ("--session a --session b stats", "--session"),
        ("--session a stats --session b", "--session"),
        ("stats --session a --session a", "--session"),
        ("--session a session --session b list", "--session"),
        ("session --url a list --url b", "--url"),
    ],
)
def test_repeated_option_is_refused_by_name(
    words: str, option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words.split()) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert f"argument {option}: may be given only once; see lambo" in told.err
    assert told.err.endswith("[usage]\n")


@pytest.mark.parametrize("words", ["--content a --kind Entity", "--concept a:Entity"])
def test_kind_that_does_not_exist_is_refused_with_all_that_do(
    words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["derive", *words.split()]) == 2
    told = capsys.readouterr().err
    assert words.split()[-2] in told
    assert all(kind in told for kind in KINDS)
    assert told.endswith("[usage]\n")


@pytest.mark.parametrize("option", ["--node", "--node-id"])
def test_node_goes_by_either_name(option: str) -> None:
    for verb in (RESERVE, RELEASE):
        assert verb.parser().parse_args([option, "x"]).node_id == "x"


def test_every_verb_has_help_with_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    for verb in all_verbs():
        assert main([*verb.name.split(), "--help"]) == 0
        told = capsys.readouterr()
        assert told.err == ""
        assert f"example:\n  lambo {verb.name}" in told.out
        assert verb.summary in told.out


def test_example_of_every_verb_can_be_parsed() -> None:
    import shlex

    for verb in all_verbs():
        words = shlex.split(verb.example)[1 + len(verb.name.split()) :]
        verb.parser().parse_args(words)


@pytest.mark.parametrize("words", [["--help"], ["-h"], ["--session", "x", "--help"]])
def test_overview_names_every_verb(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 0
    told = capsys.readouterr()
    for verb in all_verbs():
        assert f"  {verb.name} " in told.out
    assert "serve" in told.out
    assert told.err == ""


def test_version_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("lambo ")


def test_group_of_verbs_lists_its_acts(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["session", "--help"]) == 0
    assert "session delete" in capsys.readouterr().out


@pytest.mark.parametrize("raw", [b"plain", "Ünïcode 🙂".encode(), b"\xef\xbb\xbfwith a mark"])
def test_chunk_of_a_file_is_utf8_without_its_mark(tmp_path: Path, raw: bytes) -> None:
    path = tmp_path / "chunk.txt"
    path.write_bytes(raw + b"\r\nnext")
    assert read_chunk(None, str(path)) == raw.decode().removeprefix("\ufeff") + "\nnext"


def test_chunk_that_is_no_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "chunk.bin"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match="not UTF-8"):
        read_chunk(None, str(path))


def test_data_folder_of_the_option_wins_over_the_configured_one(tmp_path: Path) -> None:
    environ = {"LAMBO_DATA_DIR": str(tmp_path / "variable"), "LAMBO_CONFIG": ""}
    assert find_data_dir(Namespace(data_dir=str(tmp_path / "flag")), environ) == tmp_path / "flag"
    assert find_data_dir(Namespace(), environ) == tmp_path / "variable"
    config = tmp_path / "lambo.toml"
    config.write_text('data_dir = "from file"')
    assert find_data_dir(Namespace(config=str(config)), {}) == tmp_path / "from file"


def test_broken_configuration_is_told_before_anything_starts(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfiguration):
        find_data_dir(Namespace(), {"LAMBO_FROBNICATE": "1"})


def test_server_started_for_a_command_gets_its_options(tmp_path: Path) -> None:
    options = Namespace(config=str(tmp_path / "c.toml"), data_dir=str(tmp_path / "d"))
    env = server_environment(options, {"PATH": "x", "LAMBO_CONFIG": "other"})
    assert env == {
        "PATH": "x",
        "LAMBO_CONFIG": str(tmp_path / "c.toml"),
        "LAMBO_DATA_DIR": str(tmp_path / "d"),
    }
