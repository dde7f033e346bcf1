"""Which files a Python file imports, on small trees whose answer is plain."""

from __future__ import annotations

import pytest

from memory.imports.python_imports import PythonFiles

TREE = (
    "setup.py",
    "tool.py",
    "src/shop/__init__.py",
    "src/shop/cart.py",
    "src/shop/money/__init__.py",
    "src/shop/money/rates.py",
    "scripts/load.py",
    "scripts/names.py",
    "tests/test_cart.py",
    "json.py.txt",
)


@pytest.mark.parametrize(
    ("path", "source", "expected"),
    [
        ("tool.py", "import os, json, requests", set()),
        ("setup.py", "import tool", {"tool.py"}),
        ("tool.py", "import tool", set()),
        ("src/shop/cart.py", "import shop.money.rates", {"src/shop/money/rates.py"}),
        ("src/shop/cart.py", "from shop import money", {"src/shop/money/__init__.py"}),
        ("src/shop/cart.py", "from shop import VERSION", {"src/shop/__init__.py"}),
        ("src/shop/cart.py", "from shop.money.rates import RATE, x", {"src/shop/money/rates.py"}),
        ("src/shop/cart.py", "from . import money", {"src/shop/money/__init__.py"}),
        ("src/shop/cart.py", "from .money import rates", {"src/shop/money/rates.py"}),
        ("src/shop/money/rates.py", "from .. import cart", {"src/shop/cart.py"}),
        ("src/shop/money/rates.py", "from ..cart import *", {"src/shop/cart.py"}),
        ("src/shop/money/rates.py", "from ....... import cart", set()),
        ("scripts/load.py", "import names", {"scripts/names.py"}),
        ("tests/test_cart.py", "import names", set()),
        ("tests/test_cart.py", "from shop.cart import Cart", {"src/shop/cart.py"}),
        ("tests/test_cart.py", "def f():\n    import shop", {"src/shop/__init__.py"}),
        ("tests/test_cart.py", "'import shop'\n# import shop", set()),
        ("tests/test_cart.py", "x = '\\d'\nimport shop", {"src/shop/__init__.py"}),
    ],
)
def test_an_import_leads_to_the_file_it_names(path: str, source: str, expected: set[str]) -> None:
    assert PythonFiles(TREE).imported_by(path, source.encode()) == expected


@pytest.mark.parametrize(
    "source",
    [b"print 'old'", b"import \xff", b"x = '\x00'", b"(" * 5_000, b"# " + b"x" * 1_000_000],
    ids=["python 2", "no text", "zero byte", "deep", "large"],
)
def test_what_cannot_be_parsed_is_told(source: bytes) -> None:
    assert PythonFiles(TREE).imported_by("tool.py", source) is None


def test_a_package_that_stands_twice_is_not_guessed() -> None:
    files = PythonFiles(["a/shop/__init__.py", "b/shop/__init__.py", "t.py"])
    assert files.imported_by("t.py", b"import shop") == set()
