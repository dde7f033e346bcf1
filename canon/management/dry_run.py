"""`canon dry-run`: what each policy would make of a session as it stands.

Owns the copies a run needs, the progress on stderr and the tables. What is promoted is decided by
`canon.engine.preview`, on a copy in memory; nothing is written.
"""

from __future__ import annotations

import time
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from canon.engine.preview import LISTED_MAX, DryRun, dry_run
from canon.engine.scoring import rescore
from canon.engine.settings import CanonSettings, Policy
from canon.management.sessions_read import (
    SessionRead,
    circumstances_of,
    configured_rules,
    find_token_ages,
    read_file,
    read_stored,
)
from canon.management.subcommand import Subcommand, add_session_option, print_json, say, table
from memory.cli.verb import SESSION_DEFAULT
from memory.engine.errors import StoreUnavailable
from memory.engine.graph import Graph
from memory.engine.showing import in_passing
from memory.engine.snapshot import load_snapshot
from memory.engine.times import Micros
from memory.engine.types import NodeId, Status
from memory.system import RandomIds

ALL: Final = "all"
PROGRESS_SECONDS: Final = 2.0
"""Between two lines of progress."""
LADDER: Final = (Status.CANONICAL, Status.VENERABLE, Status.CANDIDATE, Status.NONE)


@dataclass(frozen=True, slots=True)
class Move:
    """A concept that ends on another step than it stands on; `blast_radius` as last measured."""

    node_id: NodeId
    content: str
    from_status: Status
    to_status: Status
    blast_radius: int | None

    def as_wire(self) -> dict[str, Any]:
        return {
            "node_id": self.node_id,
            "content": self.content,
            "from_status": str(self.from_status),
            "to_status": str(self.to_status),
            "blast_radius": self.blast_radius,
        }


@dataclass(frozen=True, slots=True)
class PolicyReport:
    """One policy's dry run, and what it comes to beside the session as it stands."""

    before: Mapping[str, int]
    """Concepts by status, as they stand."""
    moves: tuple[Move, ...]
    """The highest new status first, then by content."""
    run: DryRun
    supersedes: bool

    def as_wire(self) -> dict[str, Any]:
        wire = self.run.as_wire()
        return {
            **wire,
            "supersede": self.supersedes,
            "statuses_before": dict(self.before),
            "moves": [move.as_wire() for move in self.moves],
        }


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--policy",
        choices=[*map(str, Policy), ALL],
        help="the policy to try, or all of them (default: the configured one)",
    )
    parser.add_argument(
        "--supersede", action="store_true", help="let contradicted canonical memories give way"
    )
    where = parser.add_mutually_exclusive_group()
    add_session_option(where)
    where.add_argument(
        "--from", metavar="SNAPSHOT", dest="from_path", help="a snapshot file instead of the store"
    )


def run(options: Mapping[str, Any]) -> int:
    path: str | None = options["from_path"]
    if path is None:
        found = read_stored(options["session"] or SESSION_DEFAULT)
    else:
        found = read_file(Path(path))
    rules = configured_rules()
    if options["supersede"]:
        rules = replace(rules, canonization_supersede=True)
    chosen = options["policy"] or str(rules.promotion_policy)
    policies = list(Policy) if chosen == ALL else [Policy(chosen)]
    tokens, warnings = _find_tokens(policies, is_file=path is not None)
    say("dry-run", found.state.text)
    reports = [
        report_policy(found, replace(rules, promotion_policy=policy), tokens=tokens)
        for policy in policies
    ]
    warnings = [*found.warnings, *warnings]
    if options["json"]:
        told = [report.as_wire() for report in reports]
        print_json({"state": found.state.as_wire(), "reports": told, "warnings": warnings})
        return 0
    for report in reports:
        print("\n".join(_lines(report)))
    for warning in warnings:
        say("dry-run", f"warning: {warning}")
    return 0


def _find_tokens(policies: list[Policy], *, is_file: bool) -> tuple[dict[str, Micros], list[str]]:
    """The ages of tokens where a policy asks for them; a file may stand where there are none."""
    try:
        return find_token_ages(policies)
    except StoreUnavailable as error:
        if not is_file:
            raise
        return {}, [f"no agent is known to have a token: {error.message}"]


def report_policy(
    found: SessionRead,
    rules: CanonSettings,
    *,
    tokens: Mapping[str, Micros],
    now: Micros | None = None,
) -> PolicyReport:
    """Try one policy out on a copy of its own."""
    policy = str(rules.promotion_policy)
    # Vectors decide no promotion and are most of what a session takes up.
    copy = load_snapshot(found.snapshot._replace(vectors=()))
    before = Counter({str(status): 0 for status in Status})
    before.update(str(one.status) for one in found.snapshot.concepts)
    told = dry_run(
        copy,
        circumstances_of(copy, rules, tokens=tokens, now=now),
        ids=RandomIds(),
        scores=rescore(copy).scores,
        on_cycle=_progress(policy),
    )
    if not told.is_at_rest:
        say("dry-run", f"policy {policy}: stopped after {told.cycles} cycles, not at rest")
    moves = tuple(_moves(copy, found, told))
    return PolicyReport(dict(before), moves, told, rules.canonization_supersede)


def _progress(policy: str) -> Callable[[int, int], None]:
    """Says now and then how far a run is: a large session takes minutes."""
    told_at = time.monotonic()

    def on_cycle(cycles: int, transitions: int) -> None:
        nonlocal told_at
        if time.monotonic() - told_at >= PROGRESS_SECONDS:
            told_at = time.monotonic()
            say("dry-run", f"policy {policy}: {cycles} cycles, {transitions} transitions so far")

    return on_cycle


def _moves(copy: Graph, found: SessionRead, told: DryRun) -> Iterator[Move]:
    statuses = {one.id: one.status for one in found.snapshot.concepts}
    radii: dict[NodeId, int | None] = {}
    for decision in told.decisions:
        radii[decision.transition.node_id] = decision.transition.blast_radius
    moved = []
    for node_id, radius in radii.items():
        row = copy.row_of(node_id)
        assert row is not None
        before, after = statuses[node_id], copy.status_at(row)
        if before is not after:
            moved.append(Move(node_id, in_passing(copy.content_at(row)), before, after, radius))
    yield from sorted(
        moved, key=lambda move: (LADDER.index(move.to_status), move.content, move.node_id)
    )


# -- tables ----------------------------------------------------------------------------------------


def _lines(report: PolicyReport) -> Iterator[str]:
    told = report.run
    ruled = ", superseding" if report.supersedes else ""
    rest = "at rest" if told.is_at_rest else "not at rest"
    yield f"policy {told.policy}{ruled}: {rest} after {told.cycles} cycles"
    yield table(
        ["status", "now", "then"],
        [[step, report.before[str(step)], told.statuses[str(step)]] for step in LADDER],
    )
    yield from _listed(
        "would move",
        len(report.moves),
        ["to", "from", "concept"],
        [[move.to_status, move.from_status, move.content] for move in report.moves[:LISTED_MAX]],
    )
    rows = [
        [status, gate, count]
        for status, gates in told.failures.items()
        for gate, count in gates.items()
    ]
    yield from _listed("kept back, by gate", len(rows), ["next status", "gate", "concepts"], rows)
    yield from _listed(
        "one gate away",
        told.near_miss_count,
        ["next status", "gate", "concept", "why"],
        [
            [miss.next_status, miss.check.gate, miss.content, miss.check.sentence]
            for miss in told.near_misses
        ],
    )
    yield from told.notes
    yield ""


def _listed(title: str, count: int, head: list[str], rows: list[list[object]]) -> Iterator[str]:
    yield f"{title}: {count}"
    if rows:
        yield table(head, rows)
    if count > len(rows):
        yield f"  ... and {count - len(rows)} more"


SUBCOMMAND: Final = Subcommand(
    name="dry-run",
    summary="What would be promoted, what each gate keeps back, and what is one gate away.",
    example="lambo canon dry-run --session shop --policy all",
    add_arguments=add_arguments,
    run=run,
)
