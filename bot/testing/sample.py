"""The sample repository of the demo: a small shop that charges for shipping although it promised not to."""

import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

TITLE: Final = "Orders of exactly 50 pay for shipping"
REQUEST: Final = (
    "Orders of exactly 50 are charged for shipping, but the README promises free shipping from 50 on, and "
    "tests/test_shipping.py fails. Please fix it and note it in the changelog."
)
CHECK: Final = "python3 -m unittest -q"

FILES: Final = MappingProxyType(
    {
        "README.md": "# Parcel\n\nShipping costs 4.90. Orders of 50 or more ship free, express costs 5.00 on top.\n",
        "CHANGELOG.md": "# Changelog\n\n## Unreleased\n\n- Express delivery.\n",
        "parcel/__init__.py": '"""Parcel: what an order costs."""\n',
        "parcel/shipping.py": (
            '"""Shipping costs of an order."""\n\n'
            "FREE_FROM = 50\nSTANDARD = 4.90\nEXPRESS = 5.00\n\n\n"
            "def shipping(total, express=False):\n"
            '    """Give the cost of shipping an order of that total."""\n'
            "    cost = 0.0 if total > FREE_FROM else STANDARD\n"
            "    return cost + (EXPRESS if express else 0.0)\n"
        ),
        "parcel/order.py": (
            '"""An order and what it costs in all."""\n\n'
            "from parcel.shipping import shipping\n\n\n"
            "def total(prices, express=False):\n"
            '    """Give the price of some goods with shipping."""\n'
            "    goods = sum(prices)\n"
            "    return goods + shipping(goods, express)\n"
        ),
        "tests/__init__.py": "",
        "tests/test_shipping.py": (
            "import unittest\n\nfrom parcel.order import total\nfrom parcel.shipping import shipping\n\n\n"
            "class Shipping(unittest.TestCase):\n"
            "    def test_small_orders_pay(self):\n        self.assertEqual(shipping(20), 4.90)\n\n"
            "    def test_free_from_fifty(self):\n        self.assertEqual(shipping(50), 0.0)\n\n"
            "    def test_express_is_extra(self):\n        self.assertEqual(total([60], express=True), 65.0)\n"
        ),
    }
)


def make(folder: Path, files: Mapping[str, str] = FILES) -> Path:
    """Create a repository of the sample files, or of other files, with one commit, and return its folder."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    _git(folder, "init", "--quiet", "--initial-branch=main")
    _git(folder, "add", "--all")
    _git(folder, "commit", "--quiet", "--message=Ship orders")
    return folder


def _git(folder: Path, *arguments: str) -> None:
    person = ("-c", "user.name=Sample", "-c", "user.email=sample@localhost", "-c", "commit.gpgsign=false")
    subprocess.run(["git", "-C", str(folder), *person, *arguments], check=True, capture_output=True)
