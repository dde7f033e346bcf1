"""The files of pages. No behaviour."""

from __future__ import annotations

from typing import IO, cast

from django.contrib.staticfiles.views import serve
from django.http import FileResponse, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase


def show_file(request: HttpRequest, path: str) -> HttpResponseBase:
    """A file of the portal, the admin or the API documentation, kept by browsers.

    Django calls serving them "insecure" for being slow; one team's pages need no web server. The
    file is read here, since an ASGI server would read a streamed one on the event loop.
    """
    answer = serve(request, path, insecure=True)
    if not isinstance(answer, FileResponse):
        return answer
    # The file alone is closed: closing the response would say that the request has ended, and
    # Django then looks after database connections, which a file has none of.
    with cast("IO[bytes]", answer.file_to_stream) as file:
        whole = HttpResponse(file.read())
    for header, value in answer.items():
        whole[header] = value
    return whole
