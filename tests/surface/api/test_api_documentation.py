"""What the API says of itself: the document, and pages that need no network."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lambo_site.api import api as ninja_api
from mcp_bridge.tools import tool_specs
from memory.verbs import VERBS
from surface.api.callers import BASE, Api
from surface.api.outline import outline_api, outline_replies, outline_tools

GOLDEN = Path(__file__).resolve().parents[2] / "golden"


def outlines() -> dict[str, str]:
    """Each golden file of this module and what it should hold."""
    document = ninja_api.get_openapi_schema()
    tools = ((spec.name, spec.input_schema) for spec in tool_specs(VERBS))
    return {
        "api-operations.txt": outline_api(document),
        "api-replies.txt": outline_replies(document),
        "tool-arguments.txt": outline_tools(tools),
    }


@pytest.mark.parametrize("name", ["api-operations.txt", "api-replies.txt", "tool-arguments.txt"])
def test_published_schemas_are_the_reviewed_ones(name: str, tmp_path: Path) -> None:
    fresh, reviewed = tmp_path / name, GOLDEN / name
    fresh.write_text(outlines()[name], encoding="utf-8")
    meant = f"read the difference; if it is meant: cp {fresh} {reviewed}"
    assert fresh.read_text(encoding="utf-8") == reviewed.read_text(encoding="utf-8"), meant


async def test_document_is_served_and_every_reference_in_it_leads_somewhere(api: Api) -> None:
    response = await api.client.get(f"{BASE}/openapi.json")
    assert response.status_code == 200
    document = response.json()
    assert document["openapi"].startswith("3.1")
    names = set(re.findall(r'"#/components/schemas/([^"]+)"', response.text))
    assert names <= set(document["components"]["schemas"])
    operations = [op["operationId"] for path in document["paths"].values() for op in path.values()]
    assert len(operations) == len(set(operations)) == len(VERBS)


async def test_pages_load_nothing_from_the_network(api: Api) -> None:
    page = await api.client.get(f"{BASE}/docs")
    assert page.status_code == 200
    assert page.headers["content-type"].startswith("text/html")
    links = re.findall(r'(?:src|href)="([^"]+)"', page.text)
    assert links
    for link in links:
        assert link.startswith("/static/"), link
        response = await api.client.get(link)
        assert response.status_code == 200, link
    assert "://" not in page.text.replace("http://www.w3.org", "")
