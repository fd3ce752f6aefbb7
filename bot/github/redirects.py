"""Redirects of the REST API: where a repository that was renamed or transferred can be reached now.

https://docs.github.com/en/rest/using-the-rest-api/best-practices-for-using-the-rest-api#follow-redirects
"""

import re
from typing import Final
from urllib.parse import urljoin, urlsplit

MOVED: Final = frozenset({301, 302, 307, 308})
_IN_REPOSITORY: Final = re.compile(r"/(?:repos/[^/]+/[^/]+|repositories/\d+)(?=/|$)")


def redirect_target(requested: str, location: str, *, api_url: str, writes: bool) -> str | None:
    """Return the URL to send a request to instead of the `requested` one, or None if it must not be followed.

    Only the API at `api_url` may receive the token. A write is followed only to the same resource of a renamed
    repository. Any other redirect, such as that of a transferred issue, leads to another repository.
    """
    target = urljoin(requested, location)
    base = api_url.rstrip("/")
    if not location or not target.startswith(f"{base}/") or target == requested:
        return None
    if writes and _resource(requested, base) != _resource(target, base):
        return None
    return target


def _resource(url: str, base: str) -> str:
    """Return the path of a resource below its repository."""
    path = urlsplit(url).path.removeprefix(urlsplit(base).path)
    return _IN_REPOSITORY.sub("", path, count=1)
