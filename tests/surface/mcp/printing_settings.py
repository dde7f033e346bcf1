"""The project's settings as a careless plugin would leave them: they print."""

from lambo_site.settings import *  # noqa: F403

print("printed by the settings")
