"""Every verb of the API as a typed method, written once for both clients.

Owns names, keyword arguments and their defaults ("leave it to the server"). Sends nothing: a method
builds a request and hands it to the client it is mixed into.
"""

from __future__ import annotations

import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Generic, TypeVar

import memory.client_calls as calls
from memory.client_calls import Call, ConceptFields, Filter, LayerFields
from memory.client_events import events_call

R = TypeVar("R")


class Verbs(ABC, Generic[R]):
    """The methods. `R` is the answer, or what an asynchronous client's caller awaits to get it."""

    _agent_id: str | None = None
    """The agent of calls that name none."""

    @abstractmethod
    def _ask(self, call: Call, receipt: Call | None) -> R:
        """Have a call answered; `receipt` asks how it ended, if it is a write with a key."""

    # -- writes: one idempotency key per call, made here when none is given ------------------------

    def derive(
        self,
        session: str,
        concepts: Sequence[ConceptFields],
        *,
        parent_of: Iterable[tuple[str, str]] = (),
        event_time: str | datetime | None = None,
        vector_model: str | None = None,
        wait: bool = True,
        agent_id: str | None = None,
        idempotency_key: str | None = None,
    ) -> R:
        """Remember statements. `parent_of` holds (parent, child) texts.

        `vector_model` names what made their vectors, where they have any.
        Without `wait` the answer says that it is accepted; `receipt` tells how it ended.
        """
        arguments = calls.given(
            concepts=list(concepts),
            parent_of=calls.pairs(parent_of),
            event_time=calls.rfc3339("event_time", event_time),
            vector_model=vector_model,
            wait=None if wait else False,
        )
        return self._verb(session, "derive", arguments, agent_id, idempotency_key)

    def record_action(
        self,
        session: str,
        action: str,
        *,
        produces: Iterable[str] = (),
        modifies: Iterable[str] = (),
        depends_on: Iterable[str] = (),
        against: Iterable[str] = (),
        event_time: str | datetime | None = None,
        wait: bool = True,
        agent_id: str | None = None,
        idempotency_key: str | None = None,
    ) -> R:
        """Remember something done, what it made or changed, and what it rests on.

        `wait` as for `derive`.
        """
        arguments = calls.given(
            action=action,
            produces=calls.texts(produces),
            modifies=calls.texts(modifies),
            depends_on=calls.texts(depends_on),
            against=calls.texts(against),
            event_time=calls.rfc3339("event_time", event_time),
            wait=None if wait else False,
        )
        return self._verb(session, "record-action", arguments, agent_id, idempotency_key)

    def demote(
        self,
        session: str,
        chunk: str,
        chunk_group_id: str,
        *,
        agent_id: str | None = None,
        idempotency_key: str | None = None,
    ) -> R:
        """Keep a chunk of overflowing context, one observation per sentence."""
        arguments = {"chunk": chunk, "chunk_group_id": chunk_group_id}
        return self._verb(session, "demote", arguments, agent_id, idempotency_key)

    def reserve(
        self,
        session: str,
        *,
        node_id: str | None = None,
        concept: str | None = None,
        ttl_seconds: int | None = None,
        agent_id: str | None = None,
        idempotency_key: str | None = None,
    ) -> R:
        """Take or extend a soft lock on a node named by its id, or a concept named by its text."""
        arguments = calls.given(node_id=node_id, concept=concept, ttl_seconds=ttl_seconds)
        return self._verb(session, "reserve", arguments, agent_id, idempotency_key)

    def release(
        self,
        session: str,
        *,
        node_id: str | None = None,
        concept: str | None = None,
        agent_id: str | None = None,
        idempotency_key: str | None = None,
    ) -> R:
        """Give a soft lock back."""
        arguments = calls.given(node_id=node_id, concept=concept)
        return self._verb(session, "release", arguments, agent_id, idempotency_key)

    # -- human acts: they need the operator secret -------------------------------------------------

    def retract(
        self,
        session: str,
        concept: str,
        *,
        dry_run: bool = False,
        reason: str | None = None,
        agent_id: str | None = None,
        idempotency_key: str | None = None,
    ) -> R:
        """Remove a concept (text or id), or report what would go."""
        arguments = calls.given(concept=concept, dry_run=dry_run, reason=reason)
        return self._verb(session, "retract", arguments, agent_id, idempotency_key)

    def list_disappearances(
        self, session: str, *, after: str | None = None, limit: int | None = None
    ) -> R:
        """What was taken out of a session, newest first, after an audit id."""
        call = calls.disappearances_call(session, after=after, limit=limit, agent_id=self._agent_id)
        return self._ask(call, None)

    def restore(
        self,
        session: str,
        id: str,
        *,
        reason: str | None = None,
        agent_id: str | None = None,
        idempotency_key: str | None = None,
    ) -> R:
        """Bring a removed concept back: its id, or that of the audit row of its removal."""
        arguments = calls.given(id=id, reason=reason)
        return self._verb(session, "restore", arguments, agent_id, idempotency_key)

    def purge(
        self,
        session: str,
        concept: str,
        *,
        confirm: str | None = None,
        reason: str | None = None,
        agent_id: str | None = None,
        idempotency_key: str | None = None,
    ) -> R:
        """Erase a concept (text or id, live or gone) for good; report alone without `confirm`.

        `confirm` is its id.
        """
        arguments = calls.given(concept=concept, confirm=confirm, reason=reason)
        return self._verb(session, "purge", arguments, agent_id, idempotency_key)

    def confirm(
        self,
        session: str,
        concept: str,
        *,
        reason: str | None = None,
        agent_id: str | None = None,
        idempotency_key: str | None = None,
    ) -> R:
        """Say as a person that a concept (text or id) is right; kept in an audit row."""
        arguments = calls.given(concept=concept, reason=reason)
        return self._verb(session, "confirm", arguments, agent_id, idempotency_key)

    def set_root_goal(
        self,
        session: str,
        goals: Iterable[str],
        *,
        agent_id: str | None = None,
        idempotency_key: str | None = None,
    ) -> R:
        """Say what the session is for; no goals clear it."""
        arguments = {"goals": calls.texts(goals) or []}
        return self._verb(session, "root-goal", arguments, agent_id, idempotency_key)

    def declare_synonym(
        self,
        session: str,
        source: str,
        target: str,
        *,
        agent_id: str | None = None,
        idempotency_key: str | None = None,
    ) -> R:
        """Read the spelling `source` as `target` from now on."""
        arguments = {"source": source, "target": target}
        return self._verb(session, "synonym", arguments, agent_id, idempotency_key)

    # -- reads -------------------------------------------------------------------------------------

    def recall(
        self,
        session: str,
        query: str,
        *,
        top_k: int | None = None,
        max_tokens: int | None = None,
        traversal_depth: int | None = None,
        vector: Iterable[float] | None = None,
        vector_model: str | None = None,
        wanted: Filter | None = None,
        layers: Iterable[LayerFields] = (),
        agent_id: str | None = None,
    ) -> R:
        """What the session knows that answers a question.

        With a `vector`, which `vector_model` made, meaning is looked for by that. Only concepts
        that the filter `wanted` accepts are shown. `layers` are looked at too, nearest first.
        """
        arguments = calls.recall_arguments(
            query,
            top_k=top_k,
            max_tokens=max_tokens,
            traversal_depth=traversal_depth,
            vector=vector,
            vector_model=vector_model,
            wanted=wanted,
            layers=layers,
        )
        return self._verb(session, "recall", arguments, agent_id, None)

    def list_concepts(
        self,
        session: str,
        *,
        after: str | None = None,
        limit: int | None = None,
        wanted: Filter | None = None,
    ) -> R:
        """A page of the concepts that a filter accepts, oldest first.

        `after` is the `next` of the page before.
        """
        arguments = calls.given(after=after, limit=limit, **calls.filter_arguments(wanted))
        return self._ask(calls.concepts_call(session, arguments), None)

    def list_events(
        self,
        session: str,
        *,
        since: int | None = None,
        kinds: Sequence[str] = (),
        limit: int | None = None,
    ) -> R:
        """Events after the id `since`, oldest first; without it the newest.

        `resume` in the answer is what to ask `since` for those that follow.
        """
        call = events_call(session, since=since, kinds=kinds, limit=limit)
        return self._ask(call, None)

    def inspect(
        self, session: str, focus: str, *, depth: int | None = None, agent_id: str | None = None
    ) -> R:
        """One concept (text or id) and what stands around it."""
        return self._verb(session, "inspect", calls.given(focus=focus, depth=depth), agent_id, None)

    def guard(self, session: str, action: str, *, agent_id: str | None = None) -> R:
        """Whether what is known speaks against doing this: allow, warn or block, and why."""
        return self._verb(session, "guard", {"action": action}, agent_id, None)

    def saints(self, session: str) -> R:
        """The canonical concepts."""
        return self._verb(session, "saints", {}, None, None)

    def stats(self, session: str) -> R:
        """Counts and health."""
        return self._verb(session, "stats", {}, None, None)

    def receipt(self, session: str, idempotency_key: str, *, agent_id: str | None = None) -> R:
        """How the write under a key ended; receipts are kept per agent."""
        agent = agent_id or self._agent_id
        return self._ask(calls.receipt_call(session, idempotency_key, agent_id=agent), None)

    # -- sessions ----------------------------------------------------------------------------------

    def create_session(self, session: str) -> R:
        """Make a session without writing to it."""
        return self._ask(calls.create_session_call(session, agent_id=self._agent_id), None)

    def list_sessions(self, *, after: str | None = None, limit: int | None = None) -> R:
        """Sessions by name, the first `limit` after a name."""
        return self._ask(calls.list_sessions_call(after=after, limit=limit), None)

    def close_session(self, session: str) -> R:
        """Put a session away; its next use opens it again."""
        return self._ask(calls.close_session_call(session, agent_id=self._agent_id), None)

    def delete_session(self, session: str, *, confirm: str) -> R:
        """Delete a session and all it holds; `confirm` repeats its name."""
        call = calls.delete_session_call(session, confirm=confirm, agent_id=self._agent_id)
        return self._ask(call, None)

    def reembed_session(self, session: str, *, start: bool = True) -> R:
        """Give a session vectors of the server's embedder, or only tell how far that is."""
        call = calls.reembed_call(session, start=start, agent_id=self._agent_id)
        return self._ask(call, None)

    # -- jobs: they need the operator secret, or a token with `admin` ------------------------------

    def run_job(
        self,
        job: str,
        *,
        session: str | None = None,
        force: bool = False,
        interval_seconds: int | None = None,
    ) -> R:
        """Run a job where it is due, or in one session; `force` runs it though it is not due."""
        arguments = calls.given(
            job=job, session=session, force=force or None, interval_seconds=interval_seconds
        )
        return self._ask(calls.run_job_call(arguments), None)

    def list_jobs(self) -> R:
        """Every job of the server, and how it last ended."""
        return self._ask(calls.list_jobs_call(), None)

    # -- tokens: they need the operator secret, or a token with `admin` ----------------------------

    def create_token(
        self,
        name: str,
        *,
        agent: str,
        scopes: Iterable[str],
        sessions: Iterable[str],
        may_act_for_others: bool = False,
        expires_seconds: int | None = None,
    ) -> R:
        """Make a token; its secret is in the answer and shown nowhere again."""
        arguments = calls.given(
            name=name,
            agent=agent,
            scopes=calls.texts(scopes) or [],
            sessions=calls.texts(sessions) or [],
            may_act_for_others=may_act_for_others,
            expires_seconds=expires_seconds,
        )
        return self._ask(calls.create_token_call(arguments), None)

    def list_tokens(self) -> R:
        """Every token that is kept, without its secret."""
        return self._ask(calls.list_tokens_call(), None)

    def revoke_token(self, token_id: str) -> R:
        """Make a token open nothing any more."""
        return self._ask(calls.revoke_token_call(token_id), None)

    # -- any verb ----------------------------------------------------------------------------------

    def call(
        self,
        session: str,
        verb: str,
        arguments: Mapping[str, Any],
        *,
        agent_id: str | None = None,
        idempotency_key: str | None = None,
    ) -> R:
        """Carry out a verb by its name on the wire, with arguments as they go over the wire."""
        return self._verb(session, verb, arguments, agent_id, idempotency_key)

    def _verb(
        self,
        session: str,
        verb: str,
        arguments: Mapping[str, Any],
        agent_id: str | None,
        idempotency_key: str | None,
    ) -> R:
        agent = agent_id if agent_id is not None else self._agent_id
        key = idempotency_key if idempotency_key is not None else uuid.uuid4().hex
        call = calls.verb_call(session, verb, arguments, agent_id=agent, key=key)
        writer = arguments.get("agent_id", agent)
        return self._ask(call, calls.receipt_of(call, session, writer) if call.key else None)
