"""Django's settings, built from `ProcessSettings`.

The environment is read here, once, and nowhere else in the server; importing this module creates no
file. Composition only: what a value means is decided in `lambo_site.configuration`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, cast

from django.utils.functional import SimpleLazyObject

from lambo_site.configuration import ProcessSettings, load_process_settings
from lambo_site.databases import postgres_databases, sqlite_databases
from lambo_site.setting_readers import LogFormat
from memory.data_folder import DataFolder
from memory.engine.limits import BODY_BYTES

PROCESS: ProcessSettings = load_process_settings(os.environ, folder=Path.cwd())
"""What this process was told; `lambo_site.wiring` and the commands take it from here."""


class _LazyKey(SimpleLazyObject):  # type: ignore[type-arg]  # not generic when it runs
    """A key that is there before it is read: asking whether it is set makes none."""

    def __bool__(self) -> bool:
        return True


DEBUG = PROCESS.debug
ALLOWED_HOSTS = PROCESS.allowed_hosts
# Made at the first start and kept in the data folder. Lazy, so that a command that signs nothing
# (migrations, a type check, --help) leaves no folder behind; `serve` asks for it before it serves.
SECRET_KEY = cast(str, _LazyKey(DataFolder(PROCESS.data_dir).secret_key))

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django_q",
    "ninja",  # ships the pages of /api/v1/docs, which otherwise come from the network
    "lambo_site",  # the groups of people who use the pages
    "memory",
    "canon",
    "recall",
    "mcp_bridge",
]

ROOT_URLCONF = "lambo_site.urls"
ASGI_APPLICATION = "lambo_site.asgi.application"

# In order: refuse foreign callers first, then what only people's pages need (see the module).
MIDDLEWARE = [
    "lambo_site.middleware.local_door",
    "lambo_site.middleware.PageSecurity",
    "lambo_site.middleware.PageSessions",
    "lambo_site.middleware.PageCommon",
    "lambo_site.middleware.PageCsrf",
    "lambo_site.middleware.PageAuthentication",
    "lambo_site.middleware.PageMessages",
    "lambo_site.middleware.PageFrames",
]

TEMPLATES: list[dict[str, Any]] = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [Path(__file__).parent / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]

# The engine's tables are written by the committer alone and kept apart from Django's own. A
# request is no transaction (ATOMIC_REQUESTS stays off): writes go through the log, not a view.
DATABASES = (
    sqlite_databases(PROCESS.data_dir)
    if PROCESS.database_url is None
    else postgres_databases(PROCESS.database_url)
)
DATABASE_ROUTERS = ["lambo_site.routers.EngineRouter"]
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

# Worker processes beside the server, which ask it for its jobs. One cluster for each node, named by
# Q_CLUSTER_NAME; the name here is what all nodes sign their tasks with.
Q_CLUSTER: dict[str, Any] = {
    "name": "lambo",
    "ALT_CLUSTERS": {},
    "orm": "default",
    "workers": 1,  # a job waits for the server, which does one thing at a time
    "queue_limit": 1,
    "bulk": 1,
    "poll": 1.0,  # seconds
    "guard_cycle": 1,
    "recycle": 500,
    "timeout": 300,
    "retry": 360,  # seconds; over the timeout, or a long run would be begun again beside itself
    "max_attempts": 2,
    "catch_up": False,  # runs that were missed are one
    "save_limit": 500,  # successes kept of each job; `memory.tasks` bounds the failures
    "save_limit_per": "group",
}

AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in (
        "UserAttributeSimilarityValidator",
        "MinimumLengthValidator",
        "CommonPasswordValidator",
        "NumericPasswordValidator",
    )
]

USE_TZ = True
TIME_ZONE = "UTC"
USE_I18N = False
LANGUAGE_CODE = "en-us"

STATIC_URL = "static/"

DATA_UPLOAD_MAX_MEMORY_SIZE = BODY_BYTES
X_FRAME_OPTIONS = "DENY"
# One-time messages may quote the memory: they go to the browser they are for, and to no table.
MESSAGE_STORAGE = "django.contrib.messages.storage.cookie.CookieStorage"
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
# Cookies ignore ports: without names of its own, two servers on one machine log each other out.
SESSION_COOKIE_NAME = f"lambo_session_{PROCESS.port}"
CSRF_COOKIE_NAME = f"lambo_csrf_{PROCESS.port}"

LOGGING_CONFIG = "lambo_site.log_lines.configure"
# stderr only: stdout belongs to the protocol of a stdio bridge and to the data of a command.
LOGGING: dict[str, Any] = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        LogFormat.TEXT: {"()": "lambo_site.log_lines.TextLines"},
        LogFormat.JSON: {"()": "lambo_site.log_lines.JsonLines"},
    },
    "handlers": {
        "stderr": {"class": "logging.StreamHandler", "formatter": PROCESS.log_format},
    },
    "root": {"handlers": ["stderr"], "level": PROCESS.log_level.upper()},
    "loggers": {
        # Django's defaults mail administrators and print to consoles; here all goes one way.
        "django": {"handlers": [], "level": "NOTSET", "propagate": True},
        "django.server": {"handlers": [], "level": "NOTSET", "propagate": True},
        # Three lines for every run otherwise; what failed is said as an error.
        "django-q": {"level": "WARNING"},
        # A line for every call of a job, from the worker that makes it.
        "httpx": {"level": "WARNING"},
    },
}
