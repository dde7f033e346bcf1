"""The health of this process over the last hour: the one history that the server fills."""

from __future__ import annotations

from memory.service.health_history import HealthHistory

history = HealthHistory()
"""Filled while the server serves (`lambo_site.asgi`)."""
