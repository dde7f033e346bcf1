"""The text of a large object is that of the object, for the chain as for the store."""

from __future__ import annotations

from graph_writing import Scribe
from memory.engine.audit_chain import columns_of_entry
from memory.engine.mutations import PutAudit
from memory.engine.written_json import WrittenJson
from memory.store import codecs


def test_the_removed_state_is_written_once_and_as_any_other_json() -> None:
    """Chain and store each made megabytes of JSON of one hub, and each held every thread up."""
    scribe = Scribe()
    scribe.derive('hub “of” \\ "all"', "spoke\nütwo")
    scribe.retract('hub “of” \\ "all"')
    (entry,) = (item.entry for item in scribe.last if isinstance(item, PutAudit))
    assert isinstance(entry.removed, WrittenJson)
    plain = codecs.json_text(dict(entry.removed))
    chained, stored = columns_of_entry(entry).removed, codecs.json_or_null(entry.removed)
    assert chained == stored == plain
    assert chained is stored
