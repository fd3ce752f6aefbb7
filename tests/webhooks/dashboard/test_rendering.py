"""Pages are rendered beside the event loop: a text that takes long holds up nobody else (W1a)."""

import threading
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import requests
from fastapi import APIRouter, FastAPI, Request

from bot.clock import SystemClock
from bot.config.settings import GitHubSettings, Secret, Settings
from bot.service.viewers import SignIn
from bot.testing.host import host_application
from tests.webhooks.dashboard.sample_reading import SampleReading
from webhooks.dashboard.pages import Answer, Attempts, Dashboard, Page, Pages, Sessions, Visit

SECONDS = 10


@dataclass
class WaitingText:
    """A text that is not rendered before somebody else was answered."""

    began: threading.Event = field(default_factory=threading.Event)
    other: threading.Event = field(default_factory=threading.Event)
    came: bool = False

    def __html__(self) -> str:
        self.began.set()
        self.came = self.other.wait(SECONDS)
        return "text"


@pytest.mark.req("W1a")
def test_a_page_that_takes_long_holds_up_nobody_else(tmp_path: Path) -> None:
    sign_in = SignIn(Settings(data_dir=tmp_path, github=GitHubSettings(token=Secret("t" * 40))), SystemClock())
    board = Dashboard(SampleReading({}).overview(), sign_in, Sessions(sign_in.clock), Attempts(sign_in.clock))
    pages, text, app = Pages(board, APIRouter()), WaitingText(), FastAPI()

    async def slow(_visit: Visit, _request: Request) -> Answer:
        return Page("message.html", "Slow", {"text": text})

    async def quick(_visit: Visit, _request: Request) -> Answer:
        text.other.set()
        return Page("message.html", "Quick", {"text": "text"})

    pages.show("/slow", slow)
    pages.show("/quick", quick)
    app.include_router(pages.router)
    with host_application(app) as base:
        asking = threading.Thread(target=requests.get, args=[f"{base}/slow"], kwargs={"timeout": 2 * SECONDS})
        asking.start()
        assert text.began.wait(SECONDS)
        requests.get(f"{base}/quick", timeout=2 * SECONDS)
        asking.join()
    assert text.came
