"""Which names of this machine, and which forms, the set-up takes."""

from pathlib import Path

import pytest

from bot.compose.app_set_up import open_app_set_up
from bot.config.settings import GitHubSettings, Settings
from bot.core.errors import Misconfigured
from bot.core.secrets.redaction import Redactor
from tests.rows import every_row
from tests.webhooks.set_up_ground import FORM, PUBLIC
from webhooks.setup.set_up import SetUpVisitor, announce_set_up, read_form

pytestmark = pytest.mark.req("W4a")


@every_row(
    ("listens", "name", "is_ours"),
    (
        ("127.0.0.1", "localhost:9999", True),
        ("127.0.0.1", "[::1]:8000", True),
        ("127.0.0.1", "127.0.0.1", True),
        ("127.0.0.1", "evil.example", False),
        ("127.0.0.1", "localhost.evil.example", False),
        ("127.0.0.1", "10.0.0.5:8000", False),
        ("127.0.0.1", "127.0.0.1@evil.example", False),
        ("127.0.0.1", "[", False),
        ("127.0.0.1", "", False),
        ("0.0.0.0", "10.0.0.5:8000", True),  # noqa: S104 - only named
        ("0.0.0.0", "evil.example", False),  # noqa: S104 - only named
        ("build.internal", "build.internal:8000", True),
        ("build.internal", "evil.example", False),
    ),
)
def test_the_names_of_this_machine(listens: str, name: str, is_ours: bool) -> None:
    """Those of loopback, the one that the service listens on, and any address if it listens on all of them."""
    assert SetUpVisitor(listens).may_name(name) is is_ours


@every_row(
    ("change", "told"),
    (
        ({"organization": "https://github.com/acme"}, "login"),
        ({"organization": ""}, "login"),
        ({"name": "x" * 35}, "1 to 34 characters"),
        ({"name": " "}, "1 to 34 characters"),
        ({"url": "plangate.acme.example"}, "https://plangate.example.com"),
        ({"url": "ftp://plangate.acme.example"}, "must begin with https://"),
        ({"url": "https://user@plangate.acme.example"}, "https://plangate.example.com"),
        ({"url": "https://[x"}, "https://plangate.example.com"),
        ({"url": "https://localhost:8000"}, "cannot reach this machine"),
        ({"url": "https://127.0.0.1:8000"}, "cannot reach this machine"),
    ),
)
def test_mistakes_in_the_form(change: dict[str, str], told: str) -> None:
    """Each is told for its field."""
    found = read_form(FORM | change, "https://github.com").mistakes
    assert found.keys() == change.keys()
    assert told in found.popitem()[1]


def test_other_machines_are_warned_of(capsys: pytest.CaptureFixture[str]) -> None:
    """The address is printed in full, as this machine can open it, and with a warning if others can reach it too."""
    near, wide = SetUpVisitor("::1"), SetUpVisitor("0.0.0.0")  # noqa: S104 - only named
    announce_set_up(near, ("::1", 8000))
    told = capsys.readouterr()
    assert f"    http://[::1]:8000/setup?token={near.token}\n" in told.err
    assert ("warning" in told.err, told.out) == (False, "")
    announce_set_up(wide, ("0.0.0.0", 80))  # noqa: S104 - only named
    told = capsys.readouterr()
    assert f"http://localhost:80/setup?token={wide.token}" in told.err
    assert "warning: other machines can reach the set-up" in told.err


def test_two_servers(tmp_path: Path) -> None:
    """The code of a server of one's own never goes to github.com."""
    mixed = GitHubSettings(server_url="https://ghes.internal")
    with (
        pytest.raises(Misconfigured, match="GITHUB_API_URL"),
        open_app_set_up(Settings(data_dir=tmp_path, github=mixed), Redactor()),
    ):
        pass


@pytest.mark.parametrize("url", (PUBLIC, f"{PUBLIC}/", f"{PUBLIC}/webhooks/github"))
def test_the_address_of_the_webhook(url: str) -> None:
    """It is the public address with the path of deliveries, which people may type as well."""
    form = read_form(FORM | {"url": url, "owner": "person"}, "https://github.com")
    assert (form.webhook_url, form.owner, dict(form.mistakes)) == (f"{PUBLIC}/webhooks/github", "", {})


def test_a_server_without_https() -> None:
    """A server of one's own that uses plain HTTP may deliver over it."""
    assert not read_form(FORM | {"url": "http://plangate.internal"}, "http://ghes.internal").mistakes
