"""Joins the rooms for threads on GitHub: what the service, the Action and `sweep` work with.

One `GitHubHost` serves many threads. Each look builds a desk for one thread from live facts, so that nothing that is
remembered here can be stale; what is kept between looks (tokens, mirrors, what git last saw) only saves time.
"""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Self

from bot.agent.limits import Ledger
from bot.agent.prompts import Environment
from bot.agent.session import World
from bot.clock import SystemClock
from bot.compose.parts import MEMORIES, bounds_of, gate_of, key_of, model_of, orders_of, policy_of
from bot.config import PATH, Settings, configuration
from bot.core.errors import Misconfigured, Refused
from bot.core.gate import Stage
from bot.core.names import RepositoryId, ThreadNumber
from bot.ports import Journal, Place
from bot.store.git_journal import GitJournal
from bot.store.thread_refs import Remote, ThreadRefs
from bot.store.transcripts import SpooledTranscripts
from bot.workflow import engine
from bot.workflow.desk import Desk
from bot.workflow.record import Record, record

if TYPE_CHECKING:
    from bot.agent.model.client import AnthropicModel

REST = frozenset({Stage.LISTENING, Stage.ANSWERED, Stage.DONE, Stage.REJECTED, Stage.IN_REVIEW, Stage.ASKED})
"""Stages that only people can move on: such a thread need not be looked at until somebody speaks."""


@dataclass(frozen=True, slots=True)
class Address:
    """One thread on GitHub, and the App installation through which it is reached (None with a plain token)."""

    installation: int | None
    repository: int
    owner: str
    name: str
    number: int
