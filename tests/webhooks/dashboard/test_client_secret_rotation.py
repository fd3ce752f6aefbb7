"""Replacing the client secret of the dashboard while people are signed in, as docs/operations.md says."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from fastapi import FastAPI

from bot.core.secrets.redaction import Redactor
from bot.service.viewers import SignIn
from bot.testing.github import credentials
from bot.testing.github.oauth import ACCESS_LIFE
from bot.testing.host import host_application
from tests.webhooks.dashboard.ground import THREAD, Site, settings
from webhooks.dashboard.service_pages import add_dashboard
from webhooks.event_stream import Streams


@contextmanager
def restarted(own_site: Site, folder: Path) -> Iterator[Site]:
    """Serve the same dashboard from a new process, with what the App has now and nobody signed in."""
    app = FastAPI(docs_url=None)
    sign_in = SignIn(settings(own_site.github, folder), own_site.clock, Redactor())
    add_dashboard(app, reading=own_site.reading.overview(), sign_in=sign_in, streams=Streams())
    with host_application(app) as base:
        yield replace(own_site, base=base, people={})


@pytest.mark.req("W5")
def test_client_secret(own_site: Site, tmp_path: Path) -> None:
    """The old secret renews tokens until the restart; after it people sign in again, and the old one can be deleted."""
    assert own_site.get(THREAD).status == 200
    own_site.github.app = credentials.add_client_secret(own_site.github.world, own_site.github.app)
    before = len(own_site.github.oauth.renewals)
    for _ in range(5):  # a session ends after two hours without use
        own_site.clock.advance(ACCESS_LIFE.total_seconds() / 5)
        assert own_site.get(THREAD).status == 200
    assert len(own_site.github.oauth.renewals) == before
    with restarted(own_site, tmp_path) as again:
        own_site.github.app = credentials.delete_older(own_site.github.world, own_site.github.app)
        assert again.get(THREAD).status == 200


@pytest.mark.req("W5")
def test_a_secret_that_was_deleted_too_early(own_site: Site, tmp_path: Path) -> None:
    """GitHub refuses the service: nobody can sign in until the restart, and everybody can after it."""
    made = credentials.add_client_secret(own_site.github.world, own_site.github.app)
    own_site.github.app = credentials.delete_older(own_site.github.world, made)
    assert own_site.get(THREAD).status == 303
    with restarted(own_site, tmp_path) as again:
        assert again.get(THREAD).status == 200
