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

VECTOR_NUMBERS = 4_096
"""The widest vector there is: 16 KiB a concept."""

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
CONCEPTS_PER_PAGE = 100
PAGE_PLACE_BYTES = 64
LIMIT_FILTER_AGENTS = 64
LIMIT_LAYERS = 8
"""Sessions that one recall looks at behind the one that is asked."""
ACCEPTED_WRITES = 1_000
ACCEPTED_BYTES = 8 * 1024 * 1024
"""Accepted writes of one session that wait to be applied, and what they say together; over either,
no more are accepted."""
REFUSALS_KEPT = 1_000
"""Accepted writes of one session that were refused in the end and whose receipts still say so."""

JOB_NAME_BYTES = 64
JOB_INTERVAL_SECONDS_MAX = 366 * 86_400

ACCESSES_REMEMBERED = 10_000
"""What of a session was shown to whom since they last wrote, over all agents."""
ACCESSES_PER_GROUP = 500
"""Access counts written at once."""

DUE_SESSIONS = 100
"""Sessions put away that one run of a job opens, those that have waited longest first."""

EVENTS_KEPT = 10_000
"""Newest events of a session that are kept; a listener who asks for older ones is told of a gap."""
EVENT_BYTES = 16_384
"""What one event may say, as JSON; one that would say more is cut to what it is about."""
EVENT_CONCEPTS = 20
"""New concepts that the event of a write names."""
EVENTS_PER_PAGE = 200
EVENT_KINDS_NAMED = 16
LISTENERS = 1_000
"""Open streams of events of one server; over that, more are refused."""
LISTENER_EVENTS = 256
"""Events that wait in memory for one listener; one further behind reads on in the log."""

RECEIPTS_PER_SESSION = 100_000
RECEIPT_DAYS = 7
OPEN_SESSIONS = 256
RESIDENT_BYTES = 2 * 1024**3
"""What the open sessions may take up together before idle ones are put away."""

SHOWN_CHARACTERS = 200
"""Of a content shown only in passing: a neighbour, a hit the token budget left out."""
SAINTS_SHOWN = 200
DISAPPEARANCES_PER_PAGE = 100
REMOVALS_FOUND = 100
"""Removals that one name may mean: of one concept, or of one content."""

PORTAL_NODES = 4_000
"""Concepts in one picture of the portal: the newest, and those that most rests on."""
PORTAL_EDGES = 20_000
PORTAL_REACH = 2_000
"""Concepts lit up around one, and at most DEPTH_MAX steps away."""
PORTAL_ROWS = 50
"""Rows in each list of the portal."""
PORTAL_JUDGED = 40
"""Concepts whose way to the next status is looked at, those that most rests on."""
PORTAL_SESSIONS = 1_000
HEALTH_SAMPLES = 360
"""Kept of each open session and of the server: an hour, one every ten seconds."""
