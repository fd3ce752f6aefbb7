"""The GraphQL API. It parses a query, counts its cost, and answers 200 with data, errors, or both.

https://docs.github.com/en/graphql/overview/rate-limits-and-query-limits-for-the-graphql-api
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import graphql
from graphql.language import SelectionSetNode
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from bot.testing.github import code_changes, conversation
from bot.testing.github.code_changes import NewPull
from bot.testing.github.credentials import grants
from bot.testing.github.entities import Comment, Repository, Role, from_node_id
from bot.testing.github.graphql.nodes import CONTENTS, Node, Nodes
from bot.testing.github.rest.endpoint import (
    ApiError,
    RateBudget,
    RateLimits,
    identify,
    is_exceeded,
    require_pulls_of_jobs,
    within,
)
from bot.testing.github.shapes import Json, Site, stamp
from bot.testing.github.world import NotThereError, StateConflictError

LARGEST_PAGE = 100
NODE_LIMIT = 500_000
POINT = 100


@dataclass(slots=True)
class Cost:
    """The cost of a query's connections: how many requests they count as, and how many nodes they may return."""

    requests: int = 0
    nodes: int = 0

    @property
    def points(self) -> int:
        return max(1, (self.requests + POINT // 2) // POINT)


@dataclass(frozen=True, slots=True)
class _Measure:
    schema: graphql.GraphQLSchema
    fragments: Mapping[str, graphql.FragmentDefinitionNode]
    variables: Mapping[str, Any]
    cost: Cost

    def visit(self, selection: SelectionSetNode | None, parent: Any, times: int) -> None:
        for node in selection.selections if selection else ():
            if isinstance(node, graphql.FieldNode):
                field = getattr(parent, "fields", {}).get(node.name.value)
                if field is not None:
                    kind = graphql.get_named_type(field.type)
                    self.visit(node.selection_set, kind, times * self._factor(node, kind.name, times))
            elif isinstance(node, graphql.FragmentSpreadNode):
                fragment = self.fragments[node.name.value]
                inner = self.schema.get_type(fragment.type_condition.name.value)
                self.visit(fragment.selection_set, inner, times)
            elif isinstance(node, graphql.InlineFragmentNode):
                named = node.type_condition
                inner = self.schema.get_type(named.name.value) if named else parent
                self.visit(node.selection_set, inner, times)

    def _factor(self, node: graphql.FieldNode, kind: str, times: int) -> int:
        arguments = {argument.name.value: self._value(argument.value) for argument in node.arguments or ()}
        if node.name.value == "nodes" and "ids" in arguments:
            count = len(arguments["ids"] or ())
            if count > LARGEST_PAGE:
                message = f"You may not provide more than {LARGEST_PAGE} node ids; you provided {count}."
                raise ApiError(200, message, ["ARGUMENT_LIMIT"])
            return max(1, count)
        if not kind.endswith("Connection"):
            return 1
        name, size = node.name.value, arguments.get("first") or arguments.get("last")
        if not size:
            message = f"You must provide a `first` or `last` value to properly paginate the `{name}` connection."
            raise ApiError(200, message, ["MISSING_PAGINATION_BOUNDARIES"])
        if size > LARGEST_PAGE:
            message = f"Requesting {size} records on the `{name}` connection exceeds the `first` limit of 100 records."
            raise ApiError(200, message, ["EXCESSIVE_PAGINATION"])
        self.cost.requests += times
        self.cost.nodes += times * size
        if self.cost.nodes > NODE_LIMIT:
            message = f"This query requests up to {self.cost.nodes:,} possible nodes: the maximum limit is 500,000."
            raise ApiError(200, message, ["MAX_NODE_LIMIT_EXCEEDED"])
        return int(size)

    def _value(self, value: Any) -> Any:
        if isinstance(value, graphql.VariableNode):
            return self.variables.get(value.name.value)
        return graphql.value_from_ast_untyped(value, dict(self.variables))


# https://docs.github.com/en/graphql/reference/mutations

THREADS = ("issues", "pull_requests")


def mutations(nodes: Nodes) -> dict[str, Callable[..., Node]]:
    return {
        "addReaction": lambda _, **given: _add_reaction(nodes, given["input"]),
        "createPullRequest": lambda _, **given: _create_pull(nodes, given["input"]),
        "minimizeComment": lambda _, **given: _minimize(nodes, given["input"]),
    }


def _add_reaction(nodes: Nodes, inputs: Node) -> Node:
    _react_allowed(nodes, inputs["subjectId"])
    content = next(rest for rest, name in CONTENTS.items() if name == inputs["content"])
    reaction, _ = conversation.react(nodes.caller.actor(nodes.world), inputs["subjectId"], content)
    return {"reaction": nodes.reaction(reaction)}


def _create_pull(nodes: Nodes, inputs: Node) -> Node:
    home = next(each for each in nodes.world.repositories.values() if each.node_id == inputs["repositoryId"])
    _allow(nodes, home, ("pull_requests",), Role.READ)
    require_pulls_of_jobs(nodes.world, nodes.caller.token, home)
    new = NewPull(inputs["title"], inputs["headRefName"], inputs["baseRefName"], inputs.get("body") or "")
    try:
        return {"pullRequest": nodes.issue(code_changes.open_pull(nodes.caller.actor(nodes.world), home, new))}
    except (StateConflictError, NotThereError) as error:
        raise ApiError(422, str(error)) from None


def _minimize(nodes: Nodes, inputs: Node) -> Node:
    comment = _comment(nodes, inputs["subjectId"])
    _allow(nodes, nodes.world.repositories[comment.repository], THREADS, Role.WRITE)
    reason = inputs["classifier"].lower().replace("_", "-")  # written as on github.com: "off-topic", "outdated"
    return {"minimizedComment": nodes.comment(conversation.minimize(nodes.world, comment.id, reason))}


def _allow(nodes: Nodes, home: Repository, permissions: tuple[str, ...], role: Role) -> None:
    token = nodes.caller.token
    if token is not None and token.permissions is not None:
        granted = any(grants(token, permission, "write") for permission in permissions)
        if not within(nodes.world, token, home) or not granted:
            raise ApiError(403, "Resource not accessible by integration")
    elif not nodes.world.role(home, nodes.caller.actor(nodes.world).id).covers(role) or home.archived:
        login = nodes.world.users[nodes.caller.actor(nodes.world).id].login
        raise ApiError(403, f"{login} does not have the correct permissions.")


def _comment(nodes: Nodes, ident: str) -> Comment:
    _subject(nodes, ident)
    kind, number = from_node_id(ident) or ("", 0)
    if kind != "IssueComment":
        raise ApiError(404, f"Could not resolve to IssueComment node with the global id of '{ident}'.")
    return nodes.world.comments[number]


def _subject(nodes: Nodes, ident: str) -> Node:
    if node := nodes.by_id(ident):
        return node
    raise _resolve_error(ident)


def _resolve_error(ident: str) -> ApiError:
    return ApiError(404, f"Could not resolve to a node with the global id of '{ident}'")


def _react_allowed(nodes: Nodes, ident: str) -> None:
    _subject(nodes, ident)
    kind, number = from_node_id(ident) or ("", 0)
    world = nodes.world
    tables = {"IssueComment": world.comments, "PullRequestReview": world.reviews,
              "PullRequestReviewComment": world.review_comments}  # fmt: skip
    about: Any = tables[kind][number] if kind in tables else None  # type: ignore[index]  # a union of tables
    about = about or next(issue for issue in world.issues.values() if issue.node_id == ident)
    _allow(nodes, world.repositories[about.repository], THREADS, Role.READ)
    if world.issues[about.repository, about.number].locked:
        raise ApiError(403, "Unable to create reaction because issue is locked.")


# https://docs.github.com/en/graphql/guides/forming-calls-with-graphql

SDL = Path(__file__).with_name("schema.graphql")
DOCUMENTS = 256  # maximum number of valid queries in the cache
TYPES = {401: "UNAUTHENTICATED", 403: "FORBIDDEN", 404: "NOT_FOUND", 409: "STALE_DATA", 422: "UNPROCESSABLE"}


@cache
def schema() -> graphql.GraphQLSchema:
    return graphql.build_schema(SDL.read_text(encoding="utf-8"))


def graphql_route(site: Site, limits: RateLimits) -> Route:
    async def serve(request: Request) -> Response:
        return await run_in_threadpool(_serve, site, limits, request, await request.body())

    return Route("/graphql", serve, methods=["POST"])


@dataclass(frozen=True, slots=True)
class _Query:
    document: graphql.DocumentNode
    operation: graphql.OperationDefinitionNode
    variables: Mapping[str, Any]
    cost: Cost


def _serve(site: Site, limits: RateLimits, request: Request, raw: bytes) -> Response:
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
            limited = {"type": "RATE_LIMIT", "code": "graphql_rate_limit"}
            limited["message"] = "API rate limit already exceeded."
            return JSONResponse({"errors": [limited]}, headers=budget.headers())
        if limits.resources is not None and query.cost.nodes > limits.resources:
            exhausted = {"type": "RESOURCE_LIMITS_EXCEEDED", "message": "Resource limits for this query exceeded."}
            return JSONResponse({"data": {}, "errors": [exhausted]}, headers=budget.headers())
        return JSONResponse(_answer(Nodes(site, caller), query, budget), headers=budget.headers())


def _validate_query(raw: bytes) -> _Query:
    try:
        request = json.loads(raw)
        text, variables = request["query"], request.get("variables") or {}
    except (ValueError, KeyError, TypeError):
        raise ApiError(400, "Problems parsing JSON") from None
    document = _valid_document(text)
    parts = document.definitions
    operations = [part for part in parts if isinstance(part, graphql.OperationDefinitionNode)]
    fragments = {part.name.value: part for part in parts if isinstance(part, graphql.FragmentDefinitionNode)}
    name = request.get("operationName")
    operation = next(each for each in operations if name in {None, each.name.value if each.name else None})
    measure = _Measure(schema(), fragments, variables, Cost())
    measure.visit(operation.selection_set, schema().get_root_type(operation.operation), 1)
    return _Query(document, operation, variables, measure.cost)


@lru_cache(DOCUMENTS)
def _valid_document(text: str) -> graphql.DocumentNode:
    """Parse and validate a query. Cached, because clients repeat a few queries and validation is the slowest step."""
    try:
        document = graphql.parse(text)
    except graphql.GraphQLError as error:
        raise ApiError(200, error.message, ["PARSE_ERROR"]) from None
    if errors := graphql.validate(schema(), document):
        raise ApiError(200, errors[0].message, ["undefinedField"])
    return document


def _answer(nodes: Nodes, query: _Query, budget: RateBudget) -> Json:
    writes = query.operation.operation is graphql.OperationType.MUTATION
    result = graphql.execute_sync(
        schema(), query.document, root_value=mutations(nodes) if writes else _root(nodes, query.cost, budget),
        variable_values=dict(query.variables),
        operation_name=query.operation.name.value if query.operation.name else None,
    )  # fmt: skip
    answer: Json = {"data": result.data}
    if result.errors:
        answer["errors"] = [_error(error) for error in result.errors]
    return answer


def _root(nodes: Nodes, cost: Cost, budget: RateBudget) -> dict[str, Any]:
    def repository(_: Any, owner: str, name: str, **__: Any) -> Node:
        home = nodes.repository_by_name(f"{owner}/{name}")
        if home is None:
            raise ApiError(404, f"Could not resolve to a Repository with the name '{owner}/{name}'.")
        return nodes.repository(home)

    limit = {**budget.json(), "cost": cost.points}
    reset = stamp(datetime.fromtimestamp(budget.reset, UTC))
    return {
        "viewer": lambda _: _viewer(nodes),
        "repository": repository,
        "node": lambda _, **given: _subject(nodes, given["id"]),
        # An error as the value of one item does not affect the other items.
        "nodes": lambda _, ids: [nodes.by_id(ident) or _resolve_error(ident) for ident in ids],
        "rateLimit": lambda _, **__: {**limit, "resetAt": reset},
    }


def _viewer(nodes: Nodes) -> Node:
    # The viewer of an installation token is its bot, although the field's type is User.
    token = nodes.caller.token
    user = token.user if token else 0
    return {**(nodes.actor(user) or {}), "__typename": "User", "login": nodes.world.users[user].login}


def _error(error: graphql.GraphQLError) -> Json:
    cause = error.original_error
    kind = {"type": TYPES.get(cause.status, "UNPROCESSABLE")} if isinstance(cause, ApiError) else {}
    return {**kind, **error.formatted}
