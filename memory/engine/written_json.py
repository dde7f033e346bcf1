"""A large JSON object whose text is made once, however many ask for it.

The removed state of a hub is megabytes long. The hash chain digests its text and the store keeps
it, and making it twice holds every other thread up twice. Knows nothing of what it holds.

Invariant: the text is that of the object; whoever fills one changes it no more once it is written.
"""

from __future__ import annotations

import json
from typing import Any, Final

# Made once: making it takes as long as writing a short row. NaN has no JSON, and the engine holds
# none in what it removes.
_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))


class WrittenJson(dict[str, Any]):
    """A JSON object; `text` is compact, characters as they are."""

    _text: str | None = None

    @property
    def text(self) -> str:
        if self._text is None:
            self._text = _ENCODER.encode(self)
        return self._text
