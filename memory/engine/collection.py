"""Python's cycle collector, held off while hundreds of thousands of records are built.

The collector looks for garbage in cycles by walking over objects. Records are in no cycle, so a
walk over a whole session finds nothing, takes most of a second, and stops every thread.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

MUCH: Final = 50_000
"""New objects that are worth hiding: a collection of fewer takes a few milliseconds."""

_pauses: Final[dict[object, bool]] = {}
"""The pauses under way, and whether the collector is to be on after each."""


@contextmanager
def collection_paused() -> Iterator[None]:
    """No collection inside, and no long one afterwards because of what was built inside.

    Pauses may overlap, in any order and on any threads; the last one to end turns the collector on
    again if it was on. If much was built meanwhile, it first takes everything alive out of the
    collector's sight: otherwise the very next allocation would walk over it all.
    """
    pause = object()
    _pauses[pause] = gc.isenabled() or any(list(_pauses.values()))
    gc.disable()
    try:
        yield
    finally:
        was_enabled = _pauses.pop(pause)
        if was_enabled and not _pauses:
            if gc.get_count()[0] > MUCH:
                gc.freeze()
            gc.enable()
