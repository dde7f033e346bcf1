"""Reading from the shell: data on stdout, talk on stderr, and nothing created by looking."""

from __future__ import annotations

import pytest

from command_line import CommandLine


@pytest.fixture
def filled(lambo: CommandLine) -> CommandLine:
    """A session with a schema, its column and an action on top."""
    lambo("derive", "--concept", "user schema:entity", "--parent-of", "email column:user schema")
    lambo("record-action", "write users handler", "--depends-on", "user schema")
    return lambo


def test_recall_prints_the_context_block(filled: CommandLine) -> None:
    ran = filled("recall", "user schema")
    assert ran.code == 0
    assert ran.out.startswith("user schema [Entity, by ")
    assert ran.err == ""
    data = filled("recall", "--query", "user schema", "--json").json
    assert data["context"] == ran.out.rstrip("\n")
    assert data["hits"][0]["content"] == "user schema"


def test_recall_answers_what_depends_on_a_concept(filled: CommandLine) -> None:
    assert "write users handler" in filled("recall", "what depends on user schema").out


def test_reservation_cut_off_by_the_budget_is_told_first(filled: CommandLine) -> None:
    filled("reserve", "--concept", "user schema")
    ran = filled("recall", "user schema", "--max-tokens", "1")
    assert ran.out.startswith("⚑ ")
    assert "reserved" in ran.out.lower()


def test_answer_that_fits_nothing_says_so(filled: CommandLine) -> None:
    ran = filled("recall", "user schema", "--max-tokens", "1")
    assert ran.code == 0
    assert ran.out == "⚑ recall: 3 hits left out of the text; raise max_tokens\n"
    data = filled("recall", "user schema", "--max-tokens", "1", "--json").json
    assert (data["context"], data["left_out"]) == ("", 3)
    assert data["warnings"] == ["recall: 3 hits left out of the text; raise max_tokens"]


@pytest.mark.parametrize(
    ("flag", "value"),
    [("--top-k", "0"), ("--top-k", "101"), ("--max-tokens", "0"), ("--traversal-depth", "6")],
)
def test_recall_outside_its_limits_is_usage(lambo: CommandLine, flag: str, value: str) -> None:
    refused = lambo("recall", "x", flag, value)
    assert refused.code == 2
    assert flag[2:].replace("-", "_") in refused.err
    assert refused.err.endswith("[invalid_argument]\n")


@pytest.fixture
def layered(filled: CommandLine) -> CommandLine:
    """The same before another session, `<its name>-behind`, in which the user schema is used."""
    own = filled.session
    filled.session = f"{own}-behind"
    filled("record-action", "use it in the shop", "--depends-on", "user schema")
    filled("reserve", "--concept", "use it in the shop")
    filled.session = own
    return filled


def test_recall_looks_at_the_layers_it_is_told(layered: CommandLine) -> None:
    own = layered.session
    behind = f"{own}-behind"
    asked = ("recall", "what depends on user schema")
    ran = layered(*asked, "--layer", f"{behind}:0.7:0.1", "--layer", "nowhere")
    assert f"⚑ recall: layer nowhere is unavailable; results are from {own}, {behind}" in ran.out
    lines = [line for line in ran.out.splitlines() if line.startswith("use it in the shop [")]
    assert [line.endswith(f" from {behind}") for line in lines] == [True]
    hits = layered(*asked, "--layer", behind, "--json").json["hits"]
    assert {hit.get("session") for hit in hits} == {None, behind}


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("a:0", "layers[0].weight"),
        ("a:0.5:2", "layers[0].min_similarity"),
        ("a:x", "what follows the last colon is no number"),
        ("", "layers[0].session"),
    ],
)
def test_layer_that_cannot_be_is_usage(lambo: CommandLine, given: str, told: str) -> None:
    refused = lambo("recall", "x", "--layer", given)
    assert refused.code == 2
    assert told in refused.err


def test_concepts_are_listed_page_by_page(filled: CommandLine) -> None:
    first = filled("concepts", "--limit", "2")
    lines = first.out.splitlines()
    assert len(lines) == 3
    after = lines[-1].removeprefix("more: --after ")
    rest = filled("concepts", "--after", after)
    listed = sorted(
        line.split("  ")[1].split(" [")[0] for line in lines[:2] + rest.out.splitlines()
    )
    assert listed == ["email column", "user schema", "write users handler"]


def test_a_filter_is_all_conditions_or_any(filled: CommandLine) -> None:
    def found(*words: str) -> list[str]:
        rows = filled("concepts", *words, "--json").json["concepts"]
        return sorted(row["content"] for row in rows)

    both = ("--type", "resource", "--status", "canonical")
    assert found(*both) == []
    assert found(*both, "--any") == ["write users handler"]
    assert found("--type", "resource", "--type", "entity", "--written-by", "nobody") == []
    recalled = filled("recall", "user schema", "--type", "resource", "--json").json["hits"]
    assert [hit["content"] for hit in recalled] == ["write users handler"]


def test_inspect_shows_standing_and_surroundings(filled: CommandLine) -> None:
    view = filled("inspect", "user schema", "--depth", "1").out
    assert view.startswith("focus: user schema [Entity]\nblast radius: 2\n")
    data = filled("inspect", "--focus", "user schema", "--json").json
    assert data["focus"]["blast_radius"] == 2


def test_focus_that_fits_several_is_usage_and_lists_them(filled: CommandLine) -> None:
    refused = filled("inspect", "e")
    assert refused.code == 2
    assert "email column" in refused.err
    assert refused.err.endswith("[ambiguous_focus]\n")
    missing = filled("inspect", "no such thing")
    assert missing.code == 1
    assert missing.err == "lambo inspect: no concept matching 'no such thing' [concept_not_found]\n"


def test_partial_focus_is_announced_once(filled: CommandLine) -> None:
    ran = filled("inspect", "handler")
    assert ran.out.startswith("resolved 'handler' → 'write users handler'")
    assert ran.err == ""


def test_stats_are_lines_for_people_and_fields_for_programs(filled: CommandLine) -> None:
    assert "3 concepts" in filled("stats").out
    data = filled("stats", "--json").json
    assert (data["session"], data["concept_count"]) == (filled.session, 3)
    assert data["edges_by_type"]["Dependency"] == 1


def test_saints_are_few_at_first(filled: CommandLine) -> None:
    assert filled("saints").out == f"0 canonical memories in session '{filled.session}'\n"
    assert filled("saints", "--json").json["saints"] == []


def test_looking_at_an_unknown_session_creates_nothing(lambo: CommandLine) -> None:
    empty = lambo("recall", "anything")
    assert (empty.code, empty.out, empty.err) == (0, "", "lambo recall: nothing found\n")
    assert lambo("stats", "--json").json["concept_count"] == 0
    listed = lambo("session", "list", "--json").json["sessions"]
    assert lambo.session not in {row["session"] for row in listed}


def test_server_at_an_address_is_asked_there(lambo: CommandLine) -> None:
    assert lambo("--url", lambo.server.url, "stats").code == 0


def test_address_without_a_server_is_a_failure(lambo: CommandLine) -> None:
    ran = lambo("--url", "http://127.0.0.1:9", "stats")
    assert ran.code == 1
    assert ran.err.endswith("does not answer at http://127.0.0.1:9 [server_unreachable]\n")
    assert lambo("--url", "nonsense", "stats").code == 2
