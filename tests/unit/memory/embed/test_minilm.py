from __future__ import annotations

import subprocess
import sys
import unicodedata
from pathlib import Path

import pytest

from children import child_environment
from memory.embed import minilm
from memory.embed.packages import check_file
from memory.embed.wordpiece import WORD_CHARACTERS_MAX, WordPieceTokenizer
from memory.engine.embedding import EmbeddingFailure
from memory.engine.errors import InvalidConfiguration

# Made with the models' own tokenizer (the `tokenizers` package), not with the code under test.
EXPECTED = [
    (
        "The billing service retries three times",
        [101, 1996, 25640, 2326, 2128, 21011, 2093, 2335, 102],
    ),
    ("Café naïve ÀÉÎ", [101, 7668, 15743, 29347, 2072, 102]),
    ("Cafe\u0301", [101, 7668, 102]),
    (
        "src/mcp/server.rs v0.5.0",
        [
            101,
            5034,
            2278,
            1013,
            11338,
            2361,
            1013,
            8241,
            1012,
            12667,
            1058,
            2692,
            1012,
            1019,
            1012,
            1014,
            102,
        ],
    ),
    ("don't_stop!", [101, 2123, 1005, 1056, 1035, 2644, 999, 102]),
    ("你好世界 ok", [101, 100, 100, 1745, 100, 7929, 102]),
    ("Привет", [101, 1194, 16856, 10325, 25529, 15290, 22919, 102]),
    ("한국어", [101, 1469, 30006, 30021, 29991, 30014, 30020, 29999, 30008, 102]),
    ("👩\u200d💻 done", [101, 100, 2589, 102]),
    ("a\u200bb\xadc", [101, 5925, 102]),
    ("straße", [101, 2358, 27807, 102]),
    ("“quotes” — dash…", [101, 1523, 16614, 1524, 1517, 11454, 1529, 102]),
    ("x" * 101, [101, 100, 102]),
    ("tab\tand\nline", [101, 21628, 1998, 2240, 102]),
    ("İstanbul ΣΊΣΥΦΟΣ", [101, 9960, 1173, 18199, 29733, 29735, 29736, 29730, 29733, 102]),
    ("", [101, 102]),
]


@pytest.fixture(scope="module")
def tokenizer() -> WordPieceTokenizer:
    return minilm.load_tokenizer()


@pytest.mark.parametrize(("text", "ids"), EXPECTED)
def test_pieces_are_those_the_model_was_trained_on(
    tokenizer: WordPieceTokenizer, text: str, ids: list[int]
) -> None:
    assert tokenizer.encode(text) == ids


def test_special_pieces_written_in_a_text_are_ordinary_text(tokenizer: WordPieceTokenizer) -> None:
    assert 102 not in tokenizer.encode("[SEP] [CLS] [PAD]")[1:-1]


def test_pieces_past_the_length_of_the_model_are_left_out(tokenizer: WordPieceTokenizer) -> None:
    short = tokenizer.encode("word " * 254)
    assert len(short) == minilm.PIECES_MAX
    assert tokenizer.encode("word " * 5_000) == short
    assert short[-1] == 102
    long_word = "y" * WORD_CHARACTERS_MAX
    assert len(tokenizer.encode(f"{'word ' * 250} {long_word}")) == minilm.PIECES_MAX


def test_unicode_form_does_not_matter(tokenizer: WordPieceTokenizer) -> None:
    text = "Ünïcödé ÅÄÖ ﬁ 한국어"
    forms = [unicodedata.normalize(form, text) for form in ("NFC", "NFD")]
    assert tokenizer.encode(forms[0]) == tokenizer.encode(forms[1])


def test_vocabulary_without_a_special_piece_is_refused() -> None:
    with pytest.raises(InvalidConfiguration, match=r"no piece \[UNK\]"):
        WordPieceTokenizer(["[CLS]", "[SEP]", "a"], pieces_max=8)


def test_texts_the_model_cannot_read_get_no_vector_and_do_not_look_alike() -> None:
    """Unknown pieces are one to the model: two pictures would have had cosine 1."""
    embedder = minilm.build()
    try:
        results = embedder.embed(["🎉", "🔥 🔥", "ok 🎉"], deadline_seconds=30)
    finally:
        embedder.close()
    assert [isinstance(result, EmbeddingFailure) for result in results] == [True, True, False]
    assert "script" in str(results[0])


def test_altered_file_is_refused(tmp_path: Path) -> None:
    altered = tmp_path / "vocabulary.txt"
    altered.write_bytes(minilm.VOCABULARY.read_bytes().replace(b"\nhello\n", b"\nhallo\n"))
    check_file(minilm.VOCABULARY, minilm.VOCABULARY_SHA256, kind="minilm")
    with pytest.raises(InvalidConfiguration, match=r"vocabulary\.txt is not the expected file"):
        check_file(altered, minilm.VOCABULARY_SHA256, kind="minilm")
    with pytest.raises(InvalidConfiguration, match=r"cannot read its file absent\.txt"):
        check_file(tmp_path / "absent.txt", minilm.VOCABULARY_SHA256, kind="minilm")


def test_altered_vocabulary_stops_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    altered = tmp_path / "minilm-vocab.txt"
    altered.write_bytes(minilm.VOCABULARY.read_bytes() + b"more\n")
    monkeypatch.setattr(minilm, "VOCABULARY", altered)
    with pytest.raises(InvalidConfiguration, match="not the expected file"):
        minilm.build()


def test_vocabulary_comes_with_its_attribution() -> None:
    notice = (minilm.VOCABULARY.parent / "NOTICE").read_text(encoding="utf-8")
    assert "Apache License" in notice
    assert minilm.VOCABULARY_SHA256 in notice


def test_the_engine_reports_to_nobody_and_leaves_nothing_at_home(tmp_path: Path) -> None:
    """Its wheels began to send usage to their maker, with a name for the device kept at home."""
    code = (
        "from memory.embed import minilm; e = minilm.build();"
        "print(len(e.embed(['text'], deadline_seconds=60)[0])); e.close()"
    )
    # What test machines set, and what would have kept it quiet there alone.
    quiet = {"CI", "GITHUB_ACTIONS", "TF_BUILD", minilm.NO_REPORTS}
    environ = {name: text for name, text in child_environment().items() if name not in quiet}
    run = subprocess.run(
        [sys.executable, "-c", code],
        env={**environ, "HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.strip() == "384"
    assert list(tmp_path.iterdir()) == []
