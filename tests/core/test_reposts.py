"""Which texts repeat somebody else's words by themselves."""

from bot.core.turn import is_repost
from tests.rows import every_row


@every_row(
    ("text", "is_one"),
    (
        ("Words.\n\n_Originally posted by @rea in https://github.com/a/b/issues/1#issuecomment-2_", True),
        (
            "<div type='discussions-op-text'>\n\n<sup>Originally posted by **rea** May 1</sup>\nWords.</div>",
            True,
        ),
        ("It was originally posted by mistake.", False),
        ("", False),
    ),
)
def test_repost(text: str, *, is_one: bool) -> None:
    assert is_repost(text) is is_one
