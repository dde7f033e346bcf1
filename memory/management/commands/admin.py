"""`lambo admin create`: the first login for the pages of `/admin/`.

Owns where the password comes from (typed twice without being shown, or one line of standard input,
never the command line, which others can read). Whether it is good enough is Django's decision.
Makes Django's own tables if no server has been started yet.
"""

from __future__ import annotations

import getpass
import sys
from argparse import ArgumentParser
from typing import Any, Final

from django.conf import settings
from django.contrib.auth import get_user_model
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError
from django.db import DEFAULT_DB_ALIAS, connections

from memory.data_folder import DataFolder
from memory.engine.errors import LamboError
from memory.management.migrating import bring_tables_up_to_date

USER_TABLE: Final = "auth_user"


class Command(BaseCommand):
    help = "Make a login for the admin pages. Example: lambo admin create --username olga"
    # Checks would open the engine's database, which belongs to the server.
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        acts = parser.add_subparsers(dest="act", metavar="ACT", required=True)
        create = acts.add_parser("create", help="make a login that may do everything")
        create.add_argument("--username", metavar="NAME", default=getpass.getuser())
        create.add_argument("--email", metavar="ADDRESS", default="")
        create.add_argument(
            "--password-stdin", action="store_true", help="read it from standard input"
        )

    def handle(self, *_args: Any, **options: Any) -> None:
        try:
            _make_tables()
        except LamboError as error:
            raise CommandError(error.message) from error
        users = get_user_model()
        name: str = options["username"]
        user = users(username=name, email=options["email"])
        if users.objects.filter(username=name).exists():
            raise CommandError(f"there is a login {name!r} already; lambo changepassword {name}")
        password = _read_password(from_stdin=options["password_stdin"])
        try:
            validate_password(password, user)
            user.clean_fields(exclude=["password"])
        except ValidationError as error:
            raise CommandError("\n".join(error.messages)) from error
        users.objects.create_superuser(username=name, email=options["email"], password=password)
        self.stdout.write(f"made the login '{name}' for {settings.PROCESS.url}/admin/")


def _make_tables() -> None:
    """None before the first start; a running server has made them, and holds the folder."""
    folder = DataFolder(settings.PROCESS.data_dir)
    folder.prepare()
    if USER_TABLE in connections[DEFAULT_DB_ALIAS].introspection.table_names():
        return
    with folder.hold():
        bring_tables_up_to_date(may_migrate=True)


def _read_password(*, from_stdin: bool) -> str:
    if from_stdin:
        return sys.stdin.readline().rstrip("\r\n")
    if not sys.stdin.isatty():
        raise CommandError("nobody to ask for a password: use --password-stdin")
    first = getpass.getpass("Password: ")
    if getpass.getpass("Password (again): ") != first:
        raise CommandError("the two passwords differ; nothing was made")
    return first
