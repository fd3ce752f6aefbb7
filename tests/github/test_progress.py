"""How often the progress comment is edited."""

import pytest

from bot.core.marker import Key
from bot.github.comments import Comments
from bot.github.progress import Progress
from tests.github.conftest import Ground, Signed


@pytest.mark.parametrize(("age", "least"), ((0.0, 5.0), (60.0, 20.0)))
async def test_edits_keep_their_distance(ground: Ground, age: float, least: float) -> None:
    """Five seconds lie between edits in the first minute, twenty later; the newest text is shown."""
    signer, thread = Signed(), ground.issue()
    comments = Comments(ground.door, ground.address, thread, ground.bot, Key(signer.key_id, signer.mac))
    progress = Progress(comments)
    await shown(progress, "one")
    began = ground.clock.monotonic()
    ground.clock.advance(age)
    await shown(progress, "two")
    before = ground.clock.monotonic()
    await shown(progress, "three")
    assert ground.clock.monotonic() - before >= least - 2.0
    assert ground.clock.monotonic() - began >= age
    assert "three" in ground.comments(thread)[0].text.body


async def shown(progress: Progress, text: str) -> None:
    await progress.show(text, 1)
    assert progress._task is not None
    await progress._task
