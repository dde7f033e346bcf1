"""The file and the variables: what is read, what wins, and what is refused by name and source."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from lambo_site.configuration import (
    DIMENSIONS,
    SETTINGS,
    ProcessSettings,
    Setting,
    load_process_settings,
)
from lambo_site.database_url import DatabaseUrl
from lambo_site.setting_readers import EmbedderKind, LogFormat, LogLevel, StoreKind
from memory.embed.registry import CHOICES
from memory.engine.config import Config, Durability, FusionKind, MatchStrategy
from memory.engine.embedding import DIMENSIONS_MAX
from memory.engine.errors import InvalidConfiguration

NUMBERS = [setting for setting in SETTINGS if setting.bound is not None]
MAY_BE_ZERO = {"fusion.k"} | {
    f"fusion.{part}_weight" for part in ("keyword", "vector", "recent", "context")
}


def name_of(setting: Setting) -> str:
    return setting.key


def write(folder: Path, text: str, name: str = "lambo.toml") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def line_for(setting: Setting, value: str) -> str:
    section, _, key = setting.key.rpartition(".")
    return f"[{section}]\n{key} = {value}\n" if section else f"{key} = {value}\n"


def refusal_of(folder: Path, environ: dict[str, str] | None = None) -> InvalidConfiguration:
    with pytest.raises(InvalidConfiguration) as refusal:
        load_process_settings(environ or {}, folder=folder)
    return refusal.value


def assert_zero_counts(settings: ProcessSettings, setting: Setting) -> None:
    assert getattr(settings.config, setting.name) == 0


def test_nothing_set_gives_the_defaults(tmp_path: Path) -> None:
    settings = load_process_settings({"PATH": "/bin"}, folder=tmp_path)
    assert settings == ProcessSettings(data_dir=tmp_path / "data")
    assert settings.url == "http://127.0.0.1:7700"
    assert settings.embedder_kind is EmbedderKind.MINILM
    assert settings.config == Config(match_strategy=MatchStrategy.HYBRID)


@pytest.mark.parametrize("setting", NUMBERS, ids=name_of)
@pytest.mark.parametrize("text", ["0", "-1", "1e300", "nan", "inf", "text", "true", "9" * 500])
def test_variable_when_absurd_is_refused_by_key_source_and_limit(
    setting: Setting, text: str, tmp_path: Path
) -> None:
    if text == "0" and setting.key in MAY_BE_ZERO:
        assert_zero_counts(
            load_process_settings({setting.variable: text}, folder=tmp_path), setting
        )
        return
    error = refusal_of(tmp_path, {setting.variable: text})
    assert error.message.startswith(f"{setting.key} must be {setting.bound}")
    assert error.fields["setting"] == setting.key
    assert error.fields["source"] == f"variable {setting.variable}"
    assert setting.variable in error.message


@pytest.mark.parametrize("setting", NUMBERS, ids=name_of)
@pytest.mark.parametrize(
    "value", ["0", "-1", "1e300", "nan", "inf", '""', '"text"', '"5"', "true", "[]", "{}"]
)
def test_key_when_absurd_is_refused_by_key_source_and_limit(
    setting: Setting, value: str, tmp_path: Path
) -> None:
    path = write(tmp_path, line_for(setting, value))
    if value == "0" and setting.key in MAY_BE_ZERO:
        assert_zero_counts(load_process_settings({}, folder=tmp_path), setting)
        return
    error = refusal_of(tmp_path)
    assert error.message.startswith(f"{setting.key} must be {setting.bound}")
    assert error.fields["source"] == str(path)
    assert str(path) in error.message


@pytest.mark.parametrize("setting", SETTINGS, ids=name_of)
def test_empty_variable_counts_as_unset(setting: Setting, tmp_path: Path) -> None:
    settings = load_process_settings({setting.variable: " "}, folder=tmp_path)
    assert settings == load_process_settings({}, folder=tmp_path)


def test_every_setting_has_one_key_one_variable_and_one_field() -> None:
    for column in ("key", "variable", "name"):
        names = [getattr(setting, column) for setting in SETTINGS]
        assert len(names) == len(set(names))
    for setting in SETTINGS:
        owner = Config if setting.is_engine else ProcessSettings
        assert setting.name in owner.__dataclass_fields__


def test_file_is_read_and_variable_wins(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        'data_dir = "state"\n[server]\nport = 8000\n[log]\nlevel = "debug"\nformat = "json"\n'
        '[store]\nkind = "memory"\n[writes]\ndurability = "behind"\nflush_mutations = 9\n',
    )
    settings = load_process_settings(
        {"LAMBO_PORT": "8001", "LAMBO_DEBUG": "true", "LAMBO_FLUSH_INTERVAL_SECONDS": "0.5"},
        folder=tmp_path,
    )
    assert settings == ProcessSettings(
        data_dir=tmp_path / "state",
        port=8001,
        debug=True,
        log_level=LogLevel.DEBUG,
        log_format=LogFormat.JSON,
        store_kind=StoreKind.MEMORY,
        config=Config(
            durability=Durability.MEMORY,
            match_strategy=MatchStrategy.HYBRID,
            flush_mutations=9,
            flush_interval_seconds=0.5,
        ),
        config_path=path,
    )


def test_file_is_looked_for_at_the_argument_then_the_variable_then_the_folder(
    tmp_path: Path,
) -> None:
    write(tmp_path, "[server]\nport = 1001\n")
    write(tmp_path, "[server]\nport = 1002\n", "variable.toml")
    write(tmp_path, "[server]\nport = 1003\n", "argument.toml")
    environ = {"LAMBO_CONFIG": "variable.toml"}
    argument = Path("argument.toml")
    load = load_process_settings
    assert load(environ, folder=tmp_path, config_path=argument).port == 1003
    assert load(environ, folder=tmp_path).port == 1002
    assert load({}, folder=tmp_path).port == 1001


def test_relative_folder_starts_from_where_it_is_written(tmp_path: Path) -> None:
    elsewhere = tmp_path / "etc"
    elsewhere.mkdir()
    write(elsewhere, 'data_dir = "state"\n')
    environ = {"LAMBO_CONFIG": str(elsewhere / "lambo.toml")}
    assert load_process_settings(environ, folder=tmp_path).data_dir == elsewhere / "state"
    environ["LAMBO_DATA_DIR"] = "other"
    assert load_process_settings(environ, folder=tmp_path).data_dir == tmp_path / "other"


def test_data_folder_named_like_a_number_is_a_name(tmp_path: Path) -> None:
    settings = load_process_settings({"LAMBO_DATA_DIR": "7700"}, folder=tmp_path)
    assert settings.data_dir == tmp_path / "7700"


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("[sever]\nport = 1\n", "did you mean server?"),
        ("[server]\nprot = 1\n", "did you mean server.port?"),
        ("promotion_policy = 'Solo'\n", "must be one of swarm, solo, quorum"),
        ("[canonization]\nblast_radius = 2\n", "unknown section [canonization]"),
        (
            "canonization_edge_min_age_seconds = 0\n",
            "unknown key canonization_edge_min_age_seconds",
        ),
        ("server = 5\n", "server must be a section"),
        ("[server.port]\nvalue = 1\n", "server.port must be a whole number"),
        ("[server]\nport = \n", "is not valid TOML"),
        ("port = " + "9" * 5000, "is not valid TOML"),
        ("[daemon]\ngc_interval = 0\n", "daemon.gc_interval must be a whole number in 1..="),
        ("[daemon]\ncanonization_eval_interval_secs = 0\n", "must be a number in 1..=86400"),
    ],
)
def test_file_that_says_something_unknown_is_refused(text: str, named: str, tmp_path: Path) -> None:
    path = write(tmp_path, text)
    message = refusal_of(tmp_path).message
    assert named in message
    assert str(path) in message


def test_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "lambo.toml").write_bytes(b"\xff\xfe\x00")
    assert "is not valid TOML" in refusal_of(tmp_path).message


def test_file_that_was_asked_for_must_exist(tmp_path: Path) -> None:
    error = refusal_of(tmp_path, {"LAMBO_CONFIG": "missing.toml"})
    assert error.message == f"cannot read {tmp_path}/missing.toml: No such file or directory"
    assert "Is a directory" in refusal_of(tmp_path, {"LAMBO_CONFIG": "."}).message


def test_unknown_variable_is_refused_with_the_nearest_name(tmp_path: Path) -> None:
    message = refusal_of(tmp_path, {"LAMBO_PROT": "1"}).message
    assert message == "unknown variable LAMBO_PROT; did you mean LAMBO_PORT?"
    assert "known: " in refusal_of(tmp_path, {"LAMBO_XYZZY": "1"}).message


@pytest.mark.parametrize("kind", ["cockroach", "cockroachdb"])
def test_database_server_is_refused_as_coming(kind: str, tmp_path: Path) -> None:
    message = refusal_of(tmp_path, {"LAMBO_STORE": kind}).message
    assert message.startswith(f"store.kind cannot be {kind} yet: ")
    assert "LAMBO_STORE" in message


def test_database_address_says_the_store(tmp_path: Path) -> None:
    address = "postgres://me%40work:hunter%2F2@db.example:6432/team?sslmode=require"
    for variables in ({}, {"LAMBO_STORE": "postgres"}):
        settings = load_process_settings(
            {"LAMBO_DATABASE_URL": address, **variables}, folder=tmp_path
        )
        assert settings.store_kind is StoreKind.POSTGRES
        assert settings.database_url == DatabaseUrl(
            name="team",
            user="me@work",
            password="hunter/2",
            host="db.example",
            port=6432,
            arguments=(("sslmode", "require"),),
        )
        assert "hunter" not in f"{settings!r} {settings.database_url!r}"
    path = write(tmp_path, '[store]\nurl = "postgresql:///team?host=/run/postgresql"\n')
    settings = load_process_settings({}, folder=tmp_path, config_path=path)
    assert settings.database_url == DatabaseUrl(name="team", host="/run/postgresql")


@pytest.mark.parametrize(
    ("address", "told"),
    [
        ("postgres://me:hunter2@host", "must name one database"),
        ("postgres://me:hunter2@host/", "must name one database"),
        ("postgres://me:hunter2@host/a/b", "must name one database"),
        ("postgres://me:hunter2@host/db#x", "must name one database"),
        ("postgres://me:hunter2@host:port/db", "is no database URL"),
        ("postgres://me:hunter2@host/db?hunter2", "is no database URL"),
        ("postgres://me:hunter2@host/db?options=-chunter2", "has an argument 'options'"),
        ("mysql://me:hunter2@host/db", "must begin with postgres://"),
        ("hunter2", "must begin with postgres://"),
        ("cockroachdb://me:hunter2@host/db", "cannot name CockroachDB yet: it is being built"),
    ],
)
def test_database_address_that_makes_no_sense_is_refused_and_not_shown(
    address: str, told: str, tmp_path: Path
) -> None:
    error = refusal_of(tmp_path, {"LAMBO_DATABASE_URL": address})
    assert told in error.message
    assert "LAMBO_DATABASE_URL" in error.message
    assert "hunter2" not in f"{error.as_wire()}"


@pytest.mark.parametrize(
    ("variables", "told"),
    [
        ({"LAMBO_STORE": "postgres"}, "store.kind postgres needs store.url"),
        (
            {"LAMBO_STORE": "sqlite", "LAMBO_DATABASE_URL": "postgres://h/db"},
            "store.kind sqlite has no use for the database",
        ),
        (
            {"LAMBO_STORE": "memory", "LAMBO_DATABASE_URL": "postgres://h/db"},
            "store.kind memory has no use for the database",
        ),
    ],
)
def test_store_and_database_address_must_agree(
    variables: dict[str, str], told: str, tmp_path: Path
) -> None:
    assert told in refusal_of(tmp_path, variables).message


@pytest.mark.parametrize("kind", ["bedrock", "gemini", "anything", "Fixture"])
def test_embedder_that_is_reserved_or_unknown_is_refused(kind: str, tmp_path: Path) -> None:
    assert "embedder.kind" in refusal_of(tmp_path, {"LAMBO_EMBEDDER": kind}).message


def test_embedder_kinds_and_widths_are_those_that_can_be_built() -> None:
    assert tuple(EmbedderKind) == CHOICES
    assert DIMENSIONS.high == DIMENSIONS_MAX


def test_embedder_is_read_with_all_it_needs(tmp_path: Path) -> None:
    write(
        tmp_path,
        '[embedder]\nkind = "llama"\nmodel = "m"\nmodel_path = "m.gguf"\ndim = 384\n'
        "deadline_seconds = 2\n",
    )
    settings = load_process_settings({"LAMBO_EMBEDDER_URL": "http://x"}, folder=tmp_path)
    assert settings.embedder_kind is EmbedderKind.LLAMA
    assert settings.embedder_model_path == tmp_path / "m.gguf"
    assert (settings.embedder_dim, settings.embedder_model) == (384, "m")
    assert settings.embedder_url == "http://x"
    assert settings.config.embed_deadline_seconds == 2


def test_key_of_the_embedding_service_is_never_shown(tmp_path: Path) -> None:
    settings = load_process_settings({"LAMBO_EMBEDDER_API_KEY": "hush"}, folder=tmp_path)
    assert settings.embedder_api_key == "hush"
    assert "hush" not in repr(settings)
    error = refusal_of(tmp_path, {"LAMBO_EMBEDDER_API_KEY": "hush\nhush"})
    assert "hush" not in error.message


@pytest.mark.parametrize(
    ("variables", "strategy"),
    [
        ({}, MatchStrategy.HYBRID),
        ({"LAMBO_EMBEDDER": "none"}, MatchStrategy.CANONICAL),
        ({"LAMBO_EMBEDDER": "fixture"}, MatchStrategy.HYBRID),
        (
            {"LAMBO_EMBEDDER": "fixture", "LAMBO_MATCH_STRATEGY": "canonical"},
            MatchStrategy.CANONICAL,
        ),
    ],
)
def test_new_sessions_match_by_meaning_where_there_is_an_embedder(
    variables: dict[str, str], strategy: MatchStrategy, tmp_path: Path
) -> None:
    settings = load_process_settings(variables, folder=tmp_path)
    assert settings.config.match_strategy is strategy


def test_the_demo_embeds_nothing_whatever_it_is_told(tmp_path: Path) -> None:
    settings = load_process_settings(
        {"LAMBO_DEMO": "1", "LAMBO_EMBEDDER": "fixture", "LAMBO_FUSION": "rrf"}, folder=tmp_path
    )
    assert settings.embedder_kind is EmbedderKind.NONE
    assert settings.config.fusion_kind is FusionKind.MAX
    assert settings.config.match_strategy is MatchStrategy.CANONICAL


@pytest.mark.parametrize("address", ["example.org", "127.0.0.1:80", "all", "300.0.0.1"])
def test_bind_that_is_no_address_is_refused(address: str, tmp_path: Path) -> None:
    message = refusal_of(tmp_path, {"LAMBO_BIND": address}).message
    assert message.startswith("server.bind must be an IP address or localhost")
    with pytest.raises(InvalidConfiguration, match=r"server\.bind"):
        replace(ProcessSettings(data_dir=tmp_path), bind=address)


@pytest.mark.parametrize(
    ("variables", "is_asked"),
    [
        ({}, False),
        ({"LAMBO_BIND": "127.0.0.9"}, False),
        ({"LAMBO_BIND": "::1", "LAMBO_AUTH": "local"}, False),
        ({"LAMBO_AUTH": "tokens"}, True),
        ({"LAMBO_BIND": "0.0.0.0"}, True),
        ({"LAMBO_BIND": "192.0.2.7", "LAMBO_AUTH": "local"}, True),
    ],
)
def test_tokens_are_asked_for_when_told_and_always_beyond_loopback(
    variables: dict[str, str], is_asked: bool, tmp_path: Path
) -> None:
    assert load_process_settings(variables, folder=tmp_path).requires_tokens is is_asked


def test_quorum_where_names_are_not_proven_is_warned_of(tmp_path: Path) -> None:
    """A server in local mode promoted nothing for weeks, and said so nowhere."""
    variables = {"LAMBO_PROMOTION_POLICY": "quorum"}
    (warning,) = load_process_settings(variables, folder=tmp_path).find_warnings()
    assert "nothing will be promoted" in warning
    asked = variables | {"LAMBO_AUTH": "tokens"}
    assert load_process_settings(asked, folder=tmp_path).find_warnings() == ()
    assert load_process_settings({}, folder=tmp_path).find_warnings() == ()


def test_server_of_all_addresses_is_reached_by_its_machine_on_loopback(tmp_path: Path) -> None:
    for bind, url in (("0.0.0.0", "http://127.0.0.1:7700"), ("::", "http://[::1]:7700")):
        assert load_process_settings({"LAMBO_BIND": bind}, folder=tmp_path).url == url


def test_further_host_names_are_read_from_file_and_variable(tmp_path: Path) -> None:
    write(tmp_path, '[server]\nallowed_hosts = ["memory.example.org"]\n')
    assert "memory.example.org" in load_process_settings({}, folder=tmp_path).allowed_hosts
    given = {"LAMBO_ALLOWED_HOSTS": "a.example, B.example"}
    assert load_process_settings(given, folder=tmp_path).extra_hosts == ("a.example", "b.example")
    for wrong in ("*", "a b", "host:80", ",", ".example.org"):
        assert (
            "server.allowed_hosts" in refusal_of(tmp_path, {"LAMBO_ALLOWED_HOSTS": wrong}).message
        )


def test_token_of_a_client_is_no_setting_and_is_never_shown(tmp_path: Path) -> None:
    variables = {"LAMBO_TOKEN": "lambo_secret", "LAMBO_PORT": "0"}
    assert "lambo_secret" not in f"{refusal_of(tmp_path, variables).as_wire()}"
    told = load_process_settings({"LAMBO_TOKEN": "lambo_secret"}, folder=tmp_path)
    assert "lambo_secret" not in repr(told)


@pytest.mark.parametrize(
    ("address", "url"),
    [("::1", "http://[::1]:7700"), ("localhost", "http://localhost:7700")],
)
def test_url_is_one_that_a_client_can_use(address: str, url: str, tmp_path: Path) -> None:
    settings = load_process_settings({"LAMBO_BIND": address}, folder=tmp_path)
    assert settings.url == url
    assert "[::1]" in settings.allowed_hosts


@pytest.mark.parametrize("word", ["yes", "2", "TRUE!"])
def test_flag_that_is_neither_true_nor_false_is_refused(word: str, tmp_path: Path) -> None:
    assert "debug must be true or false" in refusal_of(tmp_path, {"LAMBO_DEBUG": word}).message


@pytest.mark.parametrize("path", ["a\x00b", "a\nb"])
def test_folder_that_is_no_line_of_text_is_refused(path: str, tmp_path: Path) -> None:
    assert "data_dir must be one line" in refusal_of(tmp_path, {"LAMBO_DATA_DIR": path}).message


def test_contradiction_names_what_was_written(tmp_path: Path) -> None:
    error = refusal_of(tmp_path, {"LAMBO_LEASE_TTL_SECONDS": "30"})
    assert "heartbeat_seconds must be at most a third of lease_ttl_seconds" in error.message
    assert "LAMBO_LEASE_TTL_SECONDS" in error.message
    error = refusal_of(tmp_path, {"LAMBO_HEARTBEAT_SECONDS": "16"})
    assert error.fields["setting"] == "lease.heartbeat_seconds"
    assert "LAMBO_HEARTBEAT_SECONDS" in error.message


def test_a_client_that_is_told_no_folder_uses_the_one_at_hand_else_the_checkouts(
    tmp_path: Path,
) -> None:
    """Two MCP clients start in the projects they work on and must meet on one memory."""
    checkout = Path(__file__).resolve().parents[3]
    asked = load_process_settings({}, folder=tmp_path, is_client=True)
    assert asked.data_dir == checkout / "data"
    (tmp_path / "data").mkdir()
    somebody_elses = load_process_settings({}, folder=tmp_path, is_client=True)
    assert somebody_elses.data_dir == checkout / "data"
    (tmp_path / "data" / "node-id").write_text("x")
    own = load_process_settings({}, folder=tmp_path, is_client=True)
    assert own.data_dir == tmp_path / "data"
    assert load_process_settings({}, folder=tmp_path).data_dir == tmp_path / "data"
    told = load_process_settings({"LAMBO_DATA_DIR": "/x"}, folder=tmp_path, is_client=True)
    assert told.data_dir == Path("/x")
