"""The house rules about names that hold for the whole product (the others are in test_house.py)."""

import re
from collections import Counter

from tests.test_house import ROOT, SOURCES

PRODUCT = [path for path in SOURCES if not path.is_relative_to(ROOT / "bot/testing")]


def test_a_class_has_a_name_of_its_own() -> None:
    """A class of the product has no namesake in another file; the simulated world is named after what it simulates."""
    counts = Counter(name for path in PRODUCT for name in re.findall(r"(?m)^class (\w+)", path.read_text()))
    assert [name for name, times in counts.items() if times > 1] == []


def test_a_loop_names_what_it_holds() -> None:
    """A loop is over rows or threads: `for row in`, and not `for each in`."""
    nameless = re.compile(r"\bfor (\w+, )*each(, \w+)* in\b|\blambda each:")
    assert not [path for path in PRODUCT if nameless.search(path.read_text())]
