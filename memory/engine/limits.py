"""Named limits of everything a caller can send, queue or keep."""

LIMIT_TEXT_BYTES = 16_384
"""UTF-8 bytes of any single string."""

LIMIT_CONCEPTS = 64
LIMIT_PARENT_PAIRS = 64
LIMIT_CITATIONS = 64
"""depends_on and against together, over one derive."""
LIMIT_ACTION_TARGETS = 64
"""produces + modifies + depends_on, and against, of one action together."""
LIMIT_DEMOTE_SENTENCES = 1_024
LIMIT_GOAL_TEXTS = 64

TOP_K_MIN, TOP_K_MAX = 1, 100
MAX_TOKENS_MIN, MAX_TOKENS_MAX = 1, 100_000
DEPTH_MIN, DEPTH_MAX = 0, 5
TTL_SECONDS_MIN, TTL_SECONDS_MAX = 1, 3_600
TTL_SECONDS_DEFAULT = 30

INSPECT_NEIGHBOURS = 200
INSPECT_CANDIDATES = 10
INSPECT_SUBSTRING_CONCEPTS = 2_000
"""Above this many concepts a focus is not searched as a substring."""

EXPANSION_NODES = 4_096
"""Nodes a recall may reach by traversal."""

IDEMPOTENCY_KEY_BYTES = 255
SESSION_NAME_BYTES = 255
AGENT_ID_BYTES = 255
BODY_BYTES = 4 * 1024 * 1024

WEIGHT_MAX = 10.0
COUNTER_MAX = 2**31 - 1

BATCH_ROWS = 2_000
BATCH_BYTES = 1_000_000
"""A batch of groups stops growing at either; one larger group is a batch of its own."""

BACKLOG_MUTATIONS = 50_000
"""Uncommitted mutations over which writes are refused, in mode `behind` too."""
WAITING_GROUPS = 10_000
"""Uncommitted groups of one session over which writes are refused."""

SESSIONS_PER_PAGE = 200
RECEIPTS_PER_SESSION = 100_000
RECEIPT_DAYS = 7
OPEN_SESSIONS = 256

SHOWN_CHARACTERS = 200
"""Of a content shown only in passing: a neighbour, a hit the token budget left out."""
SAINTS_SHOWN = 200
