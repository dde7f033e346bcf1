"""The demo: its counts, that two runs print the same, and that nothing stays behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from children import child_environment
from memory.cli import demo_cloud_ops
from memory.cli.demo_rest_api import transcript
from memory.cli.demo_script import STEPS
from memory.cli.demo_server import demo_environment
from rest_api_scenario import EXPECTED_EDGES, EXPECTED_STEPS, SCENARIO

pytestmark = pytest.mark.slow


def run_demo(folder: Path, *words: str) -> subprocess.CompletedProcess[bytes]:
    """The demo in a process of its own, its temporary files in `folder`."""
    # A user's own settings, all of them wrong for the demo.
    env = {"TMPDIR": str(folder), "LAMBO_DURABILITY": "memory", "LAMBO_DATA_DIR": "/dev/null/x"}
    return subprocess.run(
        [sys.executable, "-P", "-m", "memory.cli.main", "demo", *words],
        env=child_environment(env),
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    ran = run_demo(tmp_path_factory.mktemp("demo"), "--json")
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


@pytest.fixture(scope="module")
def outcome(printed: bytes) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(printed)
    return loaded


def test_demo_counts_are_those_of_the_scenario(outcome: dict[str, Any]) -> None:
    assert outcome["interactions"] == 12
    assert outcome["concepts"] == 27
    assert outcome["edges"] == 114
    assert outcome["edges_by_type"] == EXPECTED_EDGES
    assert outcome["blast_radius"] == 15


def test_each_step_does_what_the_scenario_says(outcome: dict[str, Any]) -> None:
    told = [
        (step["created"], step["matched"] if step["verb"] == "derive" else step["edges"])
        for step in outcome["steps"]
    ]
    assert told == list(EXPECTED_STEPS)
    assert outcome["steps"][0] == {
        "step": 1,
        "agent": "agent-a",
        "verb": "derive",
        "created": 3,
        "matched": 0,
    }
    assert outcome["steps"][2] == {
        "step": 3,
        "agent": "agent-a",
        "verb": "record-action",
        "created": 4,
        "edges": 5,
    }
    assert [step["agent"] for step in outcome["steps"]] == [agent for agent, _ in SCENARIO]


def test_last_question_finds_the_schema_first(outcome: dict[str, Any]) -> None:
    assert outcome["query"] == "update user schema"
    assert outcome["context"].startswith("user schema [Entity")


def test_importance_is_earned_by_the_evidence_alone(outcome: dict[str, Any]) -> None:
    assert outcome["canonical"] == ["user schema"]
    assert outcome["venerable"] == [
        "auth middleware",
        "handlers/users.rs",
        "middleware/session.rs",
    ]
    assert sorted(outcome["candidate"]) == [
        "handlers/login.rs",
        "middleware/jwt.rs",
        "middleware/ratelimit.rs",
        "redis backend",
        "repo/users.rs",
        "session store",
    ]
    assert outcome["audit_rows"] == outcome["steps_of_status"] == 15
    climbed = [step for step in outcome["transitions"] if step["concept"] == "user schema"]
    assert [(step["to"], step["blast_radius"]) for step in climbed] == [
        ("Candidate", None),
        ("Venerable", None),
        ("Canonical", 15),
    ]
    assert (outcome["distinct"], outcome["coverage"]) == (9, 0.818)


def test_last_recall_shows_standing_and_who_wrote_last(outcome: dict[str, Any]) -> None:
    blocks = outcome["context"].split("\n\n")
    heads = [block.splitlines()[0] for block in blocks]
    assert heads[:6] == [
        "user schema [Entity, canonical] (score 2.47, blast radius 15)",
        "add oauth_id to user schema [Resource] (score 1.51)",
        "user fixtures [Resource] (score 0.88)",
        "user serializer [Logic] (score 0.85)",
        "user validation rules [Constraint] (score 0.80)",
        "users table migration [Resource] (score 0.79)",
    ]
    assert "15 nodes depend on this" in blocks[0]
    assert "\nAgent A wrote to it 0 seconds ago\n" in blocks[0]
    forced = {block.split(" [")[0]: block.splitlines()[1][:7] for block in blocks[6:]}
    assert forced == {
        "auth middleware": "Agent A",
        "redis backend": "Agent B",
        "handlers/login.rs": "Agent A",
        "middleware/ratelimit.rs": "Agent A",
        "middleware/session.rs": "Agent B",
    }


def test_two_runs_print_the_same_bytes_and_leave_nothing(printed: bytes, tmp_path: Path) -> None:
    ran = run_demo(tmp_path, "--json")
    assert ran.stdout == printed
    assert list(tmp_path.iterdir()) == []


def test_transcript_tells_the_story_to_people(outcome: dict[str, Any]) -> None:
    text = transcript(outcome)
    for step in STEPS:
        assert step.agent in text
    assert "12 interactions, 27 concepts and 114 edges" in text
    assert (
        "Dependency 36, Derives 33, CoOccurrence 18, Temporal 11, Hierarchical 9, Causal 7" in text
    )
    assert "15 concepts rest on 'user schema'" in text
    assert "After 3 sweeps and 15 steps" in text
    assert "canonical  user schema\n" in text
    end = text[text.index("Why agent-b is told this:") :]
    assert "'user schema' comes first" in end
    assert "15 concepts rest on it" in end


# -- the second scenario ---------------------------------------------------------------------------

SERVICES = ["bastion host", "orders database", "payments api", "search cluster"]


@pytest.fixture(scope="module")
def cloud_printed(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    ran = run_demo(tmp_path_factory.mktemp("cloud"), "cloud-ops", "--json")
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_deletion_of_the_shared_group_is_stopped_and_the_four_named(cloud_printed: bytes) -> None:
    outcome = json.loads(cloud_printed)
    allowed, blocked = outcome["asked"]
    assert (allowed["action"], allowed["decision"]) == (
        "delete the unattached test volume",
        "allow",
    )
    assert (blocked["action"], blocked["decision"]) == ("delete the shared security group", "block")
    assert outcome["stranded"] == SERVICES
    assert all(name in blocked["reason"] for name in SERVICES)
    heads = [block.splitlines()[0] for block in outcome["context"].split("\n\n")]
    assert sorted(head.split(" [")[0] for head in heads) == SERVICES
    assert "answered by graph traversal (4 dependents)" in outcome["warnings"][0]


def test_second_scenario_repeats_itself_and_leaves_nothing(
    cloud_printed: bytes, tmp_path: Path
) -> None:
    assert run_demo(tmp_path, "cloud-ops", "--json").stdout == cloud_printed
    assert list(tmp_path.iterdir()) == []


def test_second_transcript_ends_with_what_is_told_and_why(cloud_printed: bytes) -> None:
    text = demo_cloud_ops.transcript(json.loads(cloud_printed))
    assert "block: without the 'shared security group', 4 concepts would be stranded" in text
    why = text[text.index("Why: ") :].splitlines()
    assert [line.strip() for line in why[1:5]] == SERVICES


def test_server_stays_for_a_person_and_its_address_is_offered(tmp_path: Path) -> None:
    """Without a person at a terminal it ends at once, the whole story told."""
    ran = run_demo(tmp_path, "cloud-ops", "--stay")
    assert ran.returncode == 0
    assert b"look around at http://127.0.0.1:" in ran.stderr
    assert b"nobody is at a terminal" in ran.stderr
    assert ran.stdout.endswith(
        b"so that one may go.\n\nThe demo's server and its folder are gone.\n"
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("words", [("no-such-story",), ("--stay", "--json")])
def test_demo_that_makes_no_sense_starts_nothing(tmp_path: Path, words: tuple[str, ...]) -> None:
    ran = run_demo(tmp_path, *words)
    assert (ran.returncode, ran.stdout) == (2, b"")
    assert b"[usage]" in ran.stderr
    assert b"starting" not in ran.stderr


def test_private_server_gets_no_setting_of_the_user(tmp_path: Path) -> None:
    environ = {"PATH": "p", "LAMBO_DURABILITY": "memory", "LAMBO_STORE": "memory"}
    env = demo_environment(environ, tmp_path / "data", tmp_path / "lambo.toml")
    port = int(env.pop("LAMBO_PORT"))
    assert port > 1023
    assert env == {
        "PATH": "p",
        "LAMBO_DATA_DIR": str(tmp_path / "data"),
        "LAMBO_CONFIG": str(tmp_path / "lambo.toml"),
        "LAMBO_DEMO": "1",
    }
    assert "LAMBO_DEMO" not in os.environ
