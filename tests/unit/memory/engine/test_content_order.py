"""Which contents a text begins with, against a search through all of them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from memory.engine.content_order import ContentOrder, fold

TEXTS = st.text(alphabet="abA ß\u00e9e\u0301", min_size=1, max_size=6)


def plain_beginnings(contents: list[str], text: str) -> list[str]:
    found = {fold(content) for content in contents if text.startswith(fold(content))}
    return sorted(found, key=len, reverse=True)


@given(st.lists(TEXTS, max_size=30), st.lists(TEXTS, max_size=30), TEXTS, st.data())
def test_beginnings_are_those_of_a_search_through_all(
    loaded: list[str], added: list[str], asked: str, data: st.DataObject
) -> None:
    order, contents = ContentOrder(), loaded + added
    order.extend(range(len(loaded)), loaded)
    for row, content in enumerate(added, len(loaded)):
        order.add(row, content)
    gone = data.draw(st.sets(st.integers(0, max(0, len(contents) - 1))))
    for row in sorted(gone & set(range(len(contents)))):
        order.remove(row, contents[row])
    kept = [content for row, content in enumerate(contents) if row not in gone]
    text = fold(asked + "ab")
    assert list(order.beginnings(text)) == plain_beginnings(kept, text)
    for content in kept:
        rows = [row for row, held in enumerate(contents) if fold(held) == fold(content)]
        assert sorted(order.rows_of(fold(content))) == [row for row in rows if row not in gone]
    assert len(order) == len({fold(content) for content in kept})


def test_a_large_load_is_sorted_as_a_whole() -> None:
    order = ContentOrder()
    names = [f"name {number * 7_919 % 20_011}" for number in range(20_011)]
    order.extend(range(len(names)), names)
    assert list(order.beginnings("name 12345 and more")) == [
        "name 12345",
        "name 1234",
        "name 123",
        "name 12",
        "name 1",
    ]


def test_case_and_form_of_accents_do_not_matter() -> None:
    assert fold("CAFE\u0301") == fold("caf\u00e9") == "caf\u00e9"
