"""The admin's pages of a running server, as people meet them: logins, forms, and what pages say."""

from __future__ import annotations

import html
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import httpx

from children import child_environment

PASSWORD = "correct horse battery staple"

_MAKE_PEOPLE = """
import os, sys
os.environ["DJANGO_SETTINGS_MODULE"] = "lambo_site.settings"
import django
django.setup()
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
for one in sys.argv[2:]:
    name, _, group = one.partition(":")
    users = get_user_model().objects
    user = users.create_user(name, password=sys.argv[1], is_staff=True, is_superuser=not group)
    if group:
        user.groups.add(Group.objects.get(name=group))
"""


def make_people(data_dir: Path, *people: str) -> None:
    """Logins on a data folder: `name:group`, or `name` alone for a superuser."""
    subprocess.run(
        [sys.executable, "-c", _MAKE_PEOPLE, PASSWORD, *people],
        env=child_environment({"LAMBO_DATA_DIR": str(data_dir)}),
        check=True,
    )


class Person:
    """Somebody with a browser: keeps cookies, follows redirects, sends forms as they stand."""

    def __init__(self, http: httpx.Client) -> None:
        self.http = http

    def open(self, address: str) -> str:
        answer = self.http.get(address)
        assert answer.status_code == 200, (address, answer.status_code, answer.text)
        return answer.text

    def send(self, address: str, **fields: str | list[str]) -> httpx.Response:
        """Open the page of a form and send the form, with these fields filled in."""
        return self.send_again(address, form_of(self.open(address)), **fields)

    def send_again(
        self, address: str, form: Mapping[str, str], **fields: str | list[str]
    ) -> httpx.Response:
        """Send a form that was opened before."""
        return self.http.post(
            address,
            data={**form, **fields},
            headers={"Origin": str(self.http.base_url).rstrip("/")},
        )


def form_of(page: str) -> dict[str, str]:
    """The hidden fields of the form in a page's content."""
    found = re.search(r'<form method="post" class="lambo-act".*?</form>', page, re.DOTALL)
    assert found is not None, page
    hidden = re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', found[0])
    return {name: html.unescape(value) for name, value in hidden}


@contextmanager
def logged_in(url: str, name: str) -> Iterator[Person]:
    """A person at the pages of a server."""
    with httpx.Client(base_url=url, follow_redirects=True, timeout=60, trust_env=False) as http:
        page = http.get("/admin/login/").text
        token = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', page)
        assert token is not None
        form = {"username": name, "password": PASSWORD, "csrfmiddlewaretoken": token[1]}
        answer = http.post("/admin/login/?next=/admin/", data=form, headers={"Origin": url})
        assert answer.status_code == 200, answer.text
        assert "Log out" in answer.text
        yield Person(http)


def messages_of(page: str) -> list[str]:
    """What a page tells of the act before it."""
    return [
        html.unescape(text)
        for text in re.findall(r'<li class="(?:success|info|warning|error)">(.*?)</li>', page)
    ]
