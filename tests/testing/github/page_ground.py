"""A running site of the simulated GitHub for the tests of its pages, and what hostile people write on it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path

import requests
from starlette.applications import Starlette

from bot.testing.github import conversation
from bot.testing.github.entities import Comment
from bot.testing.github.page.page_routes import page_routes
from bot.testing.github.world import ActingUser, GitHubState
from bot.testing.host import host_application

HOME = "acme/parcel"
ISSUE = f"/{HOME}/issues/1"
PULL = f"/{HOME}/pull/2"
PLAN = """\
## ⏸ plan mode: plan 1 (9f8e7d6c5b4a)

Orders of exactly 50 pay for shipping: `parcel/shipping.py` compares with `>`.

| sub-agent | tool calls |
|---|--:|
| explore | 3 |

```markdown
- [ ] no box, but code
```

- [ ] Approve this plan

👍 or 🚀 approves, 👎 rejects.

<!-- plangate:1 plan 1 1 9f8e KEYID MAC -->
"""
PAYLOADS = (
    "<script>window.hit=1</script>", "<img src=x onerror=window.hit=1>", '"><svg onload=window.hit=1>',
    "</textarea></article></main><script>window.hit=1</script>", "[x](javascript:window.hit=1)",
    "![x](javascript:window.hit=1)", '[x](https://a.b "\\" onmouseover=window.hit=1")',
    "<details open ontoggle=window.hit=1>", "</details></details></div><summary onclick=window.hit=1>",
    '```" onclick=window.hit=1\n<script>window.hit=1</script>\n```', "<!-- <script>window.hit=1</script>",
    '- [ ] " onfocus=window.hit=1 autofocus x="', "|a|\n|:-:|\n|<script>window.hit=1</script>|",
    "https://a.b/\"onclick=window.hit=1 and <https://a.b/'onclick=1>",
    "<iframe srcdoc='<script>parent.hit=1</script>'>", "<style>*{display:none}</style><base href=//evil.example>",
)  # fmt: skip
EVERYTHING = "\n\n".join(PAYLOADS)


@dataclass(frozen=True)
class Site:
    """A running site with an issue that has a plan, and a pull request."""

    base: str
    world: GitHubState
    plan_id: int
    bot: ActingUser

    def get(self, path: str, login: str = "ada", **headers: str) -> requests.Response:
        cookies = {"acting_as": login}
        return requests.get(self.base + path, cookies=cookies, headers=headers, timeout=20)

    def post(self, path: str, login: str = "ada", **form: str) -> requests.Response:
        return requests.post(self.base + path, data=form, cookies={"acting_as": login}, timeout=20)

    @property
    def plan(self) -> Comment:
        return self.world.comments[self.plan_id]


@contextmanager
def running(folder: Path) -> Iterator[Site]:
    """Ada maintains, Ben writes and asked, Eve reads, a bot has shown a plan and made a pull request."""
    world = GitHubState(folder / "git")
    world.add_repository(HOME, {"README.md": "# Parcel\n", "shipping.py": "free = total > 50\n"})
    ada, ben = world.person("ada"), world.person("ben")
    world.person("eve")
    world.set_role(HOME, "ada", "maintain")
    world.set_role(HOME, "ben", "write")
    issue = ben.open_issue(HOME, "Orders of exactly 50 pay for `shipping`", "@plangate please fix it.")
    bot = ActingUser(world, world.add_user("plangate[bot]", "Bot").id)
    plan = conversation.comment(bot, issue, PLAN)
    ada.push(
        HOME, {"shipping.py": "free = total >= 50\n# <b>&amp;\n"}, branch="plangate/1-fix", message="Fix <i>it</i>\n"
    )
    ada.open_pull(HOME, "Ship 50 free", head="plangate/1-fix", body="Closes #1")
    with host_application(Starlette(routes=page_routes(world))) as base:
        yield Site(base, world, plan.id, bot)


class Seen(HTMLParser):
    """The elements of a page as a browser would read them."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def named(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]

    def assert_harmless(self) -> None:
        assert self.named("script") == [{"src": "/static/page.js", "defer": None}]
        assert not [tag for tag, _ in self.tags if tag in {"img", "svg", "iframe", "style", "base", "object", "embed"}]
        for tag, attributes in self.tags:
            assert not [
                name for name in attributes if name.startswith("on") or name in {"style", "srcdoc", "autofocus"}
            ], tag
            for name in ("href", "src", "action", "formaction"):
                assert not (attributes.get(name) or "").strip().lower().startswith(("javascript:", "data:", "//"))
