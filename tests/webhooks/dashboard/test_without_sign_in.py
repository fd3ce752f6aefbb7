"""A service that speaks as a machine account has no sign-in: its pages are for this machine alone (W5)."""

import http.client
import socket
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
import requests

from tests.webhooks.dashboard.ground import THREAD, Site, running

pytestmark = pytest.mark.req("W5")

PAGES = ("/", "/threads", THREAD, "/threads/parcel/shop/2/transcripts/work-1", "/costs", "/maintenance", "/deliveries")
PATHS = (*PAGES, "/service", "/live", f"/live{THREAD.removeprefix('/threads')}", "/sign-in", "/no/such/page")
HERE = "localhost"
FORWARDED = (
    "Forwarded",
    "Via",
    "X-Real-IP",
    "X-Forwarded-For",
    "X-Forwarded-Host",
    "X-Forwarded-Proto",
    "x-FORWARDED-y",
)
NAMES = (
    "evil.example localhost.evil.example 127.0.0.1.evil.example 127.0.0.1@evil.example evil.example#@x localhost. "
    "127.1 evil.example?127.0.0.1 0.0.0.0 2130706433 [::ffff:127.0.0.1] [ ]:80"
)


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A dashboard without an App that listens on every address, as a careless operator would have it."""
    with running(tmp_path_factory.mktemp("alone"), has_app=False, host="0.0.0.0") as made:  # noqa: S104 - the attack
        yield made


def outer_address() -> str:
    """Return this machine's address in its network; "" if it has none. Nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        try:
            asking.connect(("192.0.2.1", 9))  # https://www.rfc-editor.org/rfc/rfc5737
        except OSError:
            return ""
        return str(asking.getsockname()[0])


def get(site: Site, path: str, *, at: str = "127.0.0.1", source: str = "", **headers: str) -> tuple[int, str]:
    """Ask for a page at an address of this machine, from one of its addresses, under any name."""
    named = {
        "Host": f"{HERE}:{urlsplit(site.base).port}",
        **{name.replace("_", "-"): headers[name] for name in headers},
    }
    connection = http.client.HTTPConnection(at, urlsplit(site.base).port, source_address=(source, 0), timeout=20)
    try:
        connection.putrequest("GET", path, skip_host=True)
        for name, value in named.items():
            connection.putheader(name, value)
        connection.endheaders()
        answer = connection.getresponse()
        is_stream = "event-stream" in answer.headers.get("content-type", "")
        return answer.status, "" if is_stream else answer.read().decode()
    finally:
        connection.close()


def test_this_machine_reads_everything_and_decides_nothing(alone: Site) -> None:
    for path in PAGES:
        status, page = get(alone, path)
        assert status == 200, path
        assert "This machine · read only" in page
        assert "<button" not in page.replace("<button>Search</button>", "").replace("<button>Close</button>", "")
    assert "Secret rotation" in get(alone, "/threads")[1]
    assert requests.post(alone.base + THREAD, data={"verb": "approve"}, timeout=20).status_code == 403


def test_another_machine_gets_one_answer_for_what_exists_and_what_does_not(alone: Site) -> None:
    here = outer_address()
    ways = [
        {"source": "127.0.0.2"},
        *([{"at": here, "source": here}, {"at": here}] if here not in {"", "127.0.0.1"} else []),
    ]
    for way in ways:
        assert {get(alone, path, **way) for path in PATHS} <= {(404, "Not Found\n"), (404, '{"detail":"Not Found"}')}
        assert get(alone, THREAD, **way) == get(alone, "/threads/no/where/1", **way) == (404, "Not Found\n")


@pytest.mark.parametrize("header", FORWARDED)
def test_a_proxy_of_this_machine_gets_nothing(alone: Site, header: str) -> None:
    for said in ("1.2.3.4", "127.0.0.1", ""):
        assert get(alone, THREAD, **{header.replace("-", "_"): said}) == (404, "Not Found\n")


@pytest.mark.parametrize("name", (*NAMES.split(), ""))
def test_under_another_name_of_this_machine_nothing_is_served(alone: Site, name: str) -> None:
    status, page = get(alone, THREAD, Host=name)
    assert status in {400, 404}
    assert "Orders" not in page
