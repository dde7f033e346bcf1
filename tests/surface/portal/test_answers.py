"""What the portal is told of a session: every list against what was written."""

from __future__ import annotations

import pytest

from surface.portal.conftest import SESSION, World

PANELS = ("overview", "near", "promotions", "health", "graph")


async def _filled(world: World) -> None:
    await world.write("ann", "ground")
    for number in range(3):
        await world.write("bob", f"floor {number}", "ground")
    await world.write("cleo", "lamp", "floor 0")
    await world.write("dora", "no ground", against=("ground",))


@pytest.mark.django_db
async def test_lists_say_what_was_written(world: World) -> None:
    await _filled(world)
    await world.reserve("bob", "lamp", 30)
    told = await world.ask("overview")
    assert [(one["content"], one["dependents"]) for one in told["most_depended_on"]] == [
        ("ground", 3),
        ("floor 0", 1),
    ]
    assert [(one["agent_id"], one["writes"], one["concepts"]) for one in told["agents"]] == [
        ("dora", 1, 1),
        ("cleo", 1, 1),
        ("bob", 3, 3),
        ("ann", 1, 1),
    ]
    assert [(one["content"], one["agent_id"]) for one in told["reservations"]] == [("lamp", "bob")]
    assert told["stats"]["concept_count"] == 6
    world.clock.advance(30)
    assert (await world.ask("overview"))["reservations"] == []


@pytest.mark.django_db
async def test_findings_are_those_that_hold_now(world: World) -> None:
    await _filled(world)
    memory = await world.host.memory(SESSION, create=False)
    assert memory.cycles is not None
    world.clock.advance(120)
    memory.cycles.run_round(memory.graph, world.clock.now())
    found = (await world.ask("overview"))["findings"]
    against = [one for one in found if one["condition"] == "Contradiction"]
    assert [(one["content"], one["line"]) for one in against] == [
        ("ground", "dora wrote against it: no ground")
    ]
    severities = [one["severity"] for one in found]
    assert severities == sorted(severities, reverse=True)


@pytest.mark.django_db
async def test_what_is_one_gate_away_names_that_gate(world: World) -> None:
    await _filled(world)
    world.clock.advance(3_600)
    memory = await world.host.memory(SESSION, create=False)
    told = await world.ask("near")
    assert told["judged"] == 2  # what nothing rests on is not looked at
    for one in told["near"]:
        answer = await world.client.post(
            f"/api/v1/sessions/{SESSION}/inspect",
            json={"agent_id": "ann", "focus": one["node_id"], "depth": 0},
        )
        missing = [c for c in answer.json()["admission"]["checks"] if not c["met"]]
        assert [one["sentence"]] == [check["sentence"] for check in missing]
    assert memory.graph.concept_count == 6


@pytest.mark.django_db
async def test_reach_inspect_and_recall(world: World) -> None:
    await _filled(world)
    focus = (await world.ask("inspect", focus="ground"))["focus"]
    reach = await world.ask("reach", focus=focus["node_id"])
    assert [len(step) for step in reach["steps"]] == [3, 1]
    told = await world.ask("recall", query="what depends on ground", max_tokens=200)
    names = {hit["content"] for hit in told["hits"]}
    assert names == {"floor 0", "floor 1", "floor 2"}
    assert all(hit["legs"] == ["traversal"] for hit in told["hits"])
    assert told["tokens"] == -(-2 * len(told["context"].encode()) // 7) <= told["max_tokens"] == 200


@pytest.mark.django_db
async def test_looking_changes_nothing(world: World) -> None:
    await _filled(world)
    memory = await world.host.memory(SESSION, create=False)
    before = (memory.position, memory.graph.epoch)
    for panel in PANELS:
        await world.ask(panel)
    await world.ask("recall", query="ground")
    await world.ask("inspect", focus="ground")
    await memory.settle_cycles()
    assert (memory.position, memory.graph.epoch) == before
    row = memory.graph.find_by_content("ground")
    assert row is not None
    assert memory.graph.concept_at(row).access_count == 0


@pytest.mark.django_db
@pytest.mark.parametrize("panel", PANELS)
async def test_unknown_session_is_empty_and_stays_unknown(world: World, panel: str) -> None:
    answer = await world.client.get(f"/portal/sessions/nowhere/{panel}")
    assert answer.status_code == 200
    assert answer.headers["Cache-Control"] == "no-store"
    assert (await world.client.get("/portal/sessions")).json()["sessions"] == []


@pytest.mark.parametrize(
    ("address", "status", "code"),
    [
        (f"/portal/sessions/{SESSION}/reach?focus=x", 422, "invalid_argument"),
        (f"/portal/sessions/{SESSION}/inspect?focus=nothing%20like%20it", 404, "concept_not_found"),
        (f"/portal/sessions/{SESSION}/recall?query=", 422, "invalid_argument"),
        (f"/portal/sessions/{SESSION}/recall?query=a&max_tokens=many", 422, "invalid_argument"),
        (f"/portal/sessions/{SESSION}/graph?since=yesterday", 422, "invalid_argument"),
        (f"/portal/sessions/{'x' * 256}/graph", 422, "invalid_argument"),
    ],
)
async def test_mistakes_are_told_as_everywhere(
    world: World, address: str, status: int, code: str
) -> None:
    answer = await world.client.get(address)
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)


@pytest.mark.parametrize("name", [*PANELS, "inspect", "recall", "reach", "events"])
@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
async def test_no_address_takes_anything_but_a_question(
    world: World, name: str, method: str
) -> None:
    answer = await world.client.request(method, f"/portal/sessions/{SESSION}/{name}")
    assert answer.status_code in (403, 405)


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Origin": "http://evil.example"},
        {"X-Forwarded-For": "10.0.0.1"},
    ],
)
@pytest.mark.parametrize("address", ["/", "/portal/sessions", f"/portal/sessions/{SESSION}/events"])
async def test_strangers_are_refused_as_everywhere(
    world: World, headers: dict[str, str], address: str
) -> None:
    assert (await world.client.get(address, headers=headers)).status_code == 403
