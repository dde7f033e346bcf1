"""The real clock and the real ids."""

from __future__ import annotations

import uuid

from memory.engine.times import SECOND
from memory.system import RandomIds, SystemClock


def test_the_clock_counts_microseconds_and_the_other_only_grows() -> None:
    clock = SystemClock()
    first, before = clock.now(), clock.monotonic()
    assert abs(clock.now() - first) < 60 * SECOND
    assert first > 1_600_000_000 * SECOND
    assert clock.monotonic() >= before


def test_random_ids_are_distinct_uuids_of_version_4() -> None:
    ids = RandomIds()
    made = {ids.next_id() for _ in range(1_000)}
    assert len(made) == 1_000
    for text in made:
        parsed = uuid.UUID(text)
        assert (str(parsed), parsed.version, parsed.variant) == (text, 4, uuid.RFC_4122)


def test_ordered_ids_ascend_within_a_millisecond_and_when_the_clock_falls() -> None:
    ids = RandomIds()
    now = 1_700_000_000 * SECOND
    made = [ids.next_ordered_id(now) for _ in range(10_000)]
    made += [ids.next_ordered_id(now - 5 * SECOND) for _ in range(100)]
    made += [ids.next_ordered_id(now + 60 * SECOND), ids.next_ordered_id(now + 61 * SECOND)]

    assert made == sorted(set(made))
    for text in (made[0], made[-1]):
        parsed = uuid.UUID(text)
        assert (str(parsed), parsed.version, parsed.variant) == (text, 7, uuid.RFC_4122)
    assert uuid.UUID(made[-1]).int >> 80 == (now + 61 * SECOND) // 1000


def test_ordered_ids_stay_uuids_before_1970_and_in_the_year_9999() -> None:
    for now in (-62_135_596_800 * SECOND, 253_402_300_799 * SECOND):
        text = RandomIds().next_ordered_id(now)
        assert uuid.UUID(text).version == 7
