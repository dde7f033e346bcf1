"""Files of other packages in the tree are what their authors published, with their terms."""

from __future__ import annotations

import hashlib
import re

from source_tree import ROOT

VENDOR = ROOT / "lambo_site" / "static" / "portal" / "vendor"
AXE = ROOT / "tests" / "data" / "axe-core-4.10.3.min.js"


def test_every_vendored_file_has_its_checksum_and_terms_in_the_list_of_dependencies() -> None:
    text = (ROOT / "docs" / "dependencies.md").read_text(encoding="utf-8")
    listed = dict(re.findall(r"`([^`]+\.min\.js)`[^`]*?sha256 `([0-9a-f]{64})`", text))
    found = {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in [*VENDOR.glob("*.js"), AXE]
    }
    assert listed == found
    assert {path.name for path in VENDOR.iterdir()} == {
        "d3-7.9.0.min.js",
        "d3-LICENSE.txt",
    }
    assert "Mozilla Public" in AXE.read_text(encoding="utf-8")[:600]
