"""Requests under keys, sent again, in disorder and changed, over a server that is killed.

What counts is the database: each key has had one effect or none, and its receipt says which.
"""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from serving import HttpClient, Refused, eventually, rows, serving

SESSION = "s"
KEYS = 200
ENDED = {"committed", "refused", "unknown"}

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


def content(number: int) -> str:
    return f"statement {number}"


def send(client: HttpClient, number: int, *, text: str | None = None, wait: bool) -> str:
    """One request under the key of a number: the code of its failure, "" or "accepted"."""
    body: dict[str, Any] = {
        "agent_id": "agent",
        "concepts": [{"content": text or content(number), "concept_type": "logic"}],
        "wait": wait,
    }
    path = f"/api/v1/sessions/{SESSION}/derive"
    answer = client.call("POST", path, body, key=f"key-{number}")
    return answer.code or ("accepted" if answer.body.get("accepted") else "")


def state(client: HttpClient, number: int) -> dict[str, Any]:
    return dict(client.receipt(SESSION, f"key-{number}").body)


def effects(data_dir: Path) -> dict[str, int]:
    """How many interactions wrote each text, from the database alone."""
    found = rows(
        data_dir,
        "select prompt_text, count(*) from lambo_interaction where session_id = ? group by 1",
        SESSION,
    )
    return dict(found)


def send_in_disorder(client_url: str, numbers: list[int], rng: random.Random) -> dict[int, str]:
    """Every request two times, crossed, half of them without waiting; what each was told last."""
    told: dict[int, str] = {}
    jobs = [(number, rng.random() < 0.5) for number in [*numbers, *numbers]]
    rng.shuffle(jobs)

    def one(job: tuple[int, bool]) -> None:
        number, wait = job
        with HttpClient(client_url) as client:
            try:
                code = send(client, number, wait=wait)
            except Refused:
                code = "lost"
            # An answer that says "done" stands, whatever a crossing request was told.
            if told.get(number) != "":
                told[number] = code

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(one, jobs))
    return told


def test_each_key_has_one_effect_and_a_receipt_that_tells_it(folder: Path) -> None:
    rng = random.Random(7)
    numbers = list(range(KEYS))
    with serving(folder) as server:
        with ThreadPoolExecutor(1) as pool:
            sending = pool.submit(send_in_disorder, server.url, numbers, rng)
            eventually(lambda: len(effects(server.data_dir)) > KEYS // 10, "some were committed")
            server.kill()
            told = sending.result()
        data_dir = server.data_dir
    before = effects(data_dir)
    assert max(before.values()) == 1
    acknowledged = {number for number, code in told.items() if code == ""}
    assert {content(number) for number in acknowledged} <= before.keys()

    with serving(folder) as server, HttpClient(server.url) as client:
        for number in numbers:
            receipt = state(client, number)
            is_stored = content(number) in before
            assert receipt["state"] == ("committed" if is_stored else "unknown"), number
            assert receipt["after_restart"] is is_stored
        # The same keys again, and another request under each of the used ones.
        for number in numbers:
            if content(number) in before:
                changed = send(client, number, text="something else", wait=number % 2 == 0)
                assert changed == "idempotency_conflict"
        send_in_disorder(server.url, numbers, rng)
        for number in numbers:
            eventually(
                lambda number=number: state(client, number)["state"] in ENDED,  # type: ignore[misc]
                f"key {number} has an end",
            )
            receipt = state(client, number)
            assert receipt["state"] == "committed"
            assert receipt["after_restart"] is (content(number) in before)
        after = effects(server.data_dir)
    assert after == {content(number): 1 for number in numbers}
