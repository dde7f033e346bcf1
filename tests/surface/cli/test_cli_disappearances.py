"""What people do at the shell about what is gone: list it, bring it back, erase it for good."""

from __future__ import annotations

import uuid
from collections.abc import Callable

import pytest

from command_line import CommandLine
from memory.client import Answer, LamboClient
from memory.engine.errors import Forbidden

WORD = "xylophonist"
TEXT = f"the {WORD} keeps the keys"


@pytest.fixture
def filled(lambo: CommandLine) -> CommandLine:
    lambo("derive", "--content", TEXT, "--kind", "logic", "--key", "first")
    lambo("derive", "--content", "guard", "--kind", "logic", "--depends-on", TEXT)
    return lambo


def retract(lambo: CommandLine, *options: str) -> str:
    gone: str = lambo("retract", TEXT, "--yes", "--json", *options).json["target"]
    return gone


def test_what_was_taken_out_is_listed_with_who_and_why(filled: CommandLine) -> None:
    assert filled("disappearances").out == "nothing was taken out\n"
    node = retract(filled, "--reason", "out of date")
    shown = filled("disappearances")
    assert "out of date" in shown.out
    assert f"'{TEXT}'  [restorable]" in shown.out
    (row,) = filled("disappearances", "--limit", "1", "--json").json["disappearances"]
    assert (row["node_id"], row["state"], row["reason"]) == (node, "restorable", "out of date")
    older = filled("disappearances", "--after", row["audit_id"], "--json").json
    assert (older["disappearances"], older["next"]) == ([], None)


@pytest.mark.parametrize("by", ["audit_id", "node_id"])
def test_restore_brings_it_back_by_either_id(filled: CommandLine, by: str) -> None:
    retract(filled)
    (row,) = filled("disappearances", "--json").json["disappearances"]
    ran = filled("restore", row[by], "--reason", "still true")
    assert ran.code == 0, ran.err
    assert ran.out.startswith(f"restored '{TEXT}' with 2 edge(s), as None; it was None")
    assert WORD in filled("recall", "who keeps keys").out
    again = filled("restore", row[by])
    assert (again.code, "[not_removed]" in again.err) == (1, True)


def test_purge_shows_what_would_go_and_asks_for_the_id(filled: CommandLine) -> None:
    looked = filled("purge", TEXT, "--dry-run", "--json").json
    assert (looked["purged"], looked["content"]) == (False, TEXT)
    for typed in ("y\n", "yes\n", "\n", ""):
        ran = filled("purge", TEXT, typed=typed)
        assert ran.code == 1
        assert "would purge" in ran.err
        assert ran.err.endswith("nothing was purged [declined]\n")
    assert filled("stats", "--json").json["concept_count"] == 2
    ran = filled("purge", TEXT, typed=f"{looked['node_id']}\n")
    assert ran.out.startswith(f"purged {looked['node_id']}: concept 1")
    assert filled("stats", "--json").json["concept_count"] == 1


def test_purge_without_a_person_needs_the_id(filled: CommandLine) -> None:
    node = retract(filled)
    refused = filled("purge", TEXT)
    assert (refused.code, "--confirm" in refused.err) == (2, True)
    wrong = filled("purge", TEXT, "--confirm", "00000000-0000-4000-8000-000000000000")
    assert (wrong.code, "[invalid_argument]" in wrong.err) == (2, True)
    both = filled("purge", TEXT, "--dry-run", "--confirm", node)
    assert both.code == 2
    gone = filled("purge", TEXT, "--confirm", node, "--json").json
    assert (gone["purged"], gone["pending"], gone["content"]) == (True, False, None)
    (row,) = filled("disappearances", "--json").json["disappearances"]
    assert (row["state"], row["content"]) == ("purged", None)
    ran = filled("restore", row["audit_id"])
    assert (ran.code, "[text_purged]" in ran.err) == (1, True)


def test_a_purged_text_is_in_no_answer_and_in_no_file_of_the_data_folder(
    lambo: CommandLine,
) -> None:
    word = f"glockenspieler{uuid.uuid4().hex}"  # other tests share the server
    text = f"the {word} keeps the keys"
    lambo("derive", "--content", text, "--kind", "logic", "--key", "first")
    lambo("derive", "--content", "guard", "--kind", "logic", "--depends-on", text)
    node = lambo("retract", text, "--yes", "--json", "--key", "taken").json["target"]
    assert files_with(lambo, text) != []
    assert lambo("purge", node, "--confirm", node, "--json").json["pending"] is False
    for words in (
        *(["recall", word], ["recall", "what depends on the keys"], ["inspect", "guard"]),
        *(["saints"], ["stats"], ["disappearances"]),
        ["retract", text, "--yes", "--key", "taken"],  # its receipt, told again
    ):
        told = lambo(*words)
        assert told.code == 0, told.err
        assert word not in told.out, words
    assert files_with(lambo, word) == []


def files_with(lambo: CommandLine, text: str) -> list[str]:
    """The files of the server's data folder that hold the bytes of a text."""
    files = [path for path in lambo.server.data_dir.rglob("*") if path.is_file()]
    assert {path.name for path in files} >= {"lambo.sqlite3", "runtime.json"}
    return sorted(path.name for path in files if text.encode() in path.read_bytes())


@pytest.mark.parametrize("odd", ["", "*", "%", "null", " "])
@pytest.mark.parametrize("verb", ["restore", "purge", "retract"])
def test_odd_names_take_nothing_out(filled: CommandLine, verb: str, odd: str) -> None:
    options = {"restore": [], "purge": ["--dry-run"], "retract": ["--yes"]}[verb]
    ran = filled(verb, odd, *options)
    assert ran.code in (1, 2)
    assert ran.out == ""
    assert filled("stats", "--json").json["concept_count"] == 2


def test_agents_may_do_none_of_it(filled: CommandLine, client: LamboClient) -> None:
    node = retract(filled)
    acts: list[Callable[[], Answer]] = [
        lambda: client.list_disappearances(filled.session),
        lambda: client.restore(filled.session, node),
        lambda: client.purge(filled.session, node, confirm=node),
    ]
    for act in acts:
        with pytest.raises(Forbidden):
            act()
    (row,) = filled("disappearances", "--json").json["disappearances"]
    assert row["state"] == "restorable"
