"""Acts of people through the admin of a real server: who did it, done once, while agents write."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from admin_pages import form_of, logged_in, make_people, messages_of
from serving import HttpClient, RunningServer, eventually, rows, serving

pytestmark = pytest.mark.slow

PEOPLE = ("chief", "olga:operator", "rita:reviewer")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with serving(tmp_path_factory.mktemp("server")) as running:
        make_people(running.data_dir, *PEOPLE)
        yield running


def write(server: RunningServer, session: str, *contents: str) -> list[str]:
    """Have an agent write concepts; their ids."""
    with HttpClient(server.url) as client:
        answer = client.derive(session, *contents)
        assert answer.status == 200, answer
        created: list[str] = answer.body["created"]
        return created


def concept_page(node_id: str, act: str) -> str:
    return f"/admin/memory/concept/{node_id}/{act}/"


def trail(server: RunningServer, session: str) -> list[tuple[str, str, str | None]]:
    """(kind, actor, reason) of a session's audit rows, in order."""
    found = rows(
        server.data_dir,
        "SELECT kind, actor, reason FROM lambo_audit_event WHERE session_id = ? ORDER BY id",
        session,
    )
    return [(str(kind), str(actor), reason) for kind, actor, reason in found]


def test_acts_of_people_while_agents_write(server: RunningServer) -> None:
    """Pages open no transaction on the engine's file, so neither side waits for the other."""
    (node_id,) = write(server, "busy", "the user schema")
    stop = threading.Event()
    refused: list[object] = []
    written = [0, 0]

    def keep_writing(writer: int) -> None:
        with HttpClient(server.url) as client:
            while not stop.is_set():
                content = f"statement {writer} number {written[writer]}"
                answer = client.derive("busy", content, agent=f"agent-{writer}")
                if answer.status != 200:
                    refused.append(answer)
                written[writer] += 1

    writers = [threading.Thread(target=keep_writing, args=(number,)) for number in (0, 1)]
    for thread in writers:
        thread.start()
    try:
        with logged_in(server.url, "olga") as olga:
            confirmed = olga.send(concept_page(node_id, "confirm"), reason="I wrote it myself")
            retracted = olga.send(concept_page(node_id, "retract"), reason="superseded")
            with HttpClient(server.url) as client:
                assert not client.find("busy", "the user schema")
            removals = olga.open("/admin/memory/session/busy/removals/")
            assert "the user schema" in removals
            ((row_id,),) = rows(
                server.data_dir,
                "SELECT id FROM lambo_audit_event WHERE kind = 'retract' AND node_id = ?",
                node_id,
            )
            address = f"/admin/memory/auditevent/{row_id}/restore/"
            assert address in removals
            restored = olga.send(address, reason="it holds after all")
            goal = olga.send("/admin/memory/session/busy/root-goal/", goals="ship the shop\r\n")
    finally:
        stop.set()
        for thread in writers:
            thread.join()
    assert refused == []
    assert min(written) > 5
    for answer in (confirmed, retracted, restored, goal):
        assert answer.status_code == 200, answer.text
        assert answer.history, "an act that was done leads back to a page"
        assert len(messages_of(answer.text)) == 1, messages_of(answer.text)
    with HttpClient(server.url) as client:
        assert client.find("busy", "the user schema")
    acts = [row for row in trail(server, "busy") if row[1] == "admin:olga"]
    assert acts == [
        ("confirm", "admin:olga", "I wrote it myself"),
        ("retract", "admin:olga", "superseded"),
        ("restore", "admin:olga", "it holds after all"),
        ("root-goal", "admin:olga", None),
    ]


def test_looking_at_the_page_of_an_act_changes_nothing(server: RunningServer) -> None:
    (node_id,) = write(server, "looked", "a thing")
    with logged_in(server.url, "chief") as chief:
        pages = {
            act: chief.open(concept_page(node_id, act)) for act in ("confirm", "retract", "purge")
        }
        assert "What the server says" in pages["retract"]
        assert "What the server says" in pages["purge"]
    assert trail(server, "looked") == []
    with HttpClient(server.url) as client:
        assert client.find("looked", "a thing")


def test_button_that_is_pressed_twice_does_it_once(server: RunningServer) -> None:
    (node_id,) = write(server, "twice", "a thing")
    address = concept_page(node_id, "confirm")
    with logged_in(server.url, "rita") as rita:
        form = form_of(rita.open(address))
        for _ in range(2):
            assert rita.send_again(address, form, reason="sure").status_code == 200
    assert trail(server, "twice") == [("confirm", "admin:rita", "sure")]


@pytest.mark.parametrize("act", ["retract", "purge"])
def test_removal_that_is_pressed_twice_leads_to_what_is_left_of_the_concept(
    server: RunningServer, act: str
) -> None:
    session = f"{act}-twice"
    (node_id,) = write(server, session, "a thing")
    address = concept_page(node_id, act)
    words = {"reason": "sure", **({"is_sure": "on"} if act == "purge" else {})}
    with logged_in(server.url, "chief") as chief:
        form = form_of(chief.open(address))
        first, second = (chief.send_again(address, form, **words) for _ in range(2))
        assert (first.status_code, second.status_code) == (200, 200)
        assert second.url.path == f"/admin/memory/concept/{node_id}/change/"
        assert "A concept that is gone" in second.text
        (told,) = messages_of(second.text)
        assert told.startswith("This was done already: the concept was taken out")
        assert f"by admin:chief ({act})" in told
        other = concept_page(node_id, "confirm")
        late = chief.send_again(other, form)
        assert messages_of(late.text)[0].startswith("Nothing was done: the concept was taken out")
    with logged_in(server.url, "rita") as rita:  # who may not do it is told nothing of it
        (live,) = write(server, session, "another thing")
        form = form_of(rita.open(concept_page(live, "confirm")))
        refused = rita.send_again(address, form, **words)
        assert refused.status_code == 403
    assert [row[0] for row in trail(server, session)] == [act]


def test_restoration_that_is_pressed_twice_does_it_once(server: RunningServer) -> None:
    (node_id,) = write(server, "back-twice", "a thing")
    with logged_in(server.url, "olga") as olga:
        olga.send(concept_page(node_id, "retract"), reason="sure")
        ((row_id,),) = rows(
            server.data_dir,
            "SELECT id FROM lambo_audit_event WHERE kind = 'retract' AND node_id = ?",
            node_id,
        )
        address = f"/admin/memory/auditevent/{row_id}/restore/"
        form = form_of(olga.open(address))
        for _ in range(2):
            answer = olga.send_again(address, form, reason="back")
            assert answer.status_code == 200
            assert answer.url.path == f"/admin/memory/concept/{node_id}/change/"
    assert [row[0] for row in trail(server, "back-twice")] == ["retract", "restore"]


def test_refusal_of_the_server_is_told_and_leaves_the_form(server: RunningServer) -> None:
    (node_id,) = write(server, "refused", "a thing")
    address = concept_page(node_id, "retract")
    with logged_in(server.url, "olga") as olga:
        form = form_of(olga.open(address))
        with HttpClient(server.url) as client:
            assert client.derive("refused", "something else").status == 200
        assert olga.send_again(address, form, reason="first").status_code == 200
        other = {**form, "key": "another-page-of-the-same-act"}
        answer = olga.send_again(address, other, reason="second")
    assert answer.status_code == 200
    (told,) = messages_of(answer.text)
    assert told.startswith("This was done already: the concept was taken out")
    assert [row[2] for row in trail(server, "refused")] == ["first"]


def test_purge_from_a_page_leaves_no_text_in_the_admins_own_log(server: RunningServer) -> None:
    (node_id,) = write(server, "erased", "the sentence that must go")
    with logged_in(server.url, "chief") as chief:
        answer = chief.send(concept_page(node_id, "purge"), is_sure="on", reason="asked to")
        assert answer.status_code == 200
        assert "Nothing of it is kept" in answer.text
        assert node_id in chief.open("/admin/")
    for name in ("django.sqlite3", "lambo.sqlite3"):
        for path in server.data_dir.glob(f"{name}*"):
            assert b"the sentence that must go" not in path.read_bytes(), path.name


# -- dead letters ------------------------------------------------------------------------------


def test_dead_letter_is_sent_again_once(server: RunningServer) -> None:
    write(server, "letters", "a thing")
    arguments = {
        "concepts": [
            {"content": "the lost one", "concept_type": "Logic", "depends_on": [], "against": []}
        ],
        "parent_of": [],
        "event_time": None,
    }
    kept = json.dumps(arguments, separators=(",", ":"))
    with closing(sqlite3.connect(server.data_dir / "lambo.sqlite3", timeout=30)) as engine, engine:
        engine.execute(
            "INSERT INTO lambo_dead_letter (id, session_id, position, verb, agent_id, key, digest,"
            " arguments, error, created_at)"
            " VALUES (7, 'letters', 9, 'derive', 'ann', 'lost-key', 'd', ?, 'refused', 1)",
            [kept],
        )
    address = "/admin/memory/deadletter/7/retry/"
    with logged_in(server.url, "olga") as olga:
        for _ in range(2):
            answer = olga.send(address)
            assert answer.status_code == 200
            assert answer.history
    stored = rows(
        server.data_dir,
        "SELECT origin_agent, concept_type FROM lambo_concept WHERE content = 'the lost one'",
    )
    assert stored == [("ann", "Logic")]
    with HttpClient(server.url) as client:
        assert client.receipt("letters", "lost-key", agent="ann").body["state"] == "committed"


# -- tokens ------------------------------------------------------------------------------------


def test_secret_of_a_token_is_shown_once(server: RunningServer) -> None:
    with logged_in(server.url, "chief") as chief:
        made = chief.send(
            "/admin/memory/token/create/",
            name="ci of the shop",
            agent="ci",
            scopes=["read", "write"],
            sessions="shop-*\r\nlab\r\n",
            days="30",
        )
        assert made.status_code == 200
        assert "no-store" in made.headers["cache-control"]
        token = made.text.partition("lambo-secret")[2].partition(">")[2].partition("<")[0]
        _, token_id, secret = token.split("_", 2)
        page = chief.open(f"/admin/memory/token/{token_id}/change/")
        everywhere = [page, chief.open("/admin/memory/token/"), chief.open("/admin/")]
        assert all(secret not in shown for shown in everywhere)
        assert "shop-*, lab" in page
        assert "read, write" in page
        revoked = chief.send(f"/admin/memory/token/{token_id}/revoke/")
        assert "revoked at" in revoked.text
        assert "/revoke/" not in revoked.text
    assert secret not in server.log


# -- pages over the running server -------------------------------------------------------------


def test_pages_show_what_only_the_server_knows(server: RunningServer) -> None:
    (node_id,) = write(server, "live", "a living thing")
    with logged_in(server.url, "rita") as rita:
        session = rita.open("/admin/memory/session/live/change/")
        assert '<th scope="row">concept count</th><td>1</td>' in session
        page = rita.open(f"/admin/memory/concept/{node_id}/change/")
        assert "Why is not known now" not in page
        assert "Not passed.</strong> It has outlived 0 sweeps of garbage collection" in page
        assert "/retract/" not in page
        assert "/confirm/" in page


def test_export_is_streamed_by_the_server(server: RunningServer) -> None:
    (node_id,) = write(server, "streamed", "a thing")
    with logged_in(server.url, "olga") as olga:
        olga.send(concept_page(node_id, "confirm"), reason="=cmd|' /C calc'!A0")
        table = olga.http.get("/admin/memory/auditevent/export.csv?session=streamed")
        document = olga.http.get("/admin/memory/auditevent/export.json?session=streamed")
    assert "transfer-encoding" in table.headers
    assert "'=cmd" in table.text
    assert [row["actor"] for row in document.json()] == ["admin:olga"]


def test_pages_work_where_every_caller_needs_a_token(tmp_path: Path) -> None:
    """The pages are on the server's own machine: they show the operator secret, not a token."""
    with serving(tmp_path) as first:
        make_people(first.data_dir, "chief")
        (node_id,) = write(first, "guarded", "a thing")
        assert first.stop().code == 0
    with serving(tmp_path, LAMBO_AUTH="tokens") as guarded:
        eventually(guarded.is_answering, "the server answers")
        with logged_in(guarded.url, "chief") as chief:
            page = chief.open("/admin/memory/session/guarded/change/")
            assert "Live figures are unavailable" not in page
            shown = chief.open(f"/admin/memory/concept/{node_id}/change/")
            assert "Why is not known now" not in shown
            answer = chief.send(concept_page(node_id, "confirm"))
            assert answer.history
        assert trail(guarded, "guarded") == [("confirm", "admin:chief", None)]
