"""Made-up projects that a team of agents works on, with questions whose answers are known.

Owns a seeded generator: the same seed gives the same texts. Each project is written by several
agents in turns, so what one says next to another is often about something else. A question never
quotes its answer; what links the two is told by its category:

    fact        other words, or another form of them, for a thing that was said once
    conflict    a value that a second agent contradicted later; the answer is the later one
    stale plan  a plan that was made and then given up; the answer is the end of it
    hand-over   who goes on with something, said in the words of a hand-over
    dependents  what rests on a thing; the answer is all that was written to depend on it
    reply       an answer that shares no word with the question and follows it in the session
    identifier  a name of which only a part is asked for
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Final

from benchmarks.retrieval.tasks import Question, Task, Write
from memory.engine.types import ConceptType

PROJECTS: Final = 3
PARTS_PER_PROJECT: Final = 16
AGENTS: Final = ("planner", "builder", "reviewer", "operator")

_AREAS: Final = (
    "billing", "search", "login", "export", "report", "mail", "stock", "audit",
    "upload", "pricing", "import", "profile", "alert", "refund", "catalog", "session",
)  # fmt: skip
_PIECES: Final = ("service", "worker", "gateway", "scheduler")
_STORES: Final = ("Postgres", "Redis", "object storage", "a flat file", "SQLite", "Kafka")
_VERBS: Final = ("resend", "archive", "merge", "compress", "validate", "throttle")
_NOUNS: Final = ("invoices", "receipts", "tickets", "snapshots", "webhooks", "drafts")
_COLOURS: Final = ("amber", "teal", "crimson", "indigo", "olive", "ivory")

_FACTS: Final[Sequence[tuple[str, str]]] = (
    (
        "The {part} gives up after {n} attempts and pages the person on duty.",
        "How often does the {part} try again before somebody is called?",
    ),
    (
        "Rows older than {n} days are deleted by the {part} at night.",
        "How long does the {part} keep its data?",
    ),
    (
        "Customers saw an error page when the {part} ran out of memory on day {n}.",
        "What went wrong for users of the {part}?",
    ),
    (
        "The {part} signs every request with a key that rotates each {n} hours.",
        "How is traffic of the {part} authenticated?",
    ),
)
_NOISE: Final = (
    "Renamed a variable in the tests of the {part}.",
    "The build of the {part} took {n} minutes today.",
    "Reviewed the wording of an error message in the {part}.",
    "Tidied the imports of the {part}; nothing else changed.",
)


@dataclass(slots=True)
class _Project:
    """What is written and asked so far."""

    name: str
    random: Random
    writes: list[Write] = field(default_factory=list)
    questions: list[Question] = field(default_factory=list)

    def write(
        self,
        agent: str,
        text: str,
        kind: ConceptType = ConceptType.LOGIC,
        *,
        depends_on: Sequence[str] = (),
        against: Sequence[str] = (),
    ) -> Write:
        number = len(self.writes)
        written = Write(
            f"{self.name}:{number}",
            f"day {number // 20}",
            agent,
            text,
            kind,
            tuple(depends_on),
            tuple(against),
        )
        self.writes.append(written)
        return written

    def ask(self, category: str, text: str, *evidence: Write) -> None:
        self.questions.append(Question(text, category, frozenset(one.id for one in evidence)))


_Step = Iterator[None]
"""A thread of work; it writes one text and lets others go on."""


def generate_tasks(*, seed: int = 11, projects: int = PROJECTS) -> list[Task]:
    """One task a project; about 190 texts and 60 questions each."""
    return [_generate(f"project-{number}", seed=seed + number) for number in range(projects)]


def _generate(name: str, *, seed: int) -> Task:
    project = _Project(name, Random(seed))
    parts = [f"{area} {project.random.choice(_PIECES)}" for area in _AREAS[:PARTS_PER_PROJECT]]
    project.random.shuffle(parts)
    for part in parts:
        project.write("planner", part, ConceptType.ENTITY)
    threads = [
        thread(project, part, number)
        for number, part in enumerate(parts)
        for thread in _threads_of(number)
    ]
    # Several agents at once: each step goes to a thread picked at random.
    while threads:
        place = project.random.randrange(len(threads))
        if next(threads[place], threads) is threads:
            del threads[place]
    return Task(name, tuple(project.writes), tuple(project.questions))


def _threads_of(number: int) -> Sequence[Callable[[_Project, str, int], _Step]]:
    """What happens to a part: four of seven stories, in turn, and noise."""
    stories = [_fact, _conflict, _stale_plan, _hand_over, _dependents, _reply, _identifier]
    return [stories[(number + step) % len(stories)] for step in range(4)] + [_noise]


def _two(project: _Project) -> tuple[str, str]:
    one, other = project.random.sample(AGENTS, 2)
    return one, other


def _fact(project: _Project, part: str, number: int) -> _Step:
    statement, question = _FACTS[number % len(_FACTS)]
    told = project.write(
        _two(project)[0], statement.format(part=part, n=project.random.randint(3, 90))
    )
    yield
    project.ask("fact", question.format(part=part), told)


def _conflict(project: _Project, part: str, number: int) -> _Step:
    one, other = _two(project)
    first = project.random.randint(2, 9)
    old = project.write(
        one, f"The timeout of the {part} is {first} seconds.", ConceptType.CONSTRAINT
    )
    yield
    new = project.write(
        other,
        f"Measured again: the {part} times out after {first * 10} seconds, not {first}.",
        ConceptType.CONSTRAINT,
        against=[old.text],
    )
    yield
    project.ask("conflict", f"What is the time limit of the {part} now?", new)


def _stale_plan(project: _Project, part: str, number: int) -> _Step:
    one, other = _two(project)
    old, new = project.random.sample(_STORES, 2)
    plan = project.write(one, f"Plan: move the data of the {part} from {old} to {new}.")
    yield
    project.write(other, f"Wrote a first draft of the move of the {part} to {new}.")
    yield
    end = project.write(
        one,
        f"The move of the {part} was given up: its data stays in {old}.",
        against=[plan.text],
    )
    yield
    project.ask("stale plan", f"Where will the {part} keep its data, are we moving it?", end)


def _hand_over(project: _Project, part: str, number: int) -> _Step:
    one, other = _two(project)
    verb, noun = project.random.choice(_VERBS), project.random.choice(_NOUNS)
    project.write(one, f"Started to {verb} {noun} in the {part}.")
    yield
    handed = project.write(
        one, f"Handing the {part} over to {other}; still open: {verb} the old {noun}."
    )
    yield
    project.ask("hand-over", f"Who was the {part} handed to, and what is left to do?", handed)


def _dependents(project: _Project, part: str, number: int) -> _Step:
    one, other = _two(project)
    rule = project.write(
        one, f"{part} schema version {number + 2}", ConceptType.RESOURCE, depends_on=[part]
    )
    yield
    resting = []
    for noun in project.random.sample(_NOUNS, 3):
        resting.append(
            project.write(other, f"{noun} are parsed for {part}", depends_on=[rule.text])
        )
        yield
    project.ask("dependents", f"What depends on {rule.text}?", *resting)


def _reply(project: _Project, part: str, number: int) -> _Step:
    one, other = _two(project)
    colour = _COLOURS[number % len(_COLOURS)]
    asked = project.write(one, f"Question for all: which dashboard shows the health of {part}?")
    # No step in between: the other agent answers at once, in words of its own.
    answer = project.write(other, f"Use the {colour} one, third tab, pinned on {number} March.")
    yield
    project.ask("reply", f"Which dashboard tells whether the {part} is healthy?", asked, answer)


def _identifier(project: _Project, part: str, number: int) -> _Step:
    area = part.split()[0]
    verb = project.random.choice(_VERBS)
    told = project.write(
        _two(project)[0],
        f"src/{area}/{verb}_rules.py:{100 + number} holds the switch `{verb}_{area}_early`.",
        ConceptType.RESOURCE,
    )
    yield
    project.ask("identifier", f"In which file is the early {verb} switch for {area}?", told)


def _noise(project: _Project, part: str, number: int) -> _Step:
    for text in project.random.sample(_NOISE, 3):
        project.write(
            project.random.choice(AGENTS), text.format(part=part, n=project.random.randint(2, 30))
        )
        yield
