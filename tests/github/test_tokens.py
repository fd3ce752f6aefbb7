"""An App's tokens: renewed in time, and given back."""

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from bot.clock import SystemClock
from bot.core.errors import Misconfigured, Transient
from bot.github.tokens import AppJwt, AppTokens
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
async def test_newest_and_renewed_tokens_are_revoked_at_once(ground: Ground) -> None:
    made = tokens(ground)
    first = await made.token()
    ground.clock.advance(3600 - 200)
    second = await made.token()
    assert alive(ground) == {first, second}
    await made.revoke()
    assert alive(ground) == set()
    assert await made.token() not in {first, second}


@pytest.mark.req("W4")
async def test_expired_tokens_are_not_revoked(ground: Ground) -> None:
    made = tokens(ground)
    await made.token()
    ground.clock.advance(3601)
    await made.revoke()
    await made.revoke()
    assert ground.asked("DELETE") == []


@pytest.mark.req("W4")
async def test_failed_revocation_is_reported(ground: Ground) -> None:
    made = tokens(ground)
    await made.token()
    ground.github.faults.fail("DELETE /installation/token", 500, times=99)
    with pytest.raises(Transient):
        await made.revoke()


async def test_text_that_is_no_private_key_is_refused_with_its_variable() -> None:
    private = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    public = private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
    for text in (public, "garbage", ""):
        with pytest.raises(Misconfigured, match="PLANGATE_PRIVATE_KEY"):
            await AppJwt("1", lambda text=text: text, SystemClock()).token()  # type: ignore[misc]
