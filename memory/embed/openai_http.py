"""Any server with an OpenAI-compatible `/v1/embeddings`: llama-server, vLLM, TEI, a hosted one.

Owns one connection pool and the way a batch is asked for. Texts leave this machine only if the
operator configured a URL elsewhere: the default is the loopback, redirects are not followed, and
proxies and credentials of the environment are not used. Refuses answers that are too long, of
another shape, of another width, or not finite; no vector is ever guessed.

Invariant: one result per text, in order. When a server refuses a batch, its halves are asked for
again, so that one text it cannot take costs only itself; a server that is away or slow is not asked
twice. Everything ends by the deadline of the call.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Sequence
from typing import Any, Final

import httpx

from memory.embed.deadline import BLANK, CLOSED, Deadline
from memory.engine.embedding import (
    EMBEDDING_GEMMA,
    Embedded,
    EmbeddingContract,
    EmbeddingFailure,
    check_vector,
)
from memory.engine.errors import InvalidConfiguration
from memory.engine.text import is_blank

KIND_OPENAI: Final = "openai"
KIND_BGE_M3: Final = "bge_m3"
KIND_GEMMA: Final = EMBEDDING_GEMMA.kind
URL_DEFAULT: Final = "http://127.0.0.1:8080"
BGE_M3_DIM: Final = 1_024

CONNECT_SECONDS: Final = 5.0
REQUEST_SECONDS: Final = 60.0
BATCH_TEXTS: Final = 32
"""Texts a request: the most that servers take in their default settings."""
REFUSALS_MAX: Final = 16
"""Refused requests of one call after which the rest is given up: the server refuses everything."""

# A number in JSON takes up to 25 characters; the rest is for what servers add around the vectors.
_BYTES_PER_NUMBER: Final = 32
_BYTES_BESIDE: Final = 65_536

# A refusal that may be about one text of the batch. llama-server says 500 when a text is too long.
_ABOUT_THE_TEXTS: Final = frozenset({400, 413, 422, 500})

_AWAY: Final = EmbeddingFailure("the embedding server cannot be reached")
_SHAPE: Final = EmbeddingFailure("the embedding server sent an answer of another shape")
_TOO_LONG: Final = EmbeddingFailure("the embedding server sent too long an answer")
_NO_ANSWER: Final = EmbeddingFailure("the embedding server sent no vector for this text")
_NO_UTF8: Final = EmbeddingFailure("the text holds an unpaired surrogate", is_final=True)


class _Refused(Exception):
    """The server answered with an error; `failure` says which."""

    def __init__(self, failure: EmbeddingFailure, *, may_be_one_text: bool) -> None:
        super().__init__(failure.sentence)
        self.failure = failure
        self.may_be_one_text = may_be_one_text


class OpenAiEmbedder:
    """The port over one embedding server."""

    def __init__(
        self,
        contract: EmbeddingContract,
        *,
        url: str = URL_DEFAULT,
        sent_model: str | None = None,
        api_key: str | None = None,
    ) -> None:
        self._contract = contract
        self._sent_model = sent_model
        self._client = httpx.Client(
            headers={"Authorization": f"Bearer {api_key}"} if api_key else {},
            trust_env=False,
            follow_redirects=False,
        )
        self._endpoint = _endpoint_of(url)

    @property
    def contract(self) -> EmbeddingContract:
        return self._contract

    def embed(self, texts: Sequence[str], *, deadline_seconds: float) -> Sequence[Embedded]:
        """See `Embedder`. A request in progress ends at the deadline, or soon after if it drips."""
        deadline = Deadline(deadline_seconds)
        results: list[Embedded] = [deadline.failure()] * len(texts)
        asked = []
        for place, text in enumerate(texts):
            failure = _find_failure(text)
            if failure is None:
                asked.append(place)
            else:
                results[place] = failure
        waiting = deque(
            asked[begin : begin + BATCH_TEXTS] for begin in range(0, len(asked), BATCH_TEXTS)
        )
        refusals = 0
        while waiting and not deadline.is_over:
            places = waiting.popleft()
            try:
                vectors = self._ask([texts[place] for place in places], deadline)
            except _Refused as refusal:
                refusals += 1
                if refusal.may_be_one_text and len(places) > 1 and refusals <= REFUSALS_MAX:
                    middle = len(places) // 2
                    waiting.extendleft((places[middle:], places[:middle]))
                    continue
                vectors = [refusal.failure] * len(places)
                if not refusal.may_be_one_text or refusals > REFUSALS_MAX:
                    # The server, not a text: the rest would meet the same.
                    for others in waiting:
                        for place in others:
                            results[place] = refusal.failure
                    waiting.clear()
            for place, vector in zip(places, vectors, strict=True):
                results[place] = vector
        return results

    def close(self) -> None:
        self._client.close()

    def _ask(self, texts: Sequence[str], deadline: Deadline) -> list[Embedded]:
        """One request; raises `_Refused` when nothing of its answer can be used."""
        body: dict[str, Any] = {"input": list(texts), "encoding_format": "float"}
        if self._sent_model is not None:
            body["model"] = self._sent_model
        left = deadline.remaining_seconds()
        timeout = httpx.Timeout(min(REQUEST_SECONDS, left), connect=min(CONNECT_SECONDS, left))
        try:
            with self._client.stream(
                "POST", self._endpoint, json=body, timeout=timeout
            ) as response:
                if response.status_code != 200:
                    raise _Refused(
                        EmbeddingFailure(f"the embedding server answered {response.status_code}"),
                        may_be_one_text=response.status_code in _ABOUT_THE_TEXTS,
                    )
                received = self._receive(response, len(texts), deadline)
        except httpx.TimeoutException as error:
            raise _Refused(deadline.failure(), may_be_one_text=False) from error
        except (httpx.HTTPError, httpx.StreamError) as error:
            raise _Refused(_AWAY, may_be_one_text=False) from error
        except RuntimeError as error:  # what httpx raises for a client that was closed
            raise _Refused(CLOSED, may_be_one_text=False) from error
        return self._read(received, len(texts))

    def _receive(self, response: httpx.Response, texts: int, deadline: Deadline) -> bytes:
        """The body, as long as it stays in bounds and in time; httpx limits only single reads."""
        limit = texts * self._contract.dim * _BYTES_PER_NUMBER + _BYTES_BESIDE
        received = bytearray()
        for block in response.iter_bytes():
            received += block
            if len(received) > limit:
                raise _Refused(_TOO_LONG, may_be_one_text=False)
            if deadline.is_over:
                raise _Refused(deadline.failure(), may_be_one_text=False)
        return bytes(received)

    def _read(self, received: bytes, texts: int) -> list[Embedded]:
        """The vectors by their `index`; without one, in the order sent if all are there."""
        try:
            rows = json.loads(received)["data"]
            indexes = [row.get("index") for row in rows]
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            raise _Refused(_SHAPE, may_be_one_text=False) from error
        if all(index is None for index in indexes) and len(rows) == texts:
            indexes = list(range(texts))
        is_usable = all(type(index) is int and 0 <= index < texts for index in indexes)
        if not is_usable or len(set(indexes)) != len(indexes):
            raise _Refused(_SHAPE, may_be_one_text=False)
        results: list[Embedded] = [_NO_ANSWER] * texts
        for index, row in zip(indexes, rows, strict=True):
            results[index] = check_vector(row.get("embedding"), self._contract.dim)
        return results


def _find_failure(text: str) -> EmbeddingFailure | None:
    if is_blank(text):
        return BLANK
    try:
        text.encode()
    except UnicodeEncodeError:
        return _NO_UTF8
    return None


def _endpoint_of(url: str) -> httpx.URL:
    """`url` with the path of the interface, which may already be written in part or in full."""
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL as error:
        raise _bad_url() from error
    if parsed.scheme not in {"http", "https"} or not parsed.host:
        raise _bad_url()
    path = parsed.path.rstrip("/")
    for written in ("/v1/embeddings", "/v1"):
        path = path.removesuffix(written)
    return parsed.copy_with(path=f"{path}/v1/embeddings")


def _bad_url() -> InvalidConfiguration:
    """The URL itself is not repeated: it may hold a password."""
    return InvalidConfiguration(
        "embedder.url must be an http or https address such as http://127.0.0.1:8080",
        setting="embedder.url",
    )
