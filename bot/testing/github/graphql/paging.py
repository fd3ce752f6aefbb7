"""Lists as GraphQL connections, paged by cursors; threads can also be ordered by their last update.

https://docs.github.com/en/graphql/guides/using-pagination-in-the-graphql-api
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, TypeAlias

from bot.testing.github.entities import Issue

Node: TypeAlias = dict[str, Any]


def connection(
    items: Sequence[Any], write: Callable[[Any], Any], *, key: Callable[[Any], int] = lambda item: item.id
) -> Callable[..., Node]:
    """Return the resolver of a connection, paged by `first` and `after` or by `last` and `before`."""

    def field(
        _: Any, first: int | None = None, last: int | None = None, after: str | None = None, before: str | None = None
    ) -> Node:
        cursors = [base64.b64encode(f"cursor:{key(item)}".encode()).decode() for item in items]
        low = cursors.index(after) + 1 if after in cursors else 0
        high = cursors.index(before) if before in cursors else len(items)
        if first is not None:
            high = min(high, low + first)
        if last is not None:
            low = max(low, high - last)
        info = {
            "hasNextPage": high < len(items),
            "hasPreviousPage": low > 0,
            "startCursor": cursors[low] if low < high else None,
            "endCursor": cursors[high - 1] if low < high else None,
        }
        return {"nodes": [write(item) for item in items[low:high]], "pageInfo": info, "totalCount": len(items)}

    return field


def threads(listed: Callable[[], list[Issue]], write: Callable[[Issue], Node]) -> Callable[..., Node]:
    """Return the resolver of a repository's issues or pull requests: ordered, and for issues `since` a time."""

    def field(
        info: Any,
        filterBy: Node | None = None,  # noqa: N803  # GraphQL's name
        orderBy: Node | None = None,  # noqa: N803  # GraphQL's name
        **page: Any,
    ) -> Node:
        since = (filterBy or {}).get("since")
        issues = [each for each in listed() if since is None or each.updated_at >= datetime.fromisoformat(since)]
        by_update = orderBy is not None and orderBy["field"] == "UPDATED_AT"
        issues.sort(key=lambda each: (each.updated_at if by_update else each.created_at, each.number))
        if orderBy is not None and orderBy["direction"] == "DESC":
            issues.reverse()
        return connection(issues, write)(info, **page)

    return field
