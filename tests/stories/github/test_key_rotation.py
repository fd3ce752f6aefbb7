"""Replacing each key of a running service as docs/operations.md says: every thread goes on, and nothing is lost."""

import urllib.error
import urllib.request

import pytest

from bot.testing.github import credentials
from tests.stories.github.moments import READY, exactly_one
from tests.stories.github.service import Served
from tests.stories.ground import until

STATE_KEY = "0123456789abcdef" * 4


def begin_with_a_plan(served: Served) -> None:
    """Start the service, and wait until a plan waits for approval."""
    served.begin()
    served.opens("will")
    until(served.plans, "a plan")
    served.rest()


def restart(served: Served) -> None:
    """Restart the service with what GitHub holds now."""
    served.stop()
    served.start()


def approve(served: Served) -> None:
    """Approve the plan, and hold that there is exactly one of everything in the end."""
    served.says("maya", "@plangate approve")
    until(lambda: any(READY in text for text in served.said("tell")), "a pull request")
    served.rest()
    exactly_one(served)


@pytest.mark.long
@pytest.mark.req("W1", "W3")
def test_webhook_secret(served: Served) -> None:
    """What is delivered between the change at GitHub and the restart is refused, and read from GitHub afterwards."""
    served.variables["PLANGATE_RECONCILE_SECONDS"] = "99999"  # only the reading at each start
    begin_with_a_plan(served)
    served.github.app = credentials.change_webhook_secret(served.world, served.github.app)
    served.hook()
    second = served.opens("will", title="Between").number
    served.github.webhooks.drain()
    assert served.github.webhooks.deliveries[-1].status_code == 401
    assert not served.plans(second)
    restart(served)
    until(lambda: served.plans(second), "a plan")
    approve(served)


@pytest.mark.long
@pytest.mark.req("A4")
@pytest.mark.parametrize("has_state_key", (True, False))
def test_private_key(served: Served, *, has_state_key: bool) -> None:
    """With a state key of its own nothing changes; without one, the text of the old private key becomes it."""
    if has_state_key:
        served.variables["PLANGATE_STATE_KEY"] = STATE_KEY
    begin_with_a_plan(served)
    old, served.github.app = served.github.app, credentials.add_private_key(served.world, served.github.app)
    assert served.github.app.pem != old.pem
    if not has_state_key:
        served.variables["PLANGATE_STATE_KEY"] = old.pem.replace("\n", "\\n")
    restart(served)
    served.github.app = credentials.delete_older(served.world, served.github.app)
    approve(served)


@pytest.mark.req("W4")
def test_api_token(served: Served) -> None:
    """From the restart on only the new one counts."""
    served.variables["PLANGATE_API_TOKEN"] = "old-token"
    served.begin()
    assert [metrics(served, token) for token in ("old-token", "new-token")] == [200, 401]
    served.variables["PLANGATE_API_TOKEN"] = "new-token"
    restart(served)
    assert [metrics(served, token) for token in ("old-token", "new-token")] == [401, 200]


def metrics(served: Served, token: str) -> int:
    """Return the status with which /metrics answers to a token."""
    url, headers = f"http://127.0.0.1:{served.port}/metrics", {"Authorization": f"Bearer {token}"}
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=20) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        error.close()
        return error.code
