"""The words a lexical veto goes by: opposites, negations, number words, units and names.

Owns the tables and their spelling variants; decides nothing (`memory.engine.lexical_veto` does).
Surface forms are made here once, so that reading a text is a look-up per word and no stemming.

Invariant: everything is lower case. A form stands in a group only where its common sense among
software teams does; a missing word costs a missed veto, a wrong one a refused merge.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

# -- opposites -------------------------------------------------------------------------------------

# A line is one dimension; its alternatives exclude each other; words of one alternative agree.
# `<>` marks pairs that say the same when their two sides change places as well.
_CONTRASTS: Final = """
on enable enabled active activate activated | off disable disabled inactive deactivate deactivated
increase increased rise rises rose grow grew grown raise raised higher more | decrease decreased \
 fall fell fallen shrink shrank shrunk lower lowered reduce reduced drop dropped less fewer
up | down
fast faster fastest quick quicker quickly | slow slower slowest slowly slowed
high | low
large larger largest big bigger | small smaller smallest tiny
longest | shortest
maximum max upper | minimum min
most | least
first | second | third | fourth | fifth | last final
oldest earliest | newest latest youngest
old older legacy outdated | new newer modern
before earlier precede <> after later follow
above over <> below under beneath
public external | private internal
open opened reopen reopened | close closed shut resolved
allow allowed permit permitted accept accepted grant granted | deny denies denied block blocked \
 forbid forbids forbidden reject rejected refuse refused prohibit prohibited ban banned disallow
accept accepted approve approved | reject rejected refuse refused decline declined
required mandatory compulsory | optional optionally
synchronous synchronously sync | asynchronous asynchronously async
succeed succeeded success successful successfully pass passed | fail failed failure broken
start started begin began begun launch launched | stop stopped end ended halt halted terminate
create created add added insert inserted | delete deleted remove removed drop dropped erase
keep kept retain retained preserve preserved | delete deleted remove removed purge purged discard \
 discarded erase erased
encrypt | decrypt
encode | decode
upload uploaded | download downloaded
import imported importer | export exported exporter
push pushed | pull pulled
read reads reader reading | write writes writer writing wrote written
readonly | writable readwrite
send sends sent sender | receive received receiver
input | output
producer publisher | consumer subscriber
client clientside | server serverside
frontend | backend
parent <> child children
ancestor <> descendant
primary leader master | replica secondary follower standby
source | destination target
local locally | remote remotely
manual manually hand | automatic automatically automated
static statically | dynamic dynamically
stateless | stateful
strict strictly | lenient loose loosely forgiving tolerant permissive
permanent permanently | temporary temporarily
horizontal horizontally | vertical vertically
ascending | descending
left | right
inbound incoming ingress | outbound outgoing egress
upstream <> downstream
online | offline
eager eagerly | lazy lazily
deep | shallow
single | multiple several many
all every each | some few most
always | sometimes occasionally rarely seldom | never
must shall | may might
production prod | staging | development dev | sandbox
weekday weekdays | weekend weekends
monday mondays | tuesday tuesdays | wednesday wednesdays | thursday thursdays | friday fridays | \
 saturday saturdays | sunday sundays
spring | summer | autumn | winter
north northern | south southern | east eastern | west western
red | green | blue | yellow | orange | black | white | purple
light lighter | dark darker
buy bought | sell sold
hot | cold
empty | full
inner | outer
even | odd
true | false
positive | negative
absolute | relative
attach attached | detach detached
expand expanded | collapse collapsed
show shown visible display displayed | hide hides hidden invisible
include included including | exclude excluded excluding
join joined | leave leaves left
enter entered | exit exited
promote promoted | demote demoted
upgrade upgraded | downgrade downgraded
merge merged | split
forward forwards | backward backwards
unique | duplicate duplicated
cheap cheaper | expensive
simple simpler easy easier | complex hard harder difficult
strong stronger strongly | weak weaker weakly
optimistic | pessimistic
batch | streaming stream
monolith | microservice microservices
mean average | median
done finished finish complete completed | pending planned unfinished | cancelled canceled aborted
sender | recipient
employee staff | customer
buyer | seller
better best | worse worst
safe safely | dangerous
plaintext | encrypted
inside within | outside
and both | either
early | late
win won | lose lost
erlaubt | verboten
an | aus
vor | nach
avant | après
antes | después depois
activé activée | désactivé désactivée
включён включен включена | выключен выключена отключён отключен отключена
до | после
"""

# Written without spaces, so found inside the text and not among its words.
_CONTRASTS_CJK: Final = (
    (("启用", "开启", "打开"), ("禁用", "停用", "关闭")),
    (("允许",), ("禁止", "拒绝")),
    (("成功",), ("失败",)),
    (("之前",), ("之后",)),
    (("増加", "增加"), ("減少", "减少")),
    (("有効",), ("無効",)),
    (("前に",), ("後に",)),
    (("許可",), ("拒否", "禁止")),
    (("最大",), ("最小",)),
)

OPPOSITE_PREFIXES: Final = ("un", "in", "im", "ir", "il", "dis", "non", "de", "a", "dés", "не")
"""`encrypted` and `unencrypted` exclude each other without standing in a table."""


def words_of(text: str) -> frozenset[str]:
    """The words of a table."""
    return frozenset(text.split())


def inflect(word: str) -> Iterator[str]:
    """A word and its regular inflections; a form that does not exist does no harm."""
    yield word
    if len(word) < 4 or not word.isascii() or word.endswith(("ly", "ed", "ing", "er", "est", "s")):
        return
    yield word + "s"
    if word.endswith("e"):
        yield from (word + "d", word[:-1] + "ing")
    elif word.endswith("y"):
        yield from (word[:-1] + "ies", word[:-1] + "ied", word + "ing")
    else:
        yield from (word + "es", word + "ed", word + "ing")
        yield from (word + word[-1] + "ed", word + word[-1] + "ing")


def _read_contrasts() -> tuple[Mapping[str, frozenset[tuple[int, int]]], frozenset[int]]:
    places: dict[str, set[tuple[int, int]]] = {}
    converse = set()
    lines = _CONTRASTS.replace("\\\n", "").strip().splitlines()
    for group, line in enumerate(lines):
        if "<>" in line:
            converse.add(group)
        for alternative, words in enumerate(line.replace("<>", "|").split("|")):
            for word in words.split():
                for form in inflect(word):
                    places.setdefault(form, set()).add((group, alternative))
    frozen = {word: frozenset(found) for word, found in places.items()}
    return MappingProxyType(frozen), frozenset(converse)


CONTRASTS, CONVERSE_GROUPS = _read_contrasts()
"""(group, alternative) of each form; the groups whose pairs are converses of each other."""

CONTRASTS_CJK: Final = _CONTRASTS_CJK

NEGATIVE_PREFIXES: Final = ("un", "in", "im", "ir", "dis", "non")
"""What makes a word negative by itself, or looks so: it only ever softens a veto."""

# -- negation --------------------------------------------------------------------------------------

NEGATIONS: Final = words_of(
    """
    not no never cannot without none neither nor nobody nothing nowhere instead nicht kein keine
    keinen keinem keiner keines nie niemals ohne pas jamais sans aucun aucune nunca sin jamás
    ningún ninguna non mai senza nessun nessuna não nunca sem nenhum nenhuma не нет без никогда
    niet geen nooit zonder
    """
)
"""Words that turn a statement around. Contractions in n't are added when a text is read."""

NEGATIONS_CJK: Final = ("不", "没", "未", "无法", "ない", "ません", "않", "没有")

# After these, `not` or `no` states a bound or adds to a statement and turns nothing around.
NOT_NEGATED: Final = frozenset(
    ["only", "just", "merely", "more", "less", "fewer", "later", "matter"]
)

WEAK_NEGATIONS: Final = frozenset(
    form
    for word in words_of(
        """
    fail failed failure miss missing lack lacking lacks absent refuse refused reject rejected
    deny denied denies forbid forbidden forbids prohibit prohibited prevent prevented avoid
    avoided stop stopped skip skipped ignore ignored exclude excluded except until unless only
    before hide hidden hides drop dropped disable disabled off remove removed unable impossible
    invalid empty zero free offline unsupported deprecated retired over rather prefer preferred
    replace replaced reserved frozen freeze ban banned block blocked limit limited away out
    reverse former formerly previously unlike expire expired instead less outside
    """
    )
    for form in inflect(word)
)
"""What a paraphrase may say instead of a negation; never a reason for a veto by itself."""

# -- numbers ---------------------------------------------------------------------------------------

NUMBER_WORDS: Final[Mapping[str, float]] = MappingProxyType(
    {
        word: value
        for value, words in {
            0.5: "half",
            1: "one once",
            2: "two twice zwei deux dos due два две dois duas",
            3: "three thrice drei trois tres tre три três",
            4: "four vier quatre cuatro quattro четыре quatro",
            5: "five fünf cinq cinco cinque пять",
            6: "six sechs seis шесть",
            7: "seven sieben siete sette семь",
            8: "eight acht huit ocho otto восемь oito",
            9: "nine neun neuf nueve девять",
            10: "ten zehn diez dieci десять",
            11: "eleven",
            12: "twelve zwölf douze doce dodici двенадцать dozen",
            13: "thirteen",
            14: "fourteen",
            15: "fifteen",
            16: "sixteen",
            17: "seventeen",
            18: "eighteen",
            19: "nineteen",
            20: "twenty zwanzig vingt veinte venti двадцать",
            30: "thirty dreißig trente treinta trenta тридцать trinta",
            40: "forty",
            50: "fifty",
            60: "sixty",
            70: "seventy",
            80: "eighty",
            90: "ninety",
            100: "hundred",
            1_000: "thousand",
            1_000_000: "million",
        }.items()
        for word in words.split()
    }
)

NUMERALS_CJK: Final[Mapping[str, int]] = MappingProxyType(
    {numeral: value for value, numeral in enumerate("一二三四五六七八九十", 1)} | {"两": 2}
)

_SECOND, _MONTH = 1, 2_629_746
UNITS: Final[Mapping[str, tuple[str, float]]] = MappingProxyType(
    {
        form: (dimension, factor)
        for dimension, factor, forms in (
            ("time", 0.001, "ms millisecond milliseconds"),
            ("time", _SECOND, "s sec secs second seconds"),
            ("time", 60, "min mins minute minutes"),
            ("time", 3_600, "h hr hrs hour hours"),
            ("time", 86_400, "d day days"),
            ("time", 604_800, "w week weeks"),
            ("time", 1_209_600, "fortnight fortnights"),
            ("time", _MONTH, "month months"),
            ("time", 3 * _MONTH, "quarter quarters"),
            ("time", 12 * _MONTH, "y year years"),
            ("bytes", 1, "byte bytes"),
            ("bytes", 1_000, "kb kib kilobyte kilobytes"),
            ("bytes", 1_000_000, "mb mib megabyte megabytes"),
            ("bytes", 1_000_000_000, "gb gib gigabyte gigabytes"),
            ("bytes", 1_000_000_000_000, "tb tib terabyte terabytes"),
            ("percent", 1, "% percent"),
            ("", 1_000, "k"),
            ("", 1_000_000, "m"),
        )
        for form in forms.split()
    }
)
"""What a unit counts and how much of it: `90 seconds` and `1.5 minutes` are one quantity."""

RHYTHMS: Final[Mapping[str, float]] = MappingProxyType(
    {
        "hourly": 3_600,
        "daily": 86_400,
        "weekly": 604_800,
        "biweekly": 1_209_600,
        "fortnightly": 1_209_600,
        "monthly": _MONTH,
        "quarterly": 3 * _MONTH,
        "yearly": 12 * _MONTH,
        "annual": 12 * _MONTH,
        "annually": 12 * _MONTH,
    }
)
"""Words that say how often, in seconds: `weekly` is `every week` and `once a week`."""

SINGLE: Final = frozenset(["a", "an", "one", "each", "every", "per"])
"""Before a unit of time they stand for one of it."""

# -- names -----------------------------------------------------------------------------------------

NAMES: Final = words_of(
    """
    adyen airflow android angular ansible anthropic apache auth0 avro aws azure babel bazel
    bigquery bitbucket caddy cassandra celery centos circleci claude clickhouse cloudflare
    cockroachdb confluence csv cypress dagster databricks datadog debian django docker dynamodb
    elasticsearch elixir envoy erlang eslint fastapi fastly fedora figma firefox flask flink gcp
    github gitlab golang gradle grafana graphql grpc haproxy haskell heroku ios java javascript
    jenkins jest jira jquery json kafka keycloak kibana kotlin kubernetes laravel linux logstash
    macos mailgun mariadb maven memcached mocha mongodb mypy mysql nats netlify nextjs nginx
    nomad notion npm numpy nuxt okta openai opensearch oracle pandas parquet paypal perl php
    playwright pnpm podman postgresql prometheus protobuf pulumi pytest python pytorch rabbitmq
    rails redis ruby ruff scala selenium sendgrid sentry sidekiq slack snowflake soap solr
    splunk sqlite sqs stripe svelte symfony tensorflow terraform toml traefik twilio typescript
    ubuntu unittest varnish vercel vite vue webpack xml yaml
    """
)
"""Names that are no ordinary words: names in lower case and at the start of a sentence too."""

GIVEN_NAMES: Final = words_of(
    """
    aaron adam ahmed aisha alan albert alex alice amanda amir amy ana andrea andreas andrew
    anita anna anne anton antonio arjun barbara ben bianca bob boris brian bruno camila carla
    carlos carmen carol caroline cecilia charles charlie chen chloe chris christina claire clara
    daniel daniela dave david deepa denise diana diego dmitri dora ed elena eli elias ella emil
    emily emma erik erin eva fatima felix fiona francesca frank frida george gina giulia giulio
    greta hana hannah hans harry hassan heidi helen henry hiro hugo ian igor ines ingrid irene
    isabel ivan jack jacob james jan jane jason javier jean jens jim joanna joe johan john jonas
    jorge jose julia julian kai karen karim karl katarina kate kenji kevin kim lara lars laura
    lea leila lena leo liam lily linda lisa luca lucas lucia lucy luis luna mallory marco maria
    marie marta martin mary mateo max maya mei mia miguel mike mila mina mohammed nadia natalia
    nina noah nora olga oliver olivia omar oscar pablo pascal patricia paul paula pedro peter
    petra philip priya rachel rafael raj rana rebecca ricardo rob robert rosa ruth ryan sam
    samira samuel sandra sara sarah sasha sean sergei simon sofia sophie stefan steve susan sven
    tara tariq theo thomas tim tina tom tomas tomasz ursula vera victor vikram walter wei wendy
    yara yasmin yuki yusuf zoe
    """
)
"""Known as names at the start of a sentence as well, where capitals say nothing."""

ALIASES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "postgres": "postgresql",
        "pg": "postgresql",
        "mongo": "mongodb",
        "elastic": "elasticsearch",
        "k8s": "kubernetes",
        "js": "javascript",
        "ts": "typescript",
        "go": "golang",
        "prod": "production",
        "nodejs": "node",
        "reactjs": "react",
        "vuejs": "vue",
    }
)

# Capital letters in the middle of a sentence that name nothing by themselves.
NO_NAMES: Final = words_of(
    """
    i i'm i've id ids ok url urls uri api apis ui ux cli http https utc pr prs ci cd db dbs os
    """
)

GERMAN: Final = words_of(
    """
    der die das und ist sind nicht wird werden ein eine einen einem mit für von den dem im bei
    auf es
    """
)
"""Two of these and a text is German, where every noun has a capital."""

COMPONENTS: Final = words_of(
    """
    api app application bucket client cluster column department endpoint gateway microservice module
    page pipeline project queue repository server service table team topic worker
    """
)
"""What the parts of a system are called: the word before one names it (`the billing service`)."""

NO_COMPONENT_NAMES: Final = words_of(
    """
    another any big central common core current different entire existing first free full last local
    main new next old only other own primary public private real remote same second separate shared
    single small special whole no not
    """
)
"""Words before a component that describe it instead."""

# -- order of roles --------------------------------------------------------------------------------

RELATIONS: Final = frozenset(
    ["over", "before", "after", "instead", "than", "rather", "above", "below", "under"]
)
"""Words whose two sides are not exchangeable, even in a sentence that was reworded elsewhere."""

PREPOSITIONS: Final = words_of(
    """
    at in on by for from to with before after during until since via per within over under
    """
)

UNWEIGHTED: Final = words_of(
    """
    the a an is are was were be been being has have had do does did and or we our it its this
    that these those there they their will would should also so then which who as of
    """
)
"""Words whose place in a sentence says nothing about who does what."""

ABBREVIATIONS: Final = frozenset(["e.g", "i.e", "etc", "vs", "a.m", "p.m", "no", "and/or"])
