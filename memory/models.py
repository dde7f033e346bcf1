"""The engine's tables. No behaviour: rows are written by `memory.store` and read by selectors.

Rules that hold for every table:

- ids are `IdField`, instants are `MicrosField`, JSON is text (the same bytes on every engine);
- `session_id` is the session's name, and every statement of ours names it;
- there are no foreign keys. Rows of one session are written by one process from a log whose order
  makes dangling rows impossible, and each constraint would cost a look-up per inserted row. What a
  foreign hand breaks all the same is set aside when the session is loaded, in a table for it;
- every constraint and index is named by hand, so that all engines and error messages agree.

The same list, for people who write plain SQL, is `docs/schema.md`; a test compares the two.
"""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from memory.fields import IdField, MicrosField


class ConceptTypeChoices(models.TextChoices):
    """What a concept is; the values of the engine's `ConceptType`."""

    ENTITY = "Entity"
    LOGIC = "Logic"
    CONSTRAINT = "Constraint"
    RESOURCE = "Resource"
    OBSERVATION = "Observation"


class StatusChoices(models.TextChoices):
    """How far a concept has climbed; the values of the engine's `Status`."""

    NONE = "None"
    CANDIDATE = "Candidate"
    VENERABLE = "Venerable"
    CANONICAL = "Canonical"


class EdgeTypeChoices(models.TextChoices):
    """Why two nodes are joined; the values of the engine's `EdgeType`."""

    TEMPORAL = "Temporal"
    DERIVES = "Derives"
    CO_OCCURRENCE = "CoOccurrence"
    CAUSAL = "Causal"
    DEPENDENCY = "Dependency"
    HIERARCHICAL = "Hierarchical"
    SEMANTIC = "Semantic"
    CONTRADICTS = "Contradicts"
    SUSPECTED_SUPERSEDES = "SuspectedSupersedes"


class AuditKindChoices(models.TextChoices):
    """What an audit row tells of; the values of the engine's `AuditKind`."""

    TRANSITION = "transition"
    RETRACT = "retract"
    COLLECT = "collect"
    RESTORE = "restore"
    PURGE = "purge"
    ROOT_GOAL = "root-goal"
    SYNONYM = "synonym"
    CONFIRM = "confirm"
    SESSION_CREATE = "session-create"
    SESSION_DELETE = "session-delete"
    REEMBED = "reembed"
    TOKEN_CREATE = "token-create"
    TOKEN_REVOKE = "token-revoke"


class Session(models.Model):
    """One memory of one team. A row with `deleted_at` is being removed and is shown to nobody."""

    session_id = models.TextField(primary_key=True)
    match_strategy = models.TextField()
    embedding_kind = models.TextField(null=True)
    embedding_model = models.TextField(null=True)
    embedding_dim = models.IntegerField(null=True)
    embedding_template = models.TextField(null=True)
    root_goal = models.TextField(null=True)
    created_at = MicrosField()
    closed_at = MicrosField(null=True)
    deleted_at = MicrosField(null=True)
    cycle_state = models.TextField(null=True)
    evaluate_at = MicrosField(null=True)
    collect_at = MicrosField(null=True)

    class Meta:
        db_table = "lambo_session"
        indexes = [
            # Most sessions wait for nothing, and are not in these.
            models.Index(
                fields=["evaluate_at"],
                condition=Q(evaluate_at__isnull=False),
                name="lambo_session_evaluate",
            ),
            models.Index(
                fields=["collect_at"],
                condition=Q(collect_at__isnull=False),
                name="lambo_session_collect",
            ),
        ]

    def __str__(self) -> str:
        return self.session_id


class Lease(models.Model):
    """Who may write a session, under which token, and how far its log is committed.

    The row outlives its session: a name used again goes on counting tokens, so that a writer from
    before the deletion stays fenced.
    """

    session_id = models.TextField(primary_key=True)
    node_id = models.TextField()
    endpoint = models.TextField()
    token = models.BigIntegerField()
    position = models.BigIntegerField()
    expires_at = MicrosField()

    class Meta:
        db_table = "lambo_lease"

    def __str__(self) -> str:
        return f"{self.session_id} held by {self.node_id} under token {self.token}"


class Interaction(models.Model):
    """One write call; `previous_id` joins the calls of a session to one chain."""

    id = IdField(primary_key=True)
    session_id = models.TextField()
    agent_id = models.TextField()
    prompt_text = models.TextField(null=True)
    previous_id = IdField(null=True)
    created_at = MicrosField()
    event_time = MicrosField(null=True)
    is_backdated = models.BooleanField(default=False)

    class Meta:
        db_table = "lambo_interaction"
        indexes = [
            models.Index(fields=["session_id", "created_at"], name="lambo_interaction_created"),
        ]

    def __str__(self) -> str:
        return f"{self.agent_id} {self.id}"


class Concept(models.Model):
    """A statement or name. The three status columns change by a transition only."""

    id = IdField(primary_key=True)
    session_id = models.TextField()
    content = models.TextField()
    canonical_key = models.TextField()
    concept_type = models.TextField(choices=ConceptTypeChoices.choices)
    origin_interaction = IdField()
    origin_agent = models.TextField()
    created_at = MicrosField()
    access_count = models.IntegerField(default=0)
    last_accessed = MicrosField(null=True)
    gc_survived = models.IntegerField(default=0)
    status = models.TextField(choices=StatusChoices.choices, default=StatusChoices.NONE)
    blast_radius = models.IntegerField(null=True)
    last_demotion_time = MicrosField(null=True)
    chunk_group_id = models.TextField(null=True)

    class Meta:
        db_table = "lambo_concept"
        constraints = [
            models.UniqueConstraint(
                fields=["session_id", "canonical_key"],
                condition=~Q(concept_type=ConceptTypeChoices.OBSERVATION),
                name="lambo_concept_key",
            ),
        ]
        indexes = [
            models.Index(fields=["session_id", "status"], name="lambo_concept_status"),
        ]

    def __str__(self) -> str:
        return self.content


class Embedding(models.Model):
    """A concept's vector under one embedding contract: float32 numbers, little endian.

    A table of its own: most updates of a concept do not touch its vector, and two contracts stand
    side by side while a session is embedded again.
    """

    pk = models.CompositePrimaryKey("session_id", "contract_id", "concept_id")
    session_id = models.TextField()
    contract_id = models.TextField()
    concept_id = IdField()
    vector = models.BinaryField()

    class Meta:
        db_table = "lambo_embedding"
        indexes = [
            # For deleting a concept, whose vectors go with it under every contract.
            models.Index(fields=["session_id", "concept_id"], name="lambo_embedding_concept"),
        ]

    def __str__(self) -> str:
        return f"{self.concept_id} under {self.contract_id}"


class Edge(models.Model):
    """A directed edge between two nodes, one per (source, target, edge_type) of a session."""

    id = IdField(primary_key=True)
    session_id = models.TextField()
    source = IdField()
    target = IdField()
    edge_type = models.TextField(choices=EdgeTypeChoices.choices)
    weight = models.FloatField()
    reinforcements = models.IntegerField()
    created_at = MicrosField()
    last_reinforced = MicrosField()
    created_by = models.TextField()
    reinforced_by = models.TextField()
    event_time = MicrosField(null=True)

    class Meta:
        db_table = "lambo_edge"
        constraints = [
            models.UniqueConstraint(
                fields=["session_id", "source", "target", "edge_type"], name="lambo_edge_ends"
            ),
        ]
        indexes = [
            models.Index(fields=["session_id", "target", "edge_type"], name="lambo_edge_target"),
            # For loading a session: the other indexes would visit its rows in random order, which
            # takes twice as long. Entries are nearly always appended.
            models.Index(fields=["session_id"], name="lambo_edge_session"),
        ]

    def __str__(self) -> str:
        return f"{self.source} -{self.edge_type}-> {self.target}"


class Synonym(models.Model):
    """One raw spelling that stands for another within a session."""

    pk = models.CompositePrimaryKey("session_id", "source_key")
    session_id = models.TextField()
    source_key = models.TextField()
    canonical_key = models.TextField()

    class Meta:
        db_table = "lambo_synonym"

    def __str__(self) -> str:
        return f"{self.source_key} = {self.canonical_key}"


class Reservation(models.Model):
    """An advisory soft lock on a node, at most one each."""

    pk = models.CompositePrimaryKey("session_id", "node_id")
    session_id = models.TextField()
    node_id = IdField()
    agent_id = models.TextField()
    expires_at = MicrosField()

    class Meta:
        db_table = "lambo_reservation"

    def __str__(self) -> str:
        return f"{self.node_id} reserved by {self.agent_id}"


class AuditEvent(models.Model):
    """One act on a session's memory: by whom, when, why, and what it took away.

    Rows are added and outlive their session, which `session_deleted_at` then marks. What is changed
    in one later is only that mark, and text that is blanked: `texts`, `removed` and `reason` are
    the columns that may hold text of the memory.

    The last three columns are its place in the session's hash chain, null in rows that are older
    than the chain. There is no unique constraint on them: a row that a foreign hand put in must not
    stop ours.
    """

    id = IdField(primary_key=True)
    session_id = models.TextField()
    kind = models.TextField(choices=AuditKindChoices.choices, default=AuditKindChoices.TRANSITION)
    node_id = IdField(null=True)
    from_status = models.TextField(choices=StatusChoices.choices, null=True)
    to_status = models.TextField(choices=StatusChoices.choices, null=True)
    blast_radius = models.IntegerField(null=True)
    last_demotion_time = MicrosField(null=True)
    occurred_at = MicrosField()
    actor = models.TextField()
    reason = models.TextField(null=True)
    superseded_by = IdField(null=True)
    detail = models.TextField(null=True)
    texts = models.TextField(null=True)
    removed = models.TextField(null=True)
    session_deleted_at = MicrosField(null=True)
    sequence = models.BigIntegerField(null=True)
    digests = models.TextField(null=True)
    link_hash = models.TextField(null=True)

    class Meta:
        db_table = "lambo_audit_event"
        indexes = [
            # For the list of what is gone, newest first, however many status rows there are.
            models.Index(
                fields=["session_id", "id"],
                condition=Q(kind__in=["retract", "collect", "purge"]),
                name="lambo_audit_removal",
            ),
            models.Index(fields=["session_id", "occurred_at", "id"], name="lambo_audit_occurred"),
            models.Index(fields=["session_id", "node_id"], name="lambo_audit_node"),
            models.Index(fields=["session_id", "sequence"], name="lambo_audit_sequence"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} of {self.node_id or self.session_id} by {self.actor}"


class Receipt(models.Model):
    """The remembered answer to a write, so that a retry gets the same one."""

    pk = models.CompositePrimaryKey("session_id", "agent_id", "key")
    session_id = models.TextField()
    agent_id = models.TextField()
    key = models.TextField()
    verb = models.TextField()
    digest = models.TextField()
    reply = models.TextField()
    position = models.BigIntegerField()
    created_at = MicrosField()

    class Meta:
        db_table = "lambo_receipt"
        indexes = [
            models.Index(fields=["session_id", "position"], name="lambo_receipt_position"),
            models.Index(fields=["created_at"], name="lambo_receipt_created"),
        ]

    def __str__(self) -> str:
        return f"{self.verb} {self.key}"


class Event(models.Model):
    """What listeners of a session are told; the newest are kept."""

    pk = models.CompositePrimaryKey("session_id", "id")
    session_id = models.TextField()
    id = models.BigIntegerField()
    position = models.BigIntegerField()
    kind = models.TextField()
    agent_id = models.TextField()
    occurred_at = MicrosField()
    data = models.TextField()

    class Meta:
        db_table = "lambo_event"

    def __str__(self) -> str:
        return f"{self.kind} {self.id}"


class DeadLetter(models.Model):
    """A call whose group the store refused, kept so that it can be submitted again.

    The five columns of the call are all null when no caller asked for the group.
    """

    id = models.BigAutoField(primary_key=True)
    session_id = models.TextField()
    position = models.BigIntegerField()
    verb = models.TextField(null=True)
    agent_id = models.TextField(null=True)
    key = models.TextField(null=True)
    digest = models.TextField(null=True)
    arguments = models.TextField(null=True)
    error = models.TextField()
    created_at = MicrosField()

    class Meta:
        db_table = "lambo_dead_letter"
        constraints = [
            # A position is used again after a reload, but never in the same microsecond: so putting
            # one letter twice, after a commit of unknown outcome, keeps one.
            models.UniqueConstraint(
                fields=["session_id", "position", "created_at"], name="lambo_dead_letter_once"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.session_id} at {self.position}: {self.error}"


class SetAside(models.Model):
    """A row as it was before it was taken out of its table or mended: no load could use it.

    Where it stood it might still hold a key under a unique index, and have every write of that key
    refused. `row_id` and `row_json` show what is no text (bytes, infinity) as Python writes it.
    """

    id = models.BigAutoField(primary_key=True)
    session_id = models.TextField()
    table_name = models.TextField()
    row_id = models.TextField()
    row_json = models.TextField()
    reason = models.TextField()
    set_aside_at = MicrosField()

    class Meta:
        db_table = "lambo_set_aside"
        indexes = [
            models.Index(fields=["session_id"], name="lambo_set_aside_session"),
        ]

    def __str__(self) -> str:
        return self.reason


class Token(models.Model):
    """What lets a caller in where tokens are asked for; of its text only a digest is kept.

    `scopes` and `session_patterns` are JSON lists of text.
    """

    id = models.TextField(primary_key=True)
    name = models.TextField()
    agent_id = models.TextField()
    scopes = models.TextField()
    session_patterns = models.TextField()
    may_act_for_others = models.BooleanField()
    digest = models.TextField()
    created_at = MicrosField()
    expires_at = MicrosField(null=True)
    revoked_at = MicrosField(null=True)
    last_used_at = MicrosField(null=True)

    class Meta:
        db_table = "lambo_token"

    def __str__(self) -> str:
        return f"{self.name} ({self.id})"


class Setting(models.Model):
    """One word about the whole database, by name: the fingerprint of the chain key."""

    name = models.TextField(primary_key=True)
    value = models.TextField()

    class Meta:
        db_table = "lambo_setting"

    def __str__(self) -> str:
        return f"{self.name} = {self.value}"
