"""An App's tokens: renewed in time, and given back."""

import pytest

from bot.core.errors import Transient
from bot.github.tokens import AppTokens
from tests.github.conftest import Ground


def alive(ground: Ground) -> set[str]:
    """The installation tokens that open anything now."""
    now = ground.clock.now()
    every = ground.github.world.tokens.values()
    return {
        token.value for token in every if token.kind == "installation" and token.expires_at and token.expires_at > now
    }


def tokens(ground: Ground) -> AppTokens:
    (installed,) = ground.github.world.installations
    return AppTokens(ground.app, installed)


@pytest.mark.req("W4")
async def test_what_was_made_is_given_back(ground: Ground) -> None:
    """The newest token and the one that it renewed end at once; the next one is a new one."""
    made = tokens(ground)
    first = await made.token()
    ground.clock.advance(3600 - 200)
    second = await made.token()
    assert alive(ground) == {first, second}
    await made.revoke()
    assert alive(ground) == set()
    assert await made.token() not in {first, second}


@pytest.mark.req("W4")
async def test_what_is_over_is_not_given_back(ground: Ground) -> None:
    """An hour later there is nothing to revoke, and a second time neither."""
    made = tokens(ground)
    await made.token()
    ground.clock.advance(3601)
    await made.revoke()
    await made.revoke()
    assert ground.asked("DELETE") == []


@pytest.mark.req("W4")
async def test_a_github_that_fails_is_told(ground: Ground) -> None:
    """What was not revoked is no secret: the caller learns of it."""
    made = tokens(ground)
    await made.token()
    ground.github.faults.fail("DELETE /installation/token", 500, times=99)
    with pytest.raises(Transient):
        await made.revoke()
