"""The pages' colours, light and dark: what is written can be read on what is behind it."""

import re
from pathlib import Path

import pytest

import bot.testing.github

CSS = (Path(bot.testing.github.__file__).parent / "page/static/page.css").read_text()
LIGHT, DARK = (dict(re.findall(r"--(\w[\w-]*): (#\w+);", block)) for block in re.findall(r":root \{(.*?)\}", CSS, re.S))
ENOUGH = 4.5  # https://www.w3.org/TR/WCAG22/#contrast-minimum
WRITTEN = [(ink, ground) for ink in ("text", "muted", "link") for ground in ("background", "canvas", "tint")]
WRITTEN += [("plus", "canvas"), ("minus", "canvas"), ("label", "tint"), ("text", "chip"), ("text", "hover")]
WRITTEN += [("white", ground) for ground in ("green", "purple", "red", "press", "on")]
WRITTEN += [("text", each) for each in ("added", "removed")] + [("muted", each) for each in ("added-n", "removed-n")]


def luminance(colour: str) -> float:
    """https://www.w3.org/TR/WCAG22/#dfn-relative-luminance"""
    digits = colour.removeprefix("#")
    digits = "".join(2 * digit for digit in digits) if len(digits) == 3 else digits
    parts = (int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4))
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("colours", (LIGHT, DARK), ids=("light", "dark"))
def test_everything_can_be_read(colours: dict[str, str]) -> None:
    assert colours.keys() == LIGHT.keys()
    known = {**colours, "white": "#fff"}
    faint = {}
    for ink, ground in WRITTEN:
        dark, bright = sorted((luminance(known[ink]), luminance(known[ground])))
        if (ratio := (bright + 0.05) / (dark + 0.05)) < ENOUGH:
            faint[ink, ground] = round(ratio, 2)
    assert faint == {}
