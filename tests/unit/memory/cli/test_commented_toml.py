"""TOML, edited with its comments and its order left alone."""

from __future__ import annotations

import tomllib

import pytest

from memory.cli.commented_json import Malformed
from memory.cli.commented_toml import put, remove

PATH = ("mcp_servers", "lambo")
ENTRY = {"command": "lambo", "args": ["mcp", "--session", "s"], "env": {"A": "b"}}

KEPT = """\
# my settings
model = "o" # the fast one

[mcp_servers.other] # keep
command = "x"

[[rules]]
name = 'literal \\ text'

[tui]
theme = "dark"
"""


@pytest.mark.parametrize(
    "text", ["", KEPT, 'mcp_servers = { a = { command = "x" } } # inline\n', "[mcp_servers.a]\n"]
)
def test_table_is_put_and_taken_out_to_the_byte(text: str) -> None:
    edited = put(text, PATH, ENTRY)
    assert tomllib.loads(edited)["mcp_servers"]["lambo"] == ENTRY
    assert [line for line in text.splitlines() if line.split("}")[0] not in edited] == []
    assert remove(edited, PATH) == text


def test_comment_written_behind_the_table_stays() -> None:
    """The library takes it for a part of the table and removed it along with that."""
    edited = put("a = 1\n", PATH, ENTRY)
    assert remove(edited + "# later\n", PATH).endswith("# later\n")
    inside = edited.replace("[mcp_servers.lambo.env]", "# mine\n[mcp_servers.lambo.env]")
    with pytest.raises(Malformed):
        remove(inside, PATH)


def test_table_is_replaced_where_it_stands() -> None:
    edited = put(put(KEPT, PATH, ENTRY), PATH, {"command": "other"})
    assert tomllib.loads(edited)["mcp_servers"]["lambo"] == {"command": "other"}
    assert edited.count("[mcp_servers.lambo") == 1


@pytest.mark.parametrize("text", ["a =", "[a\n", 'mcp_servers = "none"', "mcp_servers = 3"])
def test_what_cannot_be_edited_is_refused(text: str) -> None:
    with pytest.raises(Malformed):
        put(text, PATH, ENTRY)


def test_what_is_not_there_cannot_be_taken_out() -> None:
    with pytest.raises(Malformed):
        remove(KEPT, PATH)
