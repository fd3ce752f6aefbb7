"""Joins the fetcher of pictures and the check of their contents (K9)."""

from dataclasses import replace

from bot.compose.parts import egress_route_of, server_host
from bot.config.settings import Settings
from bot.core.errors import Refused
from bot.core.transcript import Json
from bot.toolhost.images import checked_image_block, media_type
from bot.toolhost.protocol import Failure
from bot.workspace.egress.picture_fetcher import PictureFetcher, attachment_hosts


async def fetch_image_block(fetcher: PictureFetcher, url: str) -> Json:
    """Return the image block of a picture. Raises Refused or Transient with the reason."""
    return image_block(await fetcher.fetch(url))


def picture_fetcher_of(settings: Settings) -> PictureFetcher:
    """Return the fetcher of pictures that are attached on the operator's GitHub server."""
    hosts = attachment_hosts(server_host(settings))
    own = () if "github.com" in hosts else tuple(hosts)
    return PictureFetcher(hosts, replace(egress_route_of(settings), own=own))


def image_block(content: bytes) -> Json:
    """Return the image block of a picture, judged by its first bytes. Raises Refused if the model cannot take it."""
    kind = media_type(content[:16])
    if kind is None:
        raise Refused("it is not a PNG, JPEG, GIF, or WebP image")
    try:
        return checked_image_block(content, kind, "it")
    except Failure as failure:
        raise Refused(str(failure)) from None
