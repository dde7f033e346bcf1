"""Addresses of the portal below `/portal/`. No behaviour."""

from __future__ import annotations

from django.urls import path

from lambo_site.portal import answers, pages, stream

app_name = "portal"

_SESSION = "sessions/<str:session>/"

urlpatterns = [
    path("login", pages.log_in, name="login"),
    path("logout", pages.log_out, name="logout"),
    path("sessions", answers.sessions, name="sessions"),
    path(f"{_SESSION}overview", answers.overview, name="overview"),
    path(f"{_SESSION}near", answers.near, name="near"),
    path(f"{_SESSION}promotions", answers.promotions, name="promotions"),
    path(f"{_SESSION}health", answers.health, name="health"),
    path(f"{_SESSION}graph", answers.graph, name="graph"),
    path(f"{_SESSION}reach", answers.reach, name="reach"),
    path(f"{_SESSION}inspect", answers.inspect, name="inspect"),
    path(f"{_SESSION}recall", answers.recall, name="recall"),
    path(f"{_SESSION}events", stream.stream, name="events"),
]
