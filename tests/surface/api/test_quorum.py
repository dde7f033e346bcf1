"""The policy Quorum over HTTP: a server in token mode, agents with tokens, weeks of its clock."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from pytest_django import Settings

from memory.engine.config import Config, Policy
from surface.api.callers import OPERATOR
from surface.api.token_world import TokenWorld, token_world

DAY = 86_400
SESSION = "team"


class Team:
    """Agents with tokens, and what they write."""

    def __init__(self, world: TokenWorld) -> None:
        self._world = world
        self._count = 0

    async def let_in(self, *agents: str) -> None:
        for agent in agents:
            await self._world.make(agent, scopes=["read", "write"])

    async def ask(self, verb: str, caller: str | None, **arguments: Any) -> dict[str, Any]:
        """A call as an agent, or as the operator."""
        headers = OPERATOR if caller is None else self._world.callers[caller]
        answer = await self._world.call(verb, headers, session=SESSION, arguments=arguments)
        assert answer.status_code == 200, answer.text
        body: dict[str, Any] = answer.json()
        return body

    def wait(self, seconds: float) -> None:
        self._world.clock.advance(seconds)

    async def write(self, agent: str, content: str, *on: str) -> None:
        concept = {"content": content, "concept_type": "entity", "depends_on": list(on)}
        await self.ask("derive", agent, concepts=[concept])
        self.wait(1)

    async def rest_on(self, concept: str, *agents: str) -> None:
        """A new dependent of each, a day apart."""
        for agent in agents:
            self._count += 1
            await self.write(agent, f"work number {self._count} of {agent}", concept)
            self.wait(DAY)

    async def settle(self) -> None:
        """Sweep and evaluate until nothing moves."""
        for _ in range(3):
            await self.ask("job-run", None, job="collect", session=SESSION, force=True)
        for _ in range(10):
            ran = await self.ask("job-run", None, job="evaluate", session=SESSION, force=True)
            if not ran["did"].get("promoted", 0):
                return
        raise AssertionError("it does not come to rest")

    async def admission(self, concept: str) -> dict[str, Any]:
        told = await self.ask("inspect", "ann", focus=concept)
        found: dict[str, Any] = told["admission"]
        return found


@pytest.fixture
async def team(tmp_path: Path, settings: Settings) -> AsyncIterator[Team]:
    config = Config(promotion_policy=Policy.QUORUM)
    async with token_world(tmp_path, settings, config=config) as world:
        made = Team(world)
        await made.let_in("ann", "ben", "cy")
        made.wait(2 * DAY)
        yield made


async def test_the_work_of_two_other_agents_promotes(team: Team) -> None:
    await team.write("ann", "pillar")
    await team.rest_on("pillar", "ben", "cy", "ben", "cy", "ben", "cy")
    await team.settle()
    told = await team.admission("pillar")
    assert (told["status"], told["agents"], told["distinct"]) == ("Canonical", 2, 6)


async def test_one_identity_lifts_nothing_however_long(team: Team) -> None:
    await team.write("ann", "pillar")
    await team.rest_on("pillar", *["ann"] * 30)
    await team.settle()
    told = await team.admission("pillar")
    assert (told["status"], told["agents"], told["distinct"]) == ("None", 0, 0)

    await team.rest_on("pillar", "ben", "cy", "ben", "cy", "ben", "cy", "ben", "cy", "ben", "cy")
    await team.settle()
    assert (await team.admission("pillar"))["status"] == "Canonical"


async def test_one_token_gets_no_further_by_another_name(team: Team) -> None:
    """An agent that says it is another is refused, and counts as itself."""
    await team.write("ann", "pillar")
    concept = {"content": "borrowed", "concept_type": "entity", "depends_on": ["pillar"]}
    arguments = {"agent_id": "ben", "concepts": [concept]}
    ann = team._world.callers["ann"]
    refused = await team._world.call("derive", ann, session=SESSION, arguments=arguments)
    assert refused.status_code == 403, refused.text


async def test_two_identities_citing_each_other_lift_nothing_of_their_own(team: Team) -> None:
    await team.write("ann", "left")
    await team.write("ben", "right")
    for _ in range(10):
        await team.rest_on("left", "ben")
        await team.rest_on("right", "ann")
    await team.settle()
    for concept in ("left", "right"):
        told = await team.admission(concept)
        assert (told["status"], told["agents"]) == ("None", 1)
    assert any("outside that exchange" in reason for reason in told["reasons"])

    await team.rest_on("left", "cy")
    await team.settle()
    assert (await team.admission("left"))["status"] == "Canonical"


async def test_changing_a_token_voids_nothing_and_a_late_one_counts_from_then_on(
    team: Team,
) -> None:
    await team.write("ann", "pillar")
    await team.rest_on("pillar", "ben", "ben", "ben", "ben")
    old = team._world.ids["ben"]
    await team.let_in("ben", "dee")
    await team.ask("token-revoke", None, id=old)
    assert (await team.admission("pillar"))["agents"] == 1

    await team.rest_on("pillar", "dee")
    team.wait(DAY)
    assert (await team.admission("pillar"))["agents"] == 2
    await team.ask("token-revoke", None, id=team._world.ids["dee"])
    assert (await team.admission("pillar"))["agents"] == 1
