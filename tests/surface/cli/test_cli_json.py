"""The JSON of every verb: which fields a program may count on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from command_line import CommandLine
from git_folder import GitFolder
from memory.cli.main import all_verbs

GOLDEN = Path(__file__).parents[2] / "golden" / "cli_json.json"


def shape_of(value: Any) -> Any:
    """A value with every leaf replaced by its type; of a list, its first item stands for all."""
    if isinstance(value, dict):
        # Names that are data, not fields.
        if value and all(isinstance(item, int) for item in value.values()):
            return {"*": "int"}
        return {name: shape_of(item) for name, item in value.items()}
    if isinstance(value, list):
        return [shape_of(item) for item in value[:1]]
    return type(value).__name__


def run_every_verb(lambo: CommandLine, folder: Path) -> dict[str, Any]:
    name = lambo.session
    shapes: dict[str, Any] = {}

    def note(verb: str, *words: str) -> Any:
        data = lambo(*verb.split(), *words, "--json").json
        shapes[verb] = shape_of(data)
        return data

    note("session create", name)
    note("derive", "--concept", "user schema:entity", "--concept", "email:logic", "--key", "k")
    lambo("derive", "--concept", "user schema:entity")
    note("record-action", "write handler", "--depends-on", "user schema")
    note("reserve", "--concept", "user schema")
    note("recall", "user schema")
    note("release", "--concept", "user schema")
    note("inspect", "user schema")
    note("guard", "edit the user schema")
    note("connect", "codex", "--print")
    note("demote", "One. Two.")
    note("root-goal", "user schema")
    note("synonym", "a", "b")
    note("confirm", "user schema", "--reason", "checked")
    note("saints")
    note("concepts")
    note("events", "--kind", "promotion")
    note("stats")
    note("receipts", "k")
    note("session list")
    note("job run", "retention", "--force")
    note("job list")
    words = ("--name", "ci", "--agent", "ci", "--scope", "read", "--session", "*")
    made = note("token create", *words)
    note("token list")
    note("token revoke", made["id"])
    gone = note("retract", "user schema", "--yes", "--reason", "old")
    note("disappearances")
    note("restore", gone["target"])
    note("purge", "user schema", "--confirm", gone["target"])
    entity = {"type": "entity", "name": "Ada", "entityType": "person", "observations": ["is 36"]}
    (folder / "memory.jsonl").write_text(json.dumps(entity), encoding="utf-8")
    note("import mcp-memory", str(folder / "memory.jsonl"))
    repository = GitFolder(folder / "repository")
    repository.commit("begin", {"a.py": "import b", "b.py": ""})
    note("import git", str(repository.path))
    note("session close", name)
    note("session delete", name, "--confirm", name)
    return shapes


def test_fields_of_every_verb_are_the_documented_ones(lambo: CommandLine, tmp_path: Path) -> None:
    """A change here changes what other people's programs read: look at the difference twice."""
    shapes = run_every_verb(lambo, tmp_path)
    assert {verb.name for verb in all_verbs()} - set(shapes) == {"demo", "reembed"}
    assert shapes == json.loads(GOLDEN.read_text(encoding="utf-8"))
