"""`@plangate finish` on both faces: what is there is checked and published with its receipt."""

import time
from collections.abc import Callable

import pytest

from bot.agent.loop import ENDED_EARLY, LAST_REQUESTS
from bot.core.gate import Stage
from bot.testing.model.reply import Fault, Reply, call
from bot.testing.model.request_view import ModelRequest
from tests.stories.github.ground import FIX, FIXED, Hub, Model
from tests.stories.github.moments import receipt_is_true
from tests.stories.github.runner import SCHEDULE, Runs
from tests.stories.github.service import Served
from tests.stories.ground import until

pytestmark = [pytest.mark.long, pytest.mark.timeout(300), pytest.mark.req("PR3", "PR6", "RC1")]


class Slow(Model):
    """A model that takes its time over approved work: a session looks every 5 seconds for what people said."""

    def do(self, request: ModelRequest) -> Reply | Fault:
        """Answer after a while."""
        time.sleep(0.5)
        return Model.do(self, request)


@pytest.fixture
def model() -> Model:
    """Return a model that fixes the file, and then reads it forever."""
    made = Slow(work=(*FIX[:2], call("Read", file_path=FIXED)))
    made.pause("w2")
    return made


def order_to_finish(hub: Hub, model: Model, hear: Callable[[], object]) -> None:
    """Comment `finish` while the session waits for the model, have the bot hear it, and let the model go on."""
    until(lambda: model.pauses["w2"].there, "the model works")
    hub.says("will", "@plangate finish")
    hear()
    until(lambda: any("Finishing early, as will asked" in each for each in hub.said("tell")), "the bot says so")
    model.go_on()


def is_published(hub: Hub, model: Model) -> None:
    """Hold that what is there is in a pull request that says so, with a true receipt, a few requests later."""
    (branch,), (pull,) = hub.branches(), hub.pulls()
    assert "total >= FREE_FROM" in hub.file(branch, FIXED)
    assert ENDED_EARLY in pull.text.body
    told = [request for request in model.works if any("People asked you to finish" in text for text in request.texts())]
    assert len(told) == LAST_REQUESTS
    receipt_is_true(hub, pull)


def test_in_the_service(served: Served) -> None:
    """The comment reaches the session that works."""
    served.begin()
    served.opens("will")
    until(lambda: served.plans(1), "the plan")
    served.reacts("maya", "+1")
    order_to_finish(served, served.model, lambda: None)
    until(served.pulls, "the pull request")
    served.rest()
    is_published(served, served.model)


@pytest.mark.soak
def test_in_jobs(runs: Runs) -> None:
    """A job of its own hears the comment, and the one that works ends its session."""
    runs.opens("will")
    assert runs.ran(runs.next()).process.returncode == 0
    runs.reacts("maya", "+1")
    working = runs.start(SCHEDULE)
    order_to_finish(runs, runs.model, lambda: runs.ran(runs.next(), PLANGATE_ONLY_LISTEN="true"))
    assert working.wait() == 0, working.log
    assert runs.record().stage is Stage.IN_REVIEW
    is_published(runs, runs.model)
