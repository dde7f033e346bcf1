"""The API object: version 1, its documentation, its error handlers. Composition only.

The documentation pages load their script and style from this server (`ninja` is an installed app),
so they work without a network.
"""

from __future__ import annotations

from typing import Any

from ninja import NinjaAPI
from ninja.openapi.schema import OpenAPISchema

from lambo_site.errors import install
from memory.api import find_definitions, router
from memory.version import VERSION


class Api(NinjaAPI):
    """Ninja's API, its document completed by the schemas of bodies it does not read itself."""

    def get_openapi_schema(self, *args: Any, **kwargs: Any) -> OpenAPISchema:
        document = super().get_openapi_schema(*args, **kwargs)
        document["components"]["schemas"] |= find_definitions()
        # The empty choice is local mode, where no token is asked for.
        document["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        document["security"] = [{"token": []}, {}]
        return document


api = Api(
    title="Lambo",
    version=VERSION,
    urls_namespace="api-1",
    description="Shared memory for teams of AI agents: write and ask over HTTP.",
    docs_url="/docs",
    openapi_url="/openapi.json",
)
install(api)
api.add_router("", router)
