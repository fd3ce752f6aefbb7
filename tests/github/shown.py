"""A plan that is shown on the simulated GitHub, for the tests of what people say to it."""

from typing import Any

from bot.core.approval import Policy, Reason, Snapshot, Verdict, evaluate
from bot.core.names import ThreadNumber
from bot.core.plan import PlanDocument
from bot.github.dialogue import GitHubDialogue
from tests.github.conftest import Ground


class Shown:
    """A plan that is shown, and what people may do to it."""

    def __init__(self, ground: Ground, plan: PlanDocument, dialogue: GitHubDialogue, node: str) -> None:
        self.ground, self.plan, self.dialogue, self.node = ground, plan, dialogue, node

    @classmethod
    async def on(cls, ground: Ground, thread: ThreadNumber | None = None, **other: Any) -> "Shown":
        number = thread or ground.issue()
        dialogue, plan = ground.dialogue(number), ground.plan(number, **other)
        return cls(ground, plan, dialogue, (await dialogue.propose(plan, 1)).id)

    @property
    def comment(self) -> Any:
        return self.ground.comments(self.plan.thread)[0]

    async def look(self, *begun: str) -> Snapshot:
        self.ground.clock.advance(1)
        return await self.dialogue.snapshot(self.plan, self.node, begun=begun)

    async def verdict(self, *begun: str) -> Verdict:
        policy = Policy(bot=self.ground.bot.id)
        return evaluate(self.plan, await self.look(*begun), policy, self.ground.clock.now())

    async def reasons(self) -> list[Reason]:
        return [found.reason for found in (await self.verdict()).reasons]
