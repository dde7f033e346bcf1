"""Writing from the shell: statements, actions, chunks, reservations, and what a key does."""

from __future__ import annotations

from pathlib import Path

import pytest

from command_line import CommandLine
from memory.client import LamboClient
from memory.engine.limits import LIMIT_TEXT_BYTES

SHOP = ["--concept", "user schema:entity"]


def test_derive_says_what_became_of_each_statement(lambo: CommandLine) -> None:
    ran = lambo("derive", "--content", "tokens expire: 1 h", "--kind", "constraint")
    assert (ran.code, ran.out, ran.err) == (
        0,
        "derived 1 concept(s): 1 created, 0 matched existing\n",
        "",
    )
    again = lambo("derive", "--concept", "tokens expire: 1 h:constraint", *SHOP, "--json").json
    assert (len(again["created"]), len(again["matched"])) == (1, 1)


def test_second_statement_of_one_option_is_refused_and_nothing_is_stored(
    lambo: CommandLine,
) -> None:
    first, second = ("--content", "aa", "--kind", "entity"), ("--content", "bb", "--kind", "logic")
    refused = lambo("derive", *first, *second)
    assert (refused.code, refused.out) == (2, "")
    assert "argument --content: may be given only once" in refused.err
    assert lambo("stats", "--json").json["concept_count"] == 0


def test_parents_are_written_child_first(lambo: CommandLine) -> None:
    lambo("derive", *SHOP, "--parent-of", "email column:user schema")
    view = lambo("inspect", "user schema", "--depth", "1").out
    assert "Hierarchical\n    -> email column [Entity]" in view


def test_citations_reach_existing_concepts_alone(lambo: CommandLine) -> None:
    lambo("derive", *SHOP)
    words = ["derive", "--concept", "email is unique:constraint", "--depends-on"]
    refused = lambo(*words, "order schema")
    assert refused.code == 1
    assert refused.out == ""
    assert refused.err.endswith("[unresolved_reference]\n")
    assert lambo("stats", "--json").json["interaction_count"] == 1
    assert lambo(*words, "user schema").code == 0
    assert "1 concept(s) rest on it" in lambo("retract", "user schema", "--dry-run").out


def test_action_is_recorded_with_all_it_touched(lambo: CommandLine) -> None:
    lambo("derive", *SHOP)
    ran = lambo(
        "record-action",
        "add login endpoint",
        "--produces",
        "handlers/login.rs",
        "--modifies",
        "routes.rs",
        "--depends-on",
        "user schema",
        "--json",
    )
    assert (len(ran.json["created"]), ran.json["edges"]) == (3, 3)
    assert ran.json["summary"].startswith("recorded action 'add login endpoint'")


def test_about_time_without_a_zone_is_refused(lambo: CommandLine) -> None:
    refused = lambo("derive", *SHOP, "--event-time", "2026-01-31T12:00:00")
    assert refused.code == 2
    assert "RFC 3339" in refused.err
    assert refused.err.endswith("[invalid_argument]\n")
    assert lambo("derive", *SHOP, "--event-time", "2026-01-31T12:00:00+02:00").code == 0


def test_key_makes_a_repeated_command_one_write(lambo: CommandLine) -> None:
    first = lambo("derive", *SHOP, "--key", "deploy-42", "--json")
    second = lambo("derive", *SHOP, "--key", "deploy-42", "--json")
    assert first.json == second.json
    assert first.json["idempotency_key"] == "deploy-42"
    assert lambo("stats", "--json").json["interaction_count"] == 1
    told = lambo("derive", *SHOP, "--key", "deploy-42")
    assert told.err == "lambo derive: done before under this key; not done again\n"
    other = lambo("derive", "--concept", "another:entity", "--key", "deploy-42")
    assert other.code == 1
    assert other.err.endswith("[idempotency_conflict]\n")


def test_receipt_tells_how_a_write_ended(lambo: CommandLine) -> None:
    done = lambo("derive", *SHOP, "--json").json
    receipt = lambo("receipts", done["idempotency_key"], "--json").json
    assert receipt["state"] == "committed"
    assert receipt["reply"]["created"] == done["created"]
    assert lambo("receipts", "never used", "--json").json["state"] == "unknown"
    assert lambo("receipts", "never used").out.startswith("unknown: ")
    # Receipts are kept per agent.
    other = lambo("receipts", done["idempotency_key"], "--agent", "another", "--json").json
    assert other["state"] == "unknown"


def test_write_that_does_not_wait_is_accepted_and_told_by_its_receipt(lambo: CommandLine) -> None:
    accepted = lambo("derive", *SHOP, "--no-wait", "--key", "k1", "--json").json
    assert accepted["accepted"] is True
    assert accepted["idempotency_key"] == "k1"
    told = lambo("record-action", "add login", "--no-wait", "--key", "k2")
    assert told.out.startswith("accepted, not stored yet")
    # The same command without the option waits for the end of what was accepted.
    assert lambo("derive", *SHOP, "--key", "k1", "--json").json["created"]
    refused = lambo("derive", *SHOP, "--depends-on", "no such thing", "--no-wait")
    assert refused.err.endswith("[unresolved_reference]\n")


def test_vector_comes_from_a_file_and_is_refused_where_none_is_taken(
    lambo: CommandLine, tmp_path: Path
) -> None:
    file = tmp_path / "vector.json"
    file.write_text("[0.5, -1]")
    named = ("--vector-file", str(file), "--vector-model", "m")
    for refused in (lambo("derive", *SHOP, *named), lambo("recall", "schema", *named)):
        assert refused.code == 2
        assert "embedder.accept_client_vectors" in refused.err
    file.write_text("{}")
    assert "JSON list of numbers" in lambo("recall", "schema", *named).err
    file.write_text("[1")
    assert "is not JSON" in lambo("recall", "schema", *named).err
    assert "cannot read" in lambo("recall", "schema", "--vector-file", str(tmp_path)).err


def test_agent_of_the_command_is_the_one_recorded(lambo: CommandLine) -> None:
    lambo("derive", *SHOP)
    held = lambo("reserve", "--concept", "user schema", "--agent", "zoë", "--json").json
    assert held["agent_id"] == "zoë"
    refused = lambo("reserve", "--concept", "user schema", "--agent", "bob")
    assert refused.code == 1
    assert "reserved by 'zoë'" in refused.err
    assert refused.err.endswith("[reservation_conflict]\n")


def test_reservation_is_taken_by_id_and_given_back(lambo: CommandLine) -> None:
    node = lambo("derive", *SHOP, "--json").json["created"][0]
    ran = lambo("reserve", "--node-id", node, "--ttl-seconds", "600")
    assert ran.out.startswith(f"reserved {node} until ")
    assert "warning: reservations are advisory" in ran.err
    assert lambo("release", "--node", node).out == f"released {node}\n"
    again = lambo("release", "--concept", "user schema")
    assert again.code == 1
    assert again.err.endswith("[reservation_not_found]\n")


@pytest.mark.parametrize("ttl", ["0", "3601", "-5"])
def test_reservation_outside_its_limits_is_usage(lambo: CommandLine, ttl: str) -> None:
    lambo("derive", *SHOP)
    refused = lambo("reserve", "--concept", "user schema", f"--ttl-seconds={ttl}")
    assert refused.code == 2
    assert "ttl_seconds must be in 1..=3600" in refused.err


def test_chunk_comes_from_argument_file_or_standard_input(
    lambo: CommandLine, tmp_path: Path
) -> None:
    notes = tmp_path / "notes.txt"
    notes.write_text("First sentence. Second one.\r\nA third.", encoding="utf-8", newline="")
    assert len(lambo("demote", "One. Two.", "--json").json["created"]) == 2
    assert len(lambo("demote", "--file", str(notes), "--json").json["created"]) == 3
    group = lambo("demote", "--chunk-group-id", "g1", "--json", stdin="Über ☕.".encode()).json
    assert group["chunk_group_id"] == "g1"
    assert lambo("stats", "--json").json["concepts_by_type"] == {"Observation": 6}


def test_blank_chunk_keeps_nothing(lambo: CommandLine) -> None:
    assert lambo("demote", "  ", "--json").json["created"] == []


def test_text_over_its_limit_is_usage(lambo: CommandLine) -> None:
    refused = lambo("derive", "--content", "x" * (LIMIT_TEXT_BYTES + 1), "--kind", "logic")
    assert refused.code == 2
    assert f"exceeds {LIMIT_TEXT_BYTES} bytes" in refused.err


@pytest.mark.parametrize(
    ("text", "sign"), [("zero\u200bwidth", "U+200B"), ("bell\x07", "U+0007"), ("\udcff", "U+DCFF")]
)
def test_refused_characters_are_named_and_not_repeated(
    lambo: CommandLine, text: str, sign: str
) -> None:
    refused = lambo("derive", "--content", text, "--kind", "logic")
    assert refused.code == 2
    assert sign in refused.err
    assert text not in refused.err


def test_every_script_comes_back_as_it_was_written(lambo: CommandLine, client: LamboClient) -> None:
    texts = [
        "naïve café",
        "日本語のメモ",
        "مرحبا بالعالم",
        "👩‍👩‍👧 family",
        "Ω≈ç√",
        "'quotes' \"$x\" `y`",
    ]
    words = [word for text in texts for word in ("--concept", f"{text}:observation")]
    assert lambo("derive", *words).code == 0
    hits = client.recall(lambo.session, "anything", top_k=50)["structured"]["hits"]
    assert sorted(hit["content"] for hit in hits) == sorted(texts)
    for text in texts:
        assert text in lambo("inspect", text).out


def test_what_an_agent_wrote_the_shell_recalls(lambo: CommandLine, client: LamboClient) -> None:
    client.derive(lambo.session, [{"content": "pagination uses cursors", "concept_type": "logic"}])
    assert "pagination uses cursors [Logic, by " in lambo("recall", "pagination").out
