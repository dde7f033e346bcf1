"""Which address leads where in Django. What is not a page is routed in `lambo_site.asgi`."""

from __future__ import annotations

from django.contrib import admin
from django.urls import include, path, re_path

from lambo_site.api import api
from lambo_site.pages import show_file
from lambo_site.portal.pages import show_portal

urlpatterns = [
    path("", show_portal, name="index"),
    path("api/v1/", api.urls),
    path("portal/", include("lambo_site.portal.urls")),
    path("admin/", admin.site.urls),
    re_path(r"^static/(?P<path>.+)$", show_file),
]
