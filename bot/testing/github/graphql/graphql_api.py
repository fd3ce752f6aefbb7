"""The GraphQL API. It parses a query, counts its cost, and answers 200 with data, errors, or both.

https://docs.github.com/en/graphql/guides/forming-calls-with-graphql
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bot.testing.github.graphql.cost import Cost, measure
from bot.testing.github.graphql.mutations import mutations
from bot.testing.github.graphql.nodes import Nodes
from bot.testing.github.graphql.paging import Node
from bot.testing.github.rate_limits import RateBudget, RateLimits, is_exceeded
from bot.testing.github.rest.endpoint import ApiError, identify
from bot.testing.github.site import Json, Site

if TYPE_CHECKING:
    from graphql import DocumentNode, GraphQLError, GraphQLSchema, OperationDefinitionNode
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

SDL = Path(__file__).with_name("schema.graphql")
DOCUMENTS = 256
"""Number of valid queries that are remembered."""
TYPES = {401: "UNAUTHENTICATED", 403: "FORBIDDEN", 404: "NOT_FOUND", 409: "STALE_DATA", 422: "UNPROCESSABLE"}


@cache
def schema() -> GraphQLSchema:
    """Return the parsed schema. It is parsed only once."""
    from graphql import build_schema

    return build_schema(SDL.read_text(encoding="utf-8"))


def graphql_route(site: Site, limits: RateLimits) -> Route:
    """Return the route of the GraphQL API."""
    from starlette.concurrency import run_in_threadpool
    from starlette.routing import Route

    async def serve(request: Request) -> Response:
        return await run_in_threadpool(_serve, site, limits, request, await request.body())

    return Route("/graphql", serve, methods=["POST"])


@dataclass(frozen=True, slots=True)
class _Query:
    document: DocumentNode
    operation: OperationDefinitionNode
    variables: Mapping[str, Any]
    cost: Cost


def _serve(site: Site, limits: RateLimits, request: Request, raw: bytes) -> Response:
    from starlette.responses import JSONResponse

    world = getattr(request.state, "world", None)
    site = site if world is None else replace(site, world=world)
    with site.world.lock:
        try:
            caller = identify(site.world, request.headers.get("authorization", ""))
            if caller.token is None:
                raise ApiError(401, "This endpoint requires you to be authenticated.")
            request.state.logged.credential = caller.kind
            query = _validate_query(raw)
        except ApiError as error:
            if error.status != 200:
                return JSONResponse(error.body(), error.status)
            return JSONResponse({"errors": [{"type": (error.errors or [""])[0], "message": error.message}]})
        budget = limits.spend(caller, "graphql", query.cost.points, site.world.now())
        request.state.logged.cost = query.cost.points
        if is_exceeded(budget):
            limited = {
                "type": "RATE_LIMIT",
                "code": "graphql_rate_limit",
                "message": "API rate limit already exceeded.",
            }
            return JSONResponse({"errors": [limited]}, headers=budget.headers())
        if limits.resources is not None and query.cost.nodes > limits.resources:
            exhausted = {"type": "RESOURCE_LIMITS_EXCEEDED", "message": "Resource limits for this query exceeded."}
            return JSONResponse({"data": {}, "errors": [exhausted]}, headers=budget.headers())
        return JSONResponse(_answer(Nodes(site, caller), query, budget), headers=budget.headers())


def _validate_query(raw: bytes) -> _Query:
    from graphql import FragmentDefinitionNode, OperationDefinitionNode

    try:
        request = json.loads(raw)
        text, variables = request["query"], request.get("variables") or {}
    except (ValueError, KeyError, TypeError):
        raise ApiError(400, "Problems parsing JSON") from None
    document = _valid_document(text)
    operations = [definition for definition in document.definitions if isinstance(definition, OperationDefinitionNode)]
    fragments = {each.name.value: each for each in document.definitions if isinstance(each, FragmentDefinitionNode)}
    name = request.get("operationName")
    operation = next(each for each in operations if name in {None, each.name.value if each.name else None})
    return _Query(document, operation, variables, measure(schema(), operation, fragments, variables))


@lru_cache(DOCUMENTS)
def _valid_document(text: str) -> DocumentNode:
    """Return a query that fits the schema. Clients send the same few again and again, and validation takes longer than
    everything else that an answer takes."""
    from graphql import GraphQLError, parse, validate

    try:
        document = parse(text)
    except GraphQLError as error:
        raise ApiError(200, error.message, ["PARSE_ERROR"]) from None
    if errors := validate(schema(), document):
        raise ApiError(200, errors[0].message, ["undefinedField"])
    return document


def _answer(nodes: Nodes, query: _Query, budget: RateBudget) -> Json:
    from graphql import OperationType, execute_sync

    writes = query.operation.operation is OperationType.MUTATION
    result = execute_sync(
        schema(),
        query.document,
        root_value=mutations(nodes) if writes else _root(nodes, query.cost, budget),
        variable_values=dict(query.variables),
        operation_name=query.operation.name.value if query.operation.name else None,
    )
    answer: Json = {"data": result.data}
    if result.errors:
        answer["errors"] = [_error(error) for error in result.errors]
    return answer


def _root(nodes: Nodes, cost: Cost, budget: RateBudget) -> dict[str, Any]:
    from datetime import UTC, datetime

    from bot.testing.github.site import stamp

    def repository(_: Any, owner: str, name: str, **__: Any) -> Node:
        home = nodes.repository_by_name(f"{owner}/{name}")
        if home is None:
            raise ApiError(404, f"Could not resolve to a Repository with the name '{owner}/{name}'.")
        return nodes.repository(home)

    def node(_: Any, id: str) -> Node:
        target = nodes.by_id(id)
        if target is None:
            raise ApiError(404, f"Could not resolve to a node with the global id of '{id}'")
        return target

    limit = {**budget.json(), "cost": cost.points}
    reset = stamp(datetime.fromtimestamp(budget.reset, UTC))
    return {
        "viewer": lambda _: _viewer(nodes),
        "repository": repository,
        "node": node,
        "nodes": lambda _, ids: [_resolve_node(nodes, ident) for ident in ids],
        "rateLimit": lambda _, **__: {**limit, "resetAt": reset},
    }


def _resolve_node(nodes: Nodes, ident: str) -> Node | ApiError:
    # An error as the value of one item does not affect the other items.
    return nodes.by_id(ident) or ApiError(404, f"Could not resolve to a node with the global id of '{ident}'")


def _viewer(nodes: Nodes) -> Node:
    # The viewer of an installation token is its bot, although the field's type is User.
    token = nodes.caller.token
    user = token.user if token else 0
    return {**(nodes.actor(user) or {}), "__typename": "User", "login": nodes.world.users[user].login}


def _error(error: GraphQLError) -> Json:
    written = dict(error.formatted)
    cause = error.original_error
    if isinstance(cause, ApiError):
        kind = TYPES.get(cause.status, "UNPROCESSABLE")
        return {"type": kind, **written}
    return written
