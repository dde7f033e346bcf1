"""Reads `lambo.toml` and the LAMBO_* variables, once, into frozen and checked values.

The file is looked for at `--config`, then LAMBO_CONFIG, then `./lambo.toml`; without one the
defaults hold. A variable wins over the file; an empty one counts as unset. Everything unknown is
refused, and so is everything that nothing uses yet: a setting that is accepted has an effect. Every
refusal names the key, where it was written and the limit. Needs no Django, so that a command line
stays fast.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from lambo_site.database_url import NOT_YET_SCHEMES, DatabaseUrl, read_database_url
from lambo_site.setting_readers import (
    REACHED_BY,
    AuthMode,
    EmbedderKind,
    Given,
    LogFormat,
    LogLevel,
    Reader,
    StoreKind,
    is_loopback,
    read_bind,
    read_chain_key,
    read_choice,
    read_flag,
    read_folder,
    read_hosts,
    read_line,
    read_secret,
    refusal,
)
from memory.data_folder import is_data_folder
from memory.engine.config import (
    BOUNDS,
    Bound,
    Config,
    Durability,
    FusionKind,
    MatchStrategy,
    Policy,
    SkipRedundant,
    SuspectedLine,
    check_number,
)
from memory.engine.errors import InvalidConfiguration

FILE_NAME = "lambo.toml"
PREFIX = "LAMBO_"
PORT = Bound(1, 65_535, is_whole=True)
DIMENSIONS = Bound(1, 4_096, is_whole=True)
"""`DIMENSIONS_MAX` of the engine, said again: reading it would make every command load numpy."""
CALLS_PER_SECOND = Bound(1, 100_000, is_whole=True)
QUORUM_WITHOUT_TOKENS = (
    "promotion_policy is quorum and callers need no token: names are not proven, so no agent's "
    "evidence counts and nothing will be promoted; ask for tokens with --require-tokens or "
    'auth.mode = "tokens"'
)


class Setting(NamedTuple):
    """One line of `docs/configuration.md`. `name` is a field of ProcessSettings or of Config."""

    key: str
    variable: str
    name: str
    read: Reader
    is_engine: bool = False
    bound: Bound | None = None
    """The range of a number; None for everything else."""


_STORES = dict.fromkeys(
    NOT_YET_SCHEMES,
    "this version keeps sessions in SQLite or PostgreSQL; CockroachDB is being built",
)
_EMBEDDERS = dict.fromkeys(
    ("bedrock", "titan", "gemini", "vertex"),
    "the name is reserved for a hosted service and not built",
)


def _engine_number(key: str, variable: str, name: str) -> Setting:
    return _number(key, variable, name, BOUNDS[name], is_engine=True)


def _number(key: str, variable: str, name: str, bound: Bound, *, is_engine: bool) -> Setting:
    def read(key: str, given: Given, _folder: Path) -> object:
        check_number(key, given.value, bound, source=given.source)
        return given.value

    return Setting(key, variable, name, read, is_engine, bound)


SETTINGS: tuple[Setting, ...] = (
    Setting("data_dir", "LAMBO_DATA_DIR", "data_dir", read_folder),
    Setting("audit.chain_key", "LAMBO_CHAIN_KEY", "chain_key", read_chain_key),
    Setting("debug", "LAMBO_DEBUG", "debug", read_flag),
    Setting("server.bind", "LAMBO_BIND", "bind", read_bind),
    _number("server.port", "LAMBO_PORT", "port", PORT, is_engine=False),
    Setting("server.allowed_hosts", "LAMBO_ALLOWED_HOSTS", "extra_hosts", read_hosts),
    _engine_number("server.idle_exit_minutes", "LAMBO_IDLE_EXIT_MINUTES", "idle_exit_minutes"),
    Setting("server.cluster", "LAMBO_CLUSTER", "has_cluster", read_flag),
    Setting("auth.mode", "LAMBO_AUTH", "auth_mode", read_choice(AuthMode)),
    _number(
        "auth.calls_per_second",
        "LAMBO_CALLS_PER_SECOND",
        "calls_per_second",
        CALLS_PER_SECOND,
        is_engine=False,
    ),
    Setting("log.level", "LAMBO_LOG_LEVEL", "log_level", read_choice(LogLevel)),
    Setting("log.format", "LAMBO_LOG_FORMAT", "log_format", read_choice(LogFormat)),
    Setting("store.kind", "LAMBO_STORE", "store_kind", read_choice(StoreKind, not_yet=_STORES)),
    Setting("store.url", "LAMBO_DATABASE_URL", "database_url", read_database_url),
    Setting(
        "embedder.kind",
        "LAMBO_EMBEDDER",
        "embedder_kind",
        read_choice(EmbedderKind, not_yet=_EMBEDDERS),
    ),
    _number("embedder.dim", "LAMBO_EMBEDDER_DIM", "embedder_dim", DIMENSIONS, is_engine=False),
    Setting("embedder.url", "LAMBO_EMBEDDER_URL", "embedder_url", read_line),
    Setting("embedder.model", "LAMBO_EMBEDDER_MODEL", "embedder_model", read_line),
    Setting("embedder.model_path", "LAMBO_EMBEDDER_MODEL_PATH", "embedder_model_path", read_folder),
    Setting("embedder.api_key", "LAMBO_EMBEDDER_API_KEY", "embedder_api_key", read_secret),
    _engine_number(
        "embedder.deadline_seconds", "LAMBO_EMBEDDER_DEADLINE_SECONDS", "embed_deadline_seconds"
    ),
    Setting(
        "embedder.accept_client_vectors",
        "LAMBO_ACCEPT_CLIENT_VECTORS",
        "accept_client_vectors",
        read_flag,
        is_engine=True,
    ),
    Setting(
        "writes.match_strategy",
        "LAMBO_MATCH_STRATEGY",
        "match_strategy",
        read_choice(MatchStrategy),
        is_engine=True,
    ),
    Setting(
        "writes.durability",
        "LAMBO_DURABILITY",
        "durability",
        read_choice(Durability),
        is_engine=True,
    ),
    _engine_number(
        "writes.flush_interval_seconds", "LAMBO_FLUSH_INTERVAL_SECONDS", "flush_interval_seconds"
    ),
    _engine_number("writes.flush_mutations", "LAMBO_FLUSH_MUTATIONS", "flush_mutations"),
    Setting(
        "recall.suspected_supersession_line",
        "LAMBO_SUSPECTED_SUPERSESSION_LINE",
        "suspected_supersession_line",
        read_choice(SuspectedLine),
        is_engine=True,
    ),
    Setting(
        "recall.skip_redundant",
        "LAMBO_SKIP_REDUNDANT",
        "skip_redundant",
        read_choice(SkipRedundant),
        is_engine=True,
    ),
    Setting("fusion.kind", "LAMBO_FUSION", "fusion_kind", read_choice(FusionKind), is_engine=True),
    _engine_number("fusion.k", "LAMBO_FUSION_K", "fusion_k"),
    _engine_number("fusion.keyword_weight", "LAMBO_FUSION_KEYWORD_WEIGHT", "fusion_keyword_weight"),
    _engine_number("fusion.vector_weight", "LAMBO_FUSION_VECTOR_WEIGHT", "fusion_vector_weight"),
    _engine_number("fusion.recent_weight", "LAMBO_FUSION_RECENT_WEIGHT", "fusion_recent_weight"),
    _engine_number("fusion.context_weight", "LAMBO_FUSION_CONTEXT_WEIGHT", "fusion_context_weight"),
    Setting(
        "promotion_policy",
        "LAMBO_PROMOTION_POLICY",
        "promotion_policy",
        read_choice(Policy),
        is_engine=True,
    ),
    Setting(
        "canonization_supersede",
        "LAMBO_CANONIZATION_SUPERSEDE",
        "canonization_supersede",
        read_flag,
        is_engine=True,
    ),
    _engine_number("daemon.gc_interval", "LAMBO_GC_INTERVAL", "gc_interval_mutations"),
    _engine_number(
        "daemon.gc_max_interval_secs", "LAMBO_GC_MAX_INTERVAL_SECS", "gc_max_interval_seconds"
    ),
    _engine_number("daemon.gc_idle_floor", "LAMBO_GC_IDLE_FLOOR", "gc_idle_floor_mutations"),
    _engine_number(
        "daemon.canonization_eval_interval_secs",
        "LAMBO_CANONIZATION_EVAL_INTERVAL_SECS",
        "canonization_eval_interval_seconds",
    ),
    _engine_number("lease.ttl_seconds", "LAMBO_LEASE_TTL_SECONDS", "lease_ttl_seconds"),
    _engine_number("lease.heartbeat_seconds", "LAMBO_HEARTBEAT_SECONDS", "heartbeat_seconds"),
    _engine_number("sessions.open_max", "LAMBO_OPEN_SESSIONS_MAX", "open_sessions_max"),
    _engine_number("sessions.resident_bytes_max", "LAMBO_RESIDENT_BYTES_MAX", "resident_bytes_max"),
)
"""Everything that can be set, in the order of the documentation."""

_BY_KEY = {setting.key: setting for setting in SETTINGS}
_BY_VARIABLE = {setting.variable: setting for setting in SETTINGS}

CONFIG_VARIABLE = "LAMBO_CONFIG"
TOKEN_VARIABLE = "LAMBO_TOKEN"
"""What a client sends; means nothing to a server, and is never shown."""
DEMO_VARIABLE = "LAMBO_DEMO"
"""Set by `lambo demo` for the private server it starts; no key of the file stands for it."""


def _default_config() -> Config:
    """The engine's settings where nothing is said: there is an embedder, so it is used."""
    return Config(match_strategy=MatchStrategy.HYBRID)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessSettings:
    """What one process was told. Checked again when changed by `dataclasses.replace`."""

    data_dir: Path
    """Absolute. Nothing is kept outside it."""
    debug: bool = False
    bind: str = "127.0.0.1"
    port: int = 7700
    extra_hosts: tuple[str, ...] = ()
    has_cluster: bool = True
    """Jobs are asked for by worker processes, not by the server's own ticker."""
    auth_mode: AuthMode = AuthMode.LOCAL
    calls_per_second: int = 500
    """Of each token."""
    log_level: LogLevel = LogLevel.INFO
    log_format: LogFormat = LogFormat.TEXT
    store_kind: StoreKind = StoreKind.SQLITE
    database_url: DatabaseUrl | None = field(default=None, repr=False)
    """The database of the store `postgres`; None for every other store."""
    embedder_kind: EmbedderKind = EmbedderKind.MINILM
    embedder_dim: int | None = None
    embedder_url: str | None = None
    embedder_model: str | None = None
    embedder_model_path: Path | None = None
    embedder_api_key: str | None = field(default=None, repr=False)
    chain_key: str | None = field(default=None, repr=False)
    """None for the one that is kept in the data folder."""
    config: Config = field(default_factory=_default_config)
    config_path: Path | None = None
    """The file that was read, if any."""
    is_demo: bool = False
    """Made-up clock and ids, sessions of the demo only."""

    def __post_init__(self) -> None:
        if not self.data_dir.is_absolute():
            raise InvalidConfiguration("data_dir must be absolute here", setting="data_dir")
        check_number("server.port", self.port, PORT)
        read_bind("server.bind", Given(self.bind, "the command line"), self.data_dir)

    @property
    def requires_tokens(self) -> bool:
        """Whether callers need a token: when told so, and always beyond loopback."""
        return self.auth_mode is AuthMode.TOKENS or not self.is_on_loopback

    @property
    def runs_cluster(self) -> bool:
        """Whether worker processes stand beside the server; none where nothing is kept."""
        is_kept = self.config.durability is not Durability.MEMORY
        return self.has_cluster and is_kept and not self.is_demo

    def find_warnings(self) -> tuple[str, ...]:
        """What is allowed and probably not meant, one sentence each."""
        warnings = self.config.find_warnings()
        if self.config.promotion_policy is Policy.QUORUM and not self.requires_tokens:
            return (*warnings, QUORUM_WITHOUT_TOKENS)
        return warnings

    @property
    def is_on_loopback(self) -> bool:
        """Whether only this machine reaches the server."""
        return is_loopback(self.bind)

    @property
    def url(self) -> str:
        """Where this process is reached from its machine, without a slash at the end."""
        host = REACHED_BY.get(self.bind, self.bind)
        host = f"[{host}]" if ":" in host else host
        return f"http://{host}:{self.port}"

    @property
    def allowed_hosts(self) -> list[str]:
        """Names a request may call this server by; anything else smells of DNS rebinding."""
        own = f"[{self.bind}]" if ":" in self.bind else self.bind
        return list(dict.fromkeys([own, "localhost", "127.0.0.1", "[::1]", *self.extra_hosts]))


def load_process_settings(
    environ: Mapping[str, str],
    *,
    folder: Path,
    config_path: Path | None = None,
    is_client: bool = False,
) -> ProcessSettings:
    """Read the file and the variables. `folder` is where relative paths of variables start from.

    A client that is told no data folder uses the one at hand (`_data_dir_at_hand`). Raises
    `InvalidConfiguration`; nothing is half configured.
    """
    variables = {
        name: text for name, text in environ.items() if name.startswith(PREFIX) and text.strip()
    }
    _check_variables(variables)
    path = _find_file(variables, folder=folder, config_path=config_path)
    given: dict[str, tuple[Given, Path]] = {}
    if path is not None:
        for key, value in _read_file(path).items():
            given[key] = (Given(value, f"{path}"), path.parent)
    for name, text in variables.items():
        if name in _BY_VARIABLE:
            setting = _BY_VARIABLE[name]
            value = text.strip() if setting.bound is None else _number_in(text.strip())
            given[setting.key] = (Given(value, f"variable {name}"), folder)
    data_dir = _data_dir_at_hand(folder) if is_client else folder / "data"
    own: dict[str, Any] = {"data_dir": data_dir.resolve(), "config_path": path}
    if DEMO_VARIABLE in variables:
        asked = Given(variables[DEMO_VARIABLE].strip(), f"variable {DEMO_VARIABLE}")
        own["is_demo"] = read_flag(DEMO_VARIABLE, asked, folder)
    engine: dict[str, Any] = {}
    for key, (written, base) in given.items():
        setting = _BY_KEY[key]
        (engine if setting.is_engine else own)[setting.name] = setting.read(key, written, base)
    _settle_store(own, given)
    if own["store_kind"] is StoreKind.MEMORY:
        # Nothing is kept, so nothing may be promised: stats must not say "commit".
        engine["durability"] = Durability.MEMORY
    if own.get("is_demo"):
        # It must repeat itself byte for byte, whatever this machine is told to embed with.
        own["embedder_kind"] = EmbedderKind.NONE
        engine["fusion_kind"] = FusionKind.MAX
        # Its whole story takes a tenth of a second by its own clock.
        engine["canonization_edge_min_age_seconds"] = 0.01
    # Whoever has texts embedded wants them matched by it, unless they say otherwise.
    by_words = own.get("embedder_kind") is EmbedderKind.NONE
    engine.setdefault(
        "match_strategy", MatchStrategy.CANONICAL if by_words else MatchStrategy.HYBRID
    )
    return ProcessSettings(config=_build_config(engine, given), **own)


def _settle_store(own: dict[str, Any], given: Mapping[str, tuple[Given, Path]]) -> None:
    """A URL alone says which store; beside a store that has no use for it, it is a mistake."""
    url = own.get("database_url")
    kind = own.setdefault("store_kind", StoreKind.SQLITE if url is None else StoreKind.POSTGRES)
    if (url is None) == (kind is StoreKind.POSTGRES):
        written, _ = given["store.kind"]
        problem = (
            "needs store.url (LAMBO_DATABASE_URL), such as postgres://user:password@host/name"
            if url is None
            else "has no use for the database that store.url (LAMBO_DATABASE_URL) names"
        )
        raise refusal("store.kind", f"store.kind {kind} {problem}", written.source)


def _data_dir_at_hand(folder: Path) -> Path:
    """The folder a client means when nobody names one.

    An MCP client starts its bridge in whatever project it works on; two of them must still meet on
    one memory. So a data folder under `folder` is taken if a server made it, else the one beside
    the checkout this code runs from, where `make serve` keeps it.
    """
    checkout = Path(__file__).resolve().parents[1]
    if is_data_folder(folder / "data") or not (checkout / "manage.py").is_file():
        return folder / "data"
    return checkout / "data"


def _build_config(engine: dict[str, Any], given: Mapping[str, tuple[Given, Path]]) -> Config:
    """The engine's part; a broken relation between settings is reported with its source."""
    try:
        return Config(**engine)
    except InvalidConfiguration as error:
        for key, (written, _) in given.items():
            if _BY_KEY[key].name == error.fields.get("setting"):
                raise refusal(key, f"{key}: {error.message}", written.source) from error
        # The broken half is a default; what was written is the other half.
        sources = ", ".join(
            sorted(
                {written.source for key, (written, _) in given.items() if _BY_KEY[key].is_engine}
            )
        )
        raise refusal(str(error.fields.get("setting")), error.message, sources) from error


def _check_variables(variables: Collection[str]) -> None:
    """Refuse LAMBO_* variables that mean nothing; a typing error must not be a silent default."""
    known = {*_BY_VARIABLE, CONFIG_VARIABLE, DEMO_VARIABLE, TOKEN_VARIABLE}
    for name in sorted(variables):
        if name not in known:
            raise refusal(
                name,
                f"unknown variable {name}{_suggestion(name, known)}",
                f"variable {name}",
            )


def _find_file(
    variables: Mapping[str, str], *, folder: Path, config_path: Path | None
) -> Path | None:
    """The file to read. One that was asked for must exist; the one in the folder need not."""
    if config_path is not None:
        return (folder / config_path.expanduser()).resolve()
    if CONFIG_VARIABLE in variables:
        return (folder / Path(variables[CONFIG_VARIABLE]).expanduser()).resolve()
    path = (folder / FILE_NAME).resolve()
    return path if path.exists() else None


def _read_file(path: Path) -> dict[str, object]:
    """The file as a flat table of known keys; refuses unknown keys and sections."""
    try:
        document = tomllib.loads(path.read_bytes().decode())
    except OSError as error:
        raise refusal("config", f"cannot read {path}: {error.strerror}", f"{path}") from error
    except ValueError as error:  # not UTF-8, or no TOML
        raise refusal("config", f"{path} is not valid TOML: {error}", f"{path}") from error
    sections = {key.partition(".")[0] for key in _BY_KEY if "." in key}
    flat: dict[str, object] = {}
    for name, value in document.items():
        if name in sections:
            if not isinstance(value, dict):
                raise refusal(name, f"{name} must be a section [{name}]", f"{path}")
            flat |= {f"{name}.{inner}": inner_value for inner, inner_value in value.items()}
        elif isinstance(value, dict):
            raise refusal(name, f"unknown section [{name}]{_suggestion(name, sections)}", f"{path}")
        else:
            flat[name] = value
    for key in flat:
        if key not in _BY_KEY:
            raise refusal(key, f"unknown key {key}{_suggestion(key, _BY_KEY)}", f"{path}")
    return flat


def _number_in(text: str) -> object:
    """The number that a variable spells, or the text itself, which the bound will refuse."""
    if re.fullmatch(r"[+-]?[0-9]{1,400}", text):
        return int(text)
    try:
        return float(text)
    except ValueError:
        return text


def _suggestion(name: str, known: Collection[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean {close[0]}?" if close else f" (known: {', '.join(sorted(known))})"
