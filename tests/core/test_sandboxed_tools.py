"""The result of a tool, as it passes through the port."""

from bot.core.work import Access, ToolOutput


def test_a_plain_result() -> None:
    """A result that says nothing else is no error, has no pictures and no facts, and shares none with another one."""
    one, other = ToolOutput("x"), ToolOutput("x")
    assert (one.is_error, one.blocks, one.stamps, one.details) == (False, (), {}, {})
    assert one.details is not other.details
    assert [str(access) for access in Access] == ["read", "write"]
