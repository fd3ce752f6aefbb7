"""A public service behind a proxy on its own machine (W1b): by itself it cannot tell the proxy from a program here, so
that nothing rests on it. The proxy is a real nginx, with the configuration of docs/operations.md."""

import http.client
import json
import os
import re
import shutil
import ssl
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from bot.clock import SystemClock
from bot.config.settings import GitHubSettings, Secret, Settings
from bot.service.viewers import SignIn
from bot.testing.host import host_application
from tests.ports import free_port
from tests.service.ground import headers, payload
from tests.webhooks.api_ground import Answer, World, as_operator, request
from tests.workspace.egress.internet import certificates
from webhooks.app import application
from webhooks.dashboard.service_pages import add_dashboard
from webhooks.delivery_route import Bounds

pytestmark = pytest.mark.req("W1b")

ROOT = Path(__file__).parents[2]
PUBLIC = "https://plangate.example.com"
PRIVATE = ("/api/threads", "/api/threads/octo/hello/1", "/api/threads/octo/hello/1/events", "/metrics")
PAGES = ("/", "/threads", "/threads/octo/hello/1", "/costs", "/live", "/service")
NOT_CONFIGURED = "server { listen 443 ssl; ssl_certificate /etc/ssl/plangate.example.com.pem; " + (
    "ssl_certificate_key /etc/ssl/plangate.example.com.key; location / { proxy_pass http://127.0.0.1:8000; } }"
)
"""What an operator who knows only `proxy_pass` writes: the service is sent its own address as Host, and no header."""


@contextmanager
def public_service(folder: Path, *, token: str, has_app: bool) -> Iterator[str]:
    world = World(folder, token=token, public_url=PUBLIC)
    app = GitHubSettings(app_id="1", private_key=Secret("k"), client_id="x", client_secret=Secret("y"))
    github = app if has_app else GitHubSettings(token=Secret("t" * 9))
    sign_in = SignIn(Settings(data_dir=folder, github=github, service=world.service.settings.service), SystemClock())
    pages = partial(add_dashboard, reading=world.overview, sign_in=sign_in, streams=world.streams)
    with host_application(application(world.service, Bounds(), world.routes, pages)) as base:
        yield base


def documented() -> str:
    """Return the configuration of nginx in the page for operators."""
    (found,) = re.findall(r"```nginx\n(.*?)```", (ROOT / "docs/operations.md").read_text(), re.DOTALL)
    return str(found)


@contextmanager
def nginx(folder: Path, base: str, text: str) -> Iterator[int]:
    """Run nginx with a configuration, whose two ports and two files alone are those of the test; yield its port."""
    program = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
    if program is None:
        pytest.skip("nginx is not installed; on Debian: sudo apt-get install nginx-light")
    cert, key = certificates(folder, ("plangate.example.com",))
    port = free_port()
    ours = {
        "listen 443 ssl": f"listen 127.0.0.1:{port} ssl",
        "http://127.0.0.1:8000": base,
        "/etc/ssl/plangate.example.com.pem": str(cert),
        "/etc/ssl/plangate.example.com.key": str(key),
    }
    for theirs, our in ours.items():
        assert theirs in text
        text = text.replace(theirs, our)
    (folder / "plangate.conf").write_text(text)
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    places = " ".join(f"{kind}_temp_path {folder}/{kind};" for kind in kinds)
    (folder / "nginx.conf").write_text(
        f"daemon off; master_process off; pid {folder}/pid; error_log stderr notice; events {{}}\n"
        f"http {{ access_log off; {places} include {folder}/plangate.conf; }}\n"
    )
    command = [program, "-e", "stderr", "-p", str(folder), "-c", str(folder / "nginx.conf")]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            said = ""
            while "using the" not in said:  # the method by which it waits for connections: it listens already
                line = process.stderr.readline()
                assert line, said
                said += line
            yield port
        finally:
            process.kill()


def ask(
    folder: Path, port: int, path: str, given: Mapping[str, str] | None = None, content: bytes | None = None
) -> Answer:
    trust = ssl.create_default_context(cafile=folder / "cert.pem")
    trust.check_hostname = False
    connection = http.client.HTTPSConnection("127.0.0.1", port, context=trust, timeout=20)
    try:
        named = {"Host": "plangate.example.com", **(given or {})}
        connection.request("GET" if content is None else "POST", path, content, named)
        response = connection.getresponse()
        text, kind = response.read(), response.headers.get("content-type", "")
        found = {name.lower(): value for name, value in response.getheaders()}
        return Answer(response.status, found, json.loads(text) if "json" in kind else text)
    finally:
        connection.close()


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A public service with neither an API token nor an App."""
    with public_service(tmp_path_factory.mktemp("closed"), token="", has_app=False) as base:
        yield base


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A public service with an API token, at which people sign in."""
    with public_service(tmp_path_factory.mktemp("opened"), token="t", has_app=True) as base:
        yield base


def test_with_a_public_url_the_address_of_this_machine_opens_nothing(closed: str) -> None:
    for name in ("127.0.0.1", "localhost", "[::1]"):
        given = {"Host": f"{name}:{urlsplit(closed).port}"}
        assert {request(closed, "GET", path, given).status for path in PRIVATE} == {401}
        assert request(closed, "GET", "/readyz", given).body == {"status": "ready"}
        found = [request(closed, "GET", path, given) for path in (*PAGES, "/sign-in")]
        assert {(page.status, page.body) for page in found} == {(404, b"Not Found\n")}


def test_with_a_public_url_the_token_opens_what_it_opens_elsewhere(opened: str) -> None:
    assert [request(opened, "GET", path).status for path in PRIVATE] == [401] * 4
    assert [request(opened, "GET", path, as_operator("t")).status for path in PRIVATE] == [200, 404, 404, 200]
    assert "deliveries" in request(opened, "GET", "/readyz", as_operator("t")).body
    assert {request(opened, "GET", path).status for path in PAGES} == {204, 303}


@pytest.mark.long
def test_a_proxy_that_names_this_machine_and_adds_no_header_opens_nothing(tmp_path: Path, closed: str) -> None:
    with nginx(tmp_path, closed, NOT_CONFIGURED) as port:
        assert {ask(tmp_path, port, path).status for path in PRIVATE} == {401}
        assert ask(tmp_path, port, "/readyz").body == {"status": "ready"}
        assert {ask(tmp_path, port, path).status for path in PAGES} == {404}


@pytest.mark.long
def test_the_documented_nginx_lets_in_who_may_come_in(tmp_path: Path, opened: str) -> None:
    with nginx(tmp_path, opened, documented()) as port:
        assert {ask(tmp_path, port, path).status for path in PRIVATE} == {401}
        assert ask(tmp_path, port, "/readyz").body == {"status": "ready"}
        assert ask(tmp_path, port, "/metrics", as_operator("t")).status == 200
        assert ask(tmp_path, port, "/").headers["location"] == "/sign-in?back=/"
        away = ask(tmp_path, port, "/sign-in/github").headers["location"]
        assert "redirect_uri=https%3A%2F%2Fplangate.example.com%2Fsign-in%2Fcallback" in away
        body = payload(1)[:-1] + b" " * 3_000_000 + b"}"
        assert ask(tmp_path, port, "/webhooks/github", dict(headers(body)), body).status == 202
        tries = [ask(tmp_path, port, "/sign-in/callback?code=x&state=x").status for _ in range(14)]
        assert (set(tries[:9]), tries[-1]) == ({403}, 429)
