"""Servers and clients for the tests of the simulated Messages API: the real library over real HTTP."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import pytest
from anthropic import Anthropic, AsyncAnthropic, DefaultAsyncHttpxClient, DefaultHttpxClient

from bot.testing.model.reply import Policy, say
from bot.testing.model.server import ScriptedModel

Body = dict[str, Any]


@dataclass(frozen=True)
class Api:
    """A running server beside a client of it that never tries again."""

    model: ScriptedModel
    client: Anthropic

    def send(self, body: Body, *betas: str) -> Body:
        """Posts a body as it is, whatever the library's signatures say, and gives the answer."""
        headers = {"anthropic-beta": ",".join(betas)} if betas else {}
        answer = self.client.post("/v1/messages", cast_to=object, body=body, options={"headers": headers})
        assert isinstance(answer, dict)
        return answer


def plain_client(base_url: str, **options: Any) -> Anthropic:
    """A client that never tries again, and loads no certificates, for 20 ms, since it never needs any."""
    without = DefaultHttpxClient(verify=False)
    return Anthropic(api_key="key", base_url=base_url, max_retries=0, http_client=without, **options)


def plain_async_client(base_url: str) -> AsyncAnthropic:
    without = DefaultAsyncHttpxClient(verify=False)
    return AsyncAnthropic(api_key="key", base_url=base_url, max_retries=0, http_client=without)


@pytest.fixture
def serve() -> Iterator[Callable[..., Api]]:
    """Starts a server for a policy, with the options of ScriptedModel."""
    with ExitStack() as stack:

        def start(policy: Policy, **options: Any) -> Api:
            model = stack.enter_context(ScriptedModel(policy, **options))
            client = plain_client(model.base_url)
            return Api(model, stack.enter_context(client))

        yield start


@pytest.fixture(scope="module")
def ok() -> Iterator[Api]:
    """A server that answers every request it admits with "ok"; nothing in it depends on earlier requests."""
    with ScriptedModel(lambda request: say("ok")) as model, warnings.catch_warnings():
        # The library warns of models that retire; the server still has them.
        warnings.simplefilter("ignore", DeprecationWarning)
        with plain_client(model.base_url) as client:
            yield Api(model, client)
