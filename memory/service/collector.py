"""Full collections that stay short, however much a server holds in RAM.

A full collection walks over every object it can see, with the event loop standing still: a second
for a large session. Here each one takes its survivors out of the collector's sight, so the next
walks only over what came since. Objects so set aside are still freed when the last reference to
them goes, as everything the service keeps is; only garbage in cycles of old objects would stay.
"""

from __future__ import annotations

import gc
from typing import Any


def keep_collections_short() -> None:
    """Set aside what is alive now, and the survivors of each full collection from now on.

    For the whole process, so a server's decision, not a library's; calling it again is harmless.
    """
    if _set_survivors_aside not in gc.callbacks:
        gc.callbacks.append(_set_survivors_aside)
    gc.collect()


def _set_survivors_aside(phase: str, info: dict[str, Any]) -> None:
    if phase == "stop" and info["generation"] == 2:
        gc.freeze()
