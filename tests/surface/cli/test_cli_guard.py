"""`lambo guard`: what it answers, by which exit code, and what it does when nobody can be asked."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from children import child_environment
from command_line import CommandLine, LiveServer, Ran
from memory.cli.guard import BLOCKED
from memory.cli.identity import machine_id
from memory.client import LamboClient

HEAVY = {"django", "numpy", "pydantic", "httpx", "mcp", "ninja", "asyncio", "ssl", "email", "uuid"}
"""Each of these costs as much as the whole command may take, or a good part of it."""


@pytest.fixture
def filled(lambo: CommandLine) -> CommandLine:
    lambo("derive", "--concept", "shared security group:resource", "--concept", "spare disk:entity")
    words = ("--kind", "resource", "--depends-on", "shared security group")
    lambo("derive", "--content", "payments api", *words)
    return lambo


def run_hook(lambo: CommandLine, event: Any, *words: str) -> Ran:
    return lambo("guard", "--hook", "claude-code", *words, stdin=json.dumps(event).encode())


def bash(command: str) -> dict[str, Any]:
    return {
        "hook_event_name": "PreToolUse",
        "tool_name": "Bash",
        "tool_input": {"command": command},
    }


def test_block_is_told_with_its_reason_and_its_exit_code(filled: CommandLine) -> None:
    ran = filled("guard", "--action", "delete the shared security group")
    assert (ran.code, ran.err) == (BLOCKED, "")
    assert ran.out == (
        "block: without the 'shared security group', 1 concept would be stranded: payments api\n"
    )
    assert json.loads(filled("guard", "drop shared-security-group", "--json").out)["findings"][0][
        "dependents"
    ] == ["payments api"]


def test_warning_and_leave_end_well(filled: CommandLine) -> None:
    warned = filled("guard", "edit the shared security group")
    assert (warned.code, warned.out.partition(":")[0]) == (0, "warn")
    allowed = filled("guard", "delete the spare disk")
    assert (allowed.code, allowed.out) == (
        0,
        "allow: nothing that is remembered speaks against it\n",
    )


def test_reservation_of_another_blocks_and_ones_own_does_not(
    filled: CommandLine, client: LamboClient
) -> None:
    client.reserve(filled.session, concept="spare disk", ttl_seconds=600)
    assert filled("guard", "format the spare disk").code == BLOCKED
    assert filled("guard", "format the spare disk", "--agent", "agent-of-the-test").code == 0


def test_asking_writes_nothing_and_makes_no_session(lambo: CommandLine) -> None:
    before = lambo("stats", "--json").json
    assert lambo("guard", "delete everything").code == 0
    assert lambo("stats", "--json").json == before
    sessions = lambo("session", "list", "--json").json["sessions"]
    assert lambo.session not in {one["session"] for one in sessions}


@pytest.mark.parametrize("words", [(), ("a", "--action", "b"), ("a", "--hook", "claude-code")])
def test_what_makes_no_sense_is_a_usage_error(lambo: CommandLine, words: tuple[str, ...]) -> None:
    ran = lambo("guard", *words)
    assert (ran.code, ran.out) == (2, "")
    assert "[usage]" in ran.err


def test_action_that_no_server_takes_is_refused(lambo: CommandLine) -> None:
    ran = lambo("guard", "x" * 20_000)
    assert ran.code == 2
    assert "[invalid_argument]" in ran.err


# -- nobody to ask ---------------------------------------------------------------------------------


def closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def run_away(folder: Path, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """The command in a process of its own, with a data folder nobody serves."""
    return subprocess.run(
        [sys.executable, "-P", "-m", "memory.cli.main", "guard", *words],
        env=child_environment({"LAMBO_DATA_DIR": str(folder / "data")}),
        cwd=folder,
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
def test_without_a_server_it_allows_with_a_note_and_starts_none(tmp_path: Path) -> None:
    ran = run_away(tmp_path, "delete the shared security group")
    assert ran.returncode == 0
    assert ran.stdout.startswith("allow: nothing was checked: no memory server runs on")
    strict = run_away(tmp_path, "delete the shared security group", "--strict")
    assert strict.returncode == BLOCKED
    assert strict.stdout.startswith("block: nothing was checked")
    assert not (tmp_path / "data").exists()


@pytest.mark.slow
def test_server_that_is_gone_counts_as_none(tmp_path: Path) -> None:
    url = f"http://127.0.0.1:{closed_port()}"
    assert "does not answer at" in run_away(tmp_path, "delete it", "--url", url).stdout
    assert run_away(tmp_path, "delete it", "--url", url, "--strict").returncode == BLOCKED


@pytest.mark.slow
@pytest.mark.parametrize("said", [b"", b"SSH-2.0-x\r\n", b"HTTP/1.1 200 OK\r\n\r\nhello"])
def test_stranger_at_the_address_counts_as_none(tmp_path: Path, said: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        url = f"http://127.0.0.1:{stranger.getsockname()[1]}"
        words = [sys.executable, "-P", "-m", "memory.cli.main", "guard", "drop it", "--url", url]
        env = child_environment({"LAMBO_DATA_DIR": str(tmp_path / "data")})
        with subprocess.Popen(
            words, env=env, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        ) as asking:
            connection, _ = stranger.accept()
            with connection:
                connection.recv(65_536)
                connection.sendall(said)
            assert asking.stdout is not None
            assert asking.stdout.read().startswith(b"allow: nothing was checked")
    assert asking.returncode == 0


# -- the hook of Claude Code -----------------------------------------------------------------------


def test_hook_denies_what_is_blocked(filled: CommandLine) -> None:
    ran = run_hook(filled, bash("aws ec2 delete-security-group --name shared_security_group"))
    assert ran.code == 0
    told = json.loads(ran.out)["hookSpecificOutput"]
    assert told["hookEventName"] == "PreToolUse"
    assert told["permissionDecision"] == "deny"
    assert "would be stranded: payments api" in told["permissionDecisionReason"]


def test_hook_gives_a_warning_to_the_agent_and_decides_nothing(filled: CommandLine) -> None:
    ran = run_hook(filled, bash("terraform apply -target aws.shared_security_group"))
    told = json.loads(ran.out)["hookSpecificOutput"]
    assert set(told) == {"hookEventName", "additionalContext"}
    assert "payments api" in told["additionalContext"]


@pytest.mark.parametrize(
    ("tool", "given"),
    [
        ("Bash", {"command": "cat shared_security_group.tf"}),
        ("Write", {"file_path": "/w/notes.txt", "content": "delete the shared security group"}),
        ("mcp__lambo__lambo_recall", {"query": "delete the shared security group"}),
        ("Bash", {}),
    ],
)
def test_hook_never_allows_by_itself(filled: CommandLine, tool: str, given: dict[str, str]) -> None:
    """A decision to allow would take the place of the client's question to its user."""
    ran = run_hook(filled, {"tool_name": tool, "tool_input": given, "cwd": "/w"})
    assert (ran.code, ran.out) == (0, "{}\n")


def test_hook_looks_at_the_path_inside_the_working_folder(filled: CommandLine) -> None:
    event = {"tool_name": "Edit", "cwd": "/shared/security/group"}
    inside = {**event, "tool_input": {"file_path": "/shared/security/group/readme.md"}}
    assert run_hook(filled, inside).out == "{}\n"
    there = {
        **event,
        "tool_input": {"file_path": "/shared/security/group/shared-security-group.tf"},
    }
    assert "additionalContext" in run_hook(filled, there).out


def test_hook_looks_into_the_input_of_other_tools(filled: CommandLine) -> None:
    given = {"names": ["shared-security-group"], "options": {"force": True}}
    ran = run_hook(filled, {"tool_name": "mcp__aws__delete_group", "tool_input": given})
    assert "deny" in ran.out


def test_hook_speaks_for_the_agent_of_the_bridge(filled: CommandLine) -> None:
    own = f"claude-code-{machine_id()}"
    filled("reserve", "--concept", "spare disk", "--ttl-seconds", "600", "--agent", own)
    assert run_hook(filled, bash("rm spare disk")).out == "{}\n"
    assert "deny" in run_hook(filled, bash("rm spare disk"), "--agent", "somebody-else").out


@pytest.mark.parametrize("event", ["", "no json", "[]", '{"tool_input": 1}', "{" * 5_000])
def test_hook_that_is_told_nonsense_lets_the_agent_work(lambo: CommandLine, event: str) -> None:
    """Claude Code takes exit code 2 for a refusal: a mistake here would stop every tool."""
    ran = lambo("guard", "--hook", "claude-code", stdin=event.encode())
    assert (ran.code, ran.out) == (0, "{}\n")
    strict = lambo("guard", "--hook", "claude-code", "--strict", stdin=event.encode())
    assert strict.code == 0
    assert "deny" in strict.out


def test_hook_takes_any_text(filled: CommandLine) -> None:
    ran = run_hook(filled, bash("echo '\u202e\u0000\ud800' " + "x" * 50_000))
    assert (ran.code, ran.out) == (0, "{}\n")


# -- how light it is -------------------------------------------------------------------------------

LOADED = """
import sys
from memory.cli.main import main
code = main(sys.argv[1:])
print(code, *sorted({name.partition(".")[0] for name in sys.modules}), file=sys.stderr)
"""


@pytest.mark.slow
def test_it_loads_nothing_heavy(server: LiveServer, tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-P", "-c", LOADED, "--data-dir", str(server.data_dir), "guard", "go on"],
        env=child_environment(),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    code, *loaded = ran.stderr.split()
    assert (code, ran.stdout.partition(":")[0]) == ("0", "allow")
    assert set(loaded) & HEAVY == set()
    assert "socket" in loaded
