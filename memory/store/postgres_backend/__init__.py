"""Django's PostgreSQL backend as the engine's tables want it; see `base`."""
