"""Stands in for the gh program where it is not installed: `gh api`, as far as the workflow of the experiments uses it.

https://cli.github.com/manual/gh_api
"""

import argparse
import json
import os
import sys
import urllib.error
import urllib.request

_JQ = {".node_id": "node_id", ".state": "state"}


def _fields(raw: list[str], typed: list[str]) -> dict[str, str]:
    fields = dict(each.split("=", 1) for each in raw)
    for name, value in (each.split("=", 1) for each in typed):
        with open(value.removeprefix("@"), encoding="utf-8") as file:
            fields[name] = file.read()
    return fields


def _main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("command", choices=["api"])
    parser.add_argument("path")
    parser.add_argument("-f", action="append", default=[])
    parser.add_argument("-F", action="append", default=[])
    parser.add_argument("-X", default="")
    parser.add_argument("--jq", choices=_JQ)
    given = parser.parse_args()
    fields = _fields(given.f, given.F)
    url, body = f"{os.environ['GITHUB_API_URL']}/{given.path}", fields
    if given.path == "graphql":
        url, body = os.environ["GITHUB_GRAPHQL_URL"], {"query": fields.pop("query"), "variables": fields}  # type: ignore[dict-item]
    headers = {"Authorization": f"Bearer {os.environ['GH_TOKEN']}", "Content-Type": "application/json"}
    data = json.dumps(body).encode() if fields or given.path == "graphql" else None
    request = urllib.request.Request(url, data, headers, method=given.X or None)  # noqa: S310 - on this machine
    try:
        with urllib.request.urlopen(request) as answer:  # noqa: S310 - on this machine
            text = answer.read().decode()
    except urllib.error.HTTPError as error:
        sys.stderr.write(f"gh: {error.read().decode()} (HTTP {error.code})\n")
        return 1
    found = json.loads(text) if text else {}
    sys.stdout.write(f"{found[_JQ[given.jq]] if given.jq else text}\n")
    return 1 if isinstance(found, dict) and found.get("errors") else 0


if __name__ == "__main__":
    sys.exit(_main())
