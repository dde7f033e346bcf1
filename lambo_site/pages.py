"""The landing page, and the files of pages. No behaviour."""

from __future__ import annotations

from typing import cast

from django.conf import settings
from django.contrib.staticfiles.views import serve
from django.http import FileResponse, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render

from memory.version import VERSION


def show_index(request: HttpRequest) -> HttpResponse:
    """What this server is and where its doors are, for callers of this machine. Loads nothing from
    the network. Where tokens are asked for, people log in first.
    """
    if settings.PROCESS.requires_tokens:
        return redirect("admin:index")
    return render(request, "index.html", {"version": VERSION, "url": settings.PROCESS.url})


def show_file(request: HttpRequest, path: str) -> HttpResponseBase:
    """A file of the admin or of the API documentation, a few hundred kB that browsers keep.

    Django calls serving them "insecure" for being slow; one team's pages need no web server. The
    file is read here, since an ASGI server would read a streamed one on the event loop.
    """
    answer = serve(request, path, insecure=True)
    if not isinstance(answer, FileResponse):
        return answer
    whole = HttpResponse(b"".join(cast("list[bytes]", answer.streaming_content)))
    for header, value in answer.items():
        whole[header] = value
    answer.close()
    return whole
