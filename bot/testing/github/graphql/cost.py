"""The cost of a GraphQL query, and whether GitHub accepts it.

https://docs.github.com/en/graphql/overview/rate-limits-and-query-limits-for-the-graphql-api
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bot.testing.github.rest.endpoint import ApiError

if TYPE_CHECKING:
    from graphql import FieldNode, GraphQLSchema, OperationDefinitionNode
    from graphql.language import FragmentDefinitionNode, SelectionSetNode

LARGEST_PAGE = 100
NODE_LIMIT = 500_000
POINT = 100


@dataclass(slots=True)
class Cost:
    """The requests that the connections of a query count as, and the most nodes that they may return."""

    requests: int = 0
    nodes: int = 0

    @property
    def points(self) -> int:
        """The requests divided by 100 and rounded; at least one."""
        return max(1, (self.requests + POINT // 2) // POINT)


@dataclass(frozen=True, slots=True)
class _Measure:
    schema: GraphQLSchema
    fragments: Mapping[str, FragmentDefinitionNode]
    variables: Mapping[str, Any]
    cost: Cost

    def visit(self, selection: SelectionSetNode | None, parent: Any, times: int) -> None:
        """Count what a selection asks for if its parent occurs `times` times."""
        from graphql import FieldNode, FragmentSpreadNode, InlineFragmentNode, get_named_type

        for node in selection.selections if selection else ():
            if isinstance(node, FieldNode):
                field = getattr(parent, "fields", {}).get(node.name.value)
                if field is not None:
                    kind = get_named_type(field.type)
                    self.visit(node.selection_set, kind, times * self._factor(node, kind.name, times))
            elif isinstance(node, FragmentSpreadNode):
                fragment = self.fragments[node.name.value]
                inner = self.schema.get_type(fragment.type_condition.name.value)
                self.visit(fragment.selection_set, inner, times)
            elif isinstance(node, InlineFragmentNode):
                named = node.type_condition
                inner = self.schema.get_type(named.name.value) if named else parent
                self.visit(node.selection_set, inner, times)

    def _factor(self, node: FieldNode, kind: str, times: int) -> int:
        arguments = {argument.name.value: self._value(argument.value) for argument in node.arguments or ()}
        if node.name.value == "nodes" and "ids" in arguments:
            count = len(arguments["ids"] or ())
            if count > LARGEST_PAGE:
                message = f"You may not provide more than {LARGEST_PAGE} node ids; you provided {count}."
                raise ApiError(200, message, ["ARGUMENT_LIMIT"])
            return max(1, count)
        if not kind.endswith("Connection"):
            return 1
        size = arguments.get("first") or arguments.get("last")
        if not size:
            message = (
                f"You must provide a `first` or `last` value to properly paginate the `{node.name.value}` connection."
            )
            raise ApiError(200, message, ["MISSING_PAGINATION_BOUNDARIES"])
        if size > LARGEST_PAGE:
            name = node.name.value
            message = f"Requesting {size} records on the `{name}` connection exceeds the `first` limit of 100 records."
            raise ApiError(200, message, ["EXCESSIVE_PAGINATION"])
        self.cost.requests += times
        self.cost.nodes += times * size
        if self.cost.nodes > NODE_LIMIT:
            message = f"This query requests up to {self.cost.nodes:,} possible nodes: the maximum limit is 500,000."
            raise ApiError(200, message, ["MAX_NODE_LIMIT_EXCEEDED"])
        return int(size)

    def _value(self, value: Any) -> Any:
        from graphql import VariableNode, value_from_ast_untyped

        if isinstance(value, VariableNode):
            return self.variables.get(value.name.value)
        return value_from_ast_untyped(value, dict(self.variables))


def measure(
    schema: GraphQLSchema,
    operation: OperationDefinitionNode,
    fragments: Mapping[str, FragmentDefinitionNode],
    variables: Mapping[str, Any],
) -> Cost:
    """Return the cost of an operation. Raises ApiError with GitHub's error type if GitHub would refuse it."""
    cost = Cost()
    root = schema.get_root_type(operation.operation)
    _Measure(schema, fragments, variables, cost).visit(operation.selection_set, root, 1)
    return cost
