"""Proving every audit row of a database: which sessions, page by page, and what came of it.

Used by the daily job and by the command; both give it a trail to read, the chain key and the
anchors. It blocks, and may run beside a server: what a server does in between looks like a fault
only once, so a session with a fault is read again before it counts.

Invariant: at most a page of rows is held at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from memory.anchors import AnchorsRead, ChainKeyMismatch
from memory.engine.audit_chain import key_fingerprint
from memory.engine.audit_verification import AuditTrail, ChainFault, SessionVerifier

PAGE_ROWS: Final = 1_000
SESSIONS_PER_PAGE: Final = 500
FAULTS_KEPT: Final = 100


@dataclass(slots=True)
class AuditReport:
    """What a check found. Of each broken session `faults` has the first fault, up to a hundred."""

    session_count: int = 0
    verified_count: int = 0
    """Rows found sound; in a broken session, those before the fault."""
    unchained_count: int = 0
    """Rows from before the chain, of which nothing can be said."""
    anchored_count: int = 0
    """Rows that an anchor covers, among the sound ones."""
    anchor_count: int = 0
    unreadable_anchor_count: int = 0
    broken_count: int = 0
    faults: list[ChainFault] = field(default_factory=list)

    @property
    def is_sound(self) -> bool:
        return self.broken_count == 0

    def as_wire(self) -> dict[str, Any]:
        """The report for programs."""
        return {
            "summary": self.lines()[0],
            "ok": self.is_sound,
            "sessions": self.session_count,
            "verified": self.verified_count,
            "anchored": self.anchored_count,
            "unchained": self.unchained_count,
            "anchors": self.anchor_count,
            "unreadable_anchors": self.unreadable_anchor_count,
            "broken": self.broken_count,
            "faults": [
                {
                    "session": fault.session_id,
                    "sequence": fault.sequence,
                    "audit_id": fault.audit_id,
                    "kind": str(fault.kind),
                    "message": fault.sentence,
                }
                for fault in self.faults
            ],
        }

    def lines(self) -> list[str]:
        """The report for people; the first line says it all."""
        what = f"{self.verified_count} audit rows of {self.session_count} sessions verified"
        end = "the chain holds" if self.is_sound else f"{self.broken_count} session(s) BROKEN"
        lines = [f"{what}: {end}"]
        for fault in self.faults:
            name = "" if fault.audit_id is None else f" ({fault.audit_id})"
            place = f"{fault.session_id} row {fault.sequence}{name}"
            lines.append(f"  {place}: {fault.kind}: {fault.sentence}")
        if self.broken_count > len(self.faults):
            lines.append(f"  and {self.broken_count - len(self.faults)} more")
        after = self.verified_count - self.anchored_count
        lines.append(
            f"{self.anchored_count} rows stand before an anchor ({self.anchor_count} anchors); "
            f"{after} after the last one, where missing rows at the end would not be seen"
        )
        if self.unchained_count:
            lines.append(f"{self.unchained_count} rows are older than the chain: not verified")
        if self.unreadable_anchor_count:
            lines.append(f"{self.unreadable_anchor_count} lines of the anchors cannot be read")
        return lines


def check_trail(
    trail: AuditTrail, key: bytes, anchors: AnchorsRead, *, session_id: str | None = None
) -> AuditReport:
    """Prove the audit rows of one name, or of all, deleted sessions included.

    The anchors must have been read before. Raises `ChainKeyMismatch` where the rows were linked
    with another key, and as the trail does.
    """
    known = trail.find_key_fingerprint()
    if known is not None and known != key_fingerprint(key):
        raise ChainKeyMismatch(known=known, given=key_fingerprint(key))
    report = AuditReport(
        anchor_count=anchors.line_count, unreadable_anchor_count=anchors.unreadable_count
    )
    for name in _names(trail, anchors) if session_id is None else [session_id]:
        check = _check_session(trail, key, anchors, name)
        if check.fault is not None:
            check = _check_session(trail, key, anchors, name)
        report.session_count += 1
        report.verified_count += check.verified_count
        report.unchained_count += check.unchained_count
        covered = [it for it in anchors.of(name) if it <= check.verified_count]
        report.anchored_count += max(covered, default=0)
        if check.fault is not None:
            report.broken_count += 1
            if len(report.faults) < FAULTS_KEPT:
                report.faults.append(check.fault)
    return report


@dataclass(frozen=True, slots=True)
class _SessionCheck:
    verified_count: int
    unchained_count: int
    fault: ChainFault | None


def _check_session(
    trail: AuditTrail, key: bytes, anchors: AnchorsRead, session_id: str
) -> _SessionCheck:
    facts = trail.read_facts(session_id)
    verifier = SessionVerifier(key, session_id, facts, anchors.of(session_id))
    after: tuple[Any, str] | None = None
    fault: ChainFault | None = None
    while rows := trail.read_rows(session_id, after=after, limit=PAGE_ROWS):
        fault = next((found for row in rows if (found := verifier.check(row))), None)
        if fault is not None:
            break
        after = (rows[-1].sequence, rows[-1].columns.id)
    fault = fault or verifier.finish()
    return _SessionCheck(verifier.verified_count, facts.unchained_count, fault)


def _names(trail: AuditTrail, anchors: AnchorsRead) -> Iterator[str]:
    """Every name with audit rows, and every one that an anchor says had some."""
    missing, after = set(anchors.by_session), ""
    while page := trail.list_audited(after=after, limit=SESSIONS_PER_PAGE):
        missing.difference_update(page)
        yield from page
        after = page[-1]
    yield from sorted(missing)
