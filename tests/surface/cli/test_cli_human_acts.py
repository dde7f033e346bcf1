"""What the shell may do because a person sits there: remove, name goals, delete."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from command_line import CommandLine
from memory.client import Answer, LamboClient
from memory.engine.errors import Forbidden


@pytest.fixture
def filled(lambo: CommandLine) -> CommandLine:
    lambo("derive", "--concept", "user schema:entity", "--parent-of", "email column:user schema")
    return lambo


def concept_count(lambo: CommandLine) -> int:
    count: int = lambo("stats", "--json").json["concept_count"]
    return count


def test_dry_run_shows_the_impact_and_removes_nothing(filled: CommandLine) -> None:
    ran = filled("retract", "user schema", "--dry-run")
    assert ran.out.startswith("would remove 'user schema' [no status] with 2 edge(s); 1 concept(s)")
    assert "email column" in ran.out
    assert concept_count(filled) == 2


def test_retract_asks_and_takes_no_for_an_answer(filled: CommandLine) -> None:
    for typed in ("n\n", "\n", ""):
        ran = filled("retract", "user schema", typed=typed)
        assert ran.code == 1
        assert ran.out == ""
        assert "would remove 'user schema'" in ran.err
        assert ran.err.endswith("nothing was removed [declined]\n")
    assert concept_count(filled) == 2


def test_retract_removes_after_a_yes(filled: CommandLine) -> None:
    ran = filled("retract", "user schema", typed="y\n")
    assert ran.out.startswith("removed 'user schema'")
    assert concept_count(filled) == 1


def test_retract_without_a_person_needs_a_flag(filled: CommandLine) -> None:
    refused = filled("retract", "user schema")
    assert refused.code == 2
    assert "--dry-run" in refused.err
    assert concept_count(filled) == 2
    gone = filled("retract", "user schema", "--yes", "--json").json
    assert gone["removed"] is True
    assert concept_count(filled) == 1


def test_root_goal_lifts_its_concepts(filled: CommandLine) -> None:
    ran = filled("root-goal", "user schema", "ship it", "--json").json
    assert ran["goals"] == ["user schema", "ship it"]
    assert len(ran["promoted"]) == 1
    assert filled("root-goal", "--clear").out == "root goal cleared\n"


def test_synonym_joins_two_spellings(filled: CommandLine) -> None:
    assert filled("synonym", "users table", "user schema").code == 0
    again = filled("derive", "--concept", "users table:entity", "--json").json
    assert (again["created"], len(again["matched"])) == ([], 1)


def test_human_acts_are_refused_to_agents(filled: CommandLine, client: LamboClient) -> None:
    session = filled.session
    acts: list[Callable[[], Answer]] = [
        lambda: client.retract(session, "user schema"),
        lambda: client.set_root_goal(session, ["user schema"]),
        lambda: client.declare_synonym(session, "a", "b"),
        lambda: client.delete_session(session, confirm=session),
        lambda: client.reembed_session(session),
    ]
    for act in acts:
        with pytest.raises(Forbidden):
            act()
    assert concept_count(filled) == 2


def test_server_at_an_address_accepts_human_acts_with_its_own_folder(filled: CommandLine) -> None:
    by_url = ("--url", filled.server.url)
    assert filled(*by_url, "root-goal", "user schema").code == 0


def test_session_is_made_listed_and_put_away(lambo: CommandLine) -> None:
    name = lambo.session
    assert lambo("session", "create", name).out == f"created session '{name}'\n"
    again = lambo("session", "create", name)
    assert again.code == 1
    assert again.err.endswith("[session_exists]\n")
    rows = lambo("session", "list", "--after", name[:-1], "--limit", "200", "--json").json
    assert [row["open"] for row in rows["sessions"] if row["session"] == name] == [True]
    assert name in lambo("session", "list").out
    assert lambo("session", "close", name).out == f"closed session '{name}'\n"
    assert lambo("session", "close", name).code == 0
    assert lambo("session", "close", name + "x").code == 1


def test_session_is_deleted_when_its_name_is_given_twice(filled: CommandLine) -> None:
    name = filled.session
    other = name + "-other"
    filled.session = other
    filled("derive", "--concept", "kept:entity")
    filled.session = name
    refused = filled("session", "delete", name)
    assert refused.code == 2
    assert "--confirm" in refused.err
    wrong = filled("session", "delete", name, typed=f"{name} x\n")
    assert wrong.code == 2
    assert "nothing was deleted" in wrong.err
    assert concept_count(filled) == 2
    ran = filled("session", "delete", name, "--json", "--confirm", name)
    assert ran.json["deleted"]["concept"] == 2
    assert concept_count(filled) == 0
    assert filled("session", "delete", name, "--confirm", name).code == 1
    filled.session = other
    assert concept_count(filled) == 1
    assert filled("session", "delete", other, typed=f"{other}\n").code == 0


@pytest.mark.parametrize("name", ["", " ", "*", "%", "?", "..", ".", "a/b", "[a-z]", "x\ny"])
def test_name_that_looks_like_a_pattern_deletes_nothing(filled: CommandLine, name: str) -> None:
    ran = filled("session", "delete", name, "--confirm", name)
    assert ran.code == 2
    assert ran.err.endswith("[invalid_argument]\n")
    assert concept_count(filled) == 2
