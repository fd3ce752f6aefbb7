"""The open HTTP connection to one GitHub API under one token: PyGithub's requester and the session it sends with.

`requests` reads the whole environment again for each request, which costs more than building the request itself. The
session here reads proxies and certificates once, when the connection is made, and keeps them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self
from urllib.parse import urlsplit

if TYPE_CHECKING:
    import requests
    from github.Requester import HTTPRequestsConnectionClass, HTTPSRequestsConnectionClass, Requester

# https://docs.github.com/en/rest/about-the-rest-api/api-versions
API_VERSION: Final = "2022-11-28"
USER_AGENT: Final = "plangate"


@dataclass(frozen=True, slots=True)
class TokenConnection:
    """Carries one exchange at a time."""

    token: str
    _requester: "Requester"
    _http: "HTTPRequestsConnectionClass | HTTPSRequestsConnectionClass"

    @classmethod
    def open(cls, url: str, token: str, *, timeout: int, authorities: str = "") -> Self:
        """Return a connection to the API at `url`. PyGithub is imported on first use, because that takes 0.2 s.

        An empty token means no credentials. `authorities` is the path of the certificates to trust; "" for those of
        the library.
        """
        from github.Auth import AppAuthToken
        from github.Requester import Requester

        # GitHub accepts a JWT only as "Bearer", and accepts every other token as "Bearer" too:
        # https://docs.github.com/en/rest/authentication/authenticating-to-the-rest-api
        requester = Requester(
            auth=AppAuthToken(token) if token else None,
            base_url=url.rstrip("/"),
            timeout=timeout,
            user_agent=USER_AGENT,
            per_page=100,
            verify=True,
            retry=0,
            pool_size=None,
            api_version=API_VERSION,
        )
        return cls(token, requester, _http_connection(url, timeout, authorities))

    def send(
        self, verb: str, path: str, *, parameters: Mapping[str, str | int], accept: str, body: Any
    ) -> tuple[int, Mapping[str, str], str]:
        """Return (status, headers, text) of the response. Raises RequestException or OSError if none is complete."""
        headers = {"Accept": accept}
        return self._requester.requestJson(verb, path, dict(parameters), headers, input=body, cnx=self._http)

    def close(self) -> None:
        """Close it."""
        self._http.close()
        self._requester.close()


def _http_connection(
    url: str, timeout: int, authorities: str
) -> "HTTPRequestsConnectionClass | HTTPSRequestsConnectionClass":
    """Return a new connection to the host of a URL, over the proxy and with the certificates that the environment
    names now.

    https://requests.readthedocs.io/en/latest/user/advanced/#proxies
    """
    from github.Requester import HTTPRequestsConnectionClass, HTTPSRequestsConnectionClass

    parts = urlsplit(url)
    kind = HTTPSRequestsConnectionClass if parts.scheme == "https" else HTTPRequestsConnectionClass
    http = kind(parts.hostname or "", parts.port, timeout=timeout, retry=0)
    place = f"{http.protocol}://{http.host}:{http.port}"
    settings = http.session.merge_environment_settings(place, {}, stream=None, verify=True, cert=None)
    http.session.trust_env = False
    http.session.hooks["response"].append(_adjust_response)
    http.session.proxies.update(settings["proxies"])
    http.verify = authorities if authorities and settings["verify"] is True else settings["verify"]
    return http


def _adjust_response(response: "requests.Response", **_: object) -> None:
    """Change what PyGithub gets of a response: its text is UTF-8, whatever its headers lack, and no redirect is
    followed.

    PyGithub follows a 301 itself, without the query, so that the second page of a list is the first one again. It does
    not follow a 308, which means the same.
    """
    response.encoding = "utf-8"
    if response.status_code == 301:
        response.status_code = 308


def without_netrc(request: "requests.PreparedRequest") -> "requests.PreparedRequest":
    """Return a request unchanged. As a session's `auth`, it keeps `requests` from taking a password from ~/.netrc."""
    return request
