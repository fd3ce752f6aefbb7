"""Reads the GitHub App that the set-up in the browser saved.

It is one file in the data directory, with mode 0600: a JSON object whose keys are names of variables. Variables of the
environment take precedence, and if they say who the bot is, the file does not count at all.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from bot.core.errors import Misconfigured
from bot.core.transcript import decode_json

FILE: Final = "github-app.json"
VARIABLES: Final = (
    "PLANGATE_APP_ID",
    "PLANGATE_PRIVATE_KEY",
    "PLANGATE_WEBHOOK_SECRET",
    "PLANGATE_CLIENT_ID",
    "PLANGATE_CLIENT_SECRET",
    "GITHUB_SERVER_URL",
    "GITHUB_API_URL",
    "GITHUB_GRAPHQL_URL",
)
"""The variables that the file may set. The addresses are those of the server that has the App."""
_ACCOUNTS: Final = frozenset(
    ("PLANGATE_APP_ID", "PLANGATE_PRIVATE_KEY", "PLANGATE_PRIVATE_KEY_PATH", "PLANGATE_GITHUB_TOKEN")
)


def with_saved_app(env: Mapping[str, str], data_dir: Path) -> dict[str, str]:
    """Return the variables, with those of the saved App where the environment sets none.

    Raises Misconfigured if the file cannot be read.
    """
    if env.keys() & _ACCOUNTS:
        return dict(env)
    return {**_saved_variables(data_dir / FILE), **env}


def _saved_variables(path: Path) -> dict[str, str]:
    try:
        variables = decode_json(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise Misconfigured(
            f"the App's credentials cannot be read: {error.strerror}", where=str(path), fix="let this user read it"
        ) from None
    except ValueError:
        variables = None
    if not isinstance(variables, dict) or not all(isinstance(value, str) for value in variables.values()):
        raise Misconfigured(
            "not the credentials of an App",
            where=str(path),
            fix="restore the file, or delete it and set up the App again",
        )
    return {name: variables[name] for name in VARIABLES if name in variables}
