"""Chooses and plays a demo: on a simulated GitHub with one of the two faces, or from the terminal. SHELL.

The model is the simulated one of bot/testing, over real HTTP, unless the real one is requested. Git, sandbox, service,
and everything else are real.
"""

import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from bot.config.environment import settings
from bot.config.settings import Secret, Settings
from bot.core.errors import Misconfigured

LATENCY: Final = 0.15
"""Seconds that the simulated model thinks, so that parallel work is visible."""


@dataclass(frozen=True, slots=True)
class Demo:
    """Options of the demo, as given on the command line."""

    face: str = "service"
    """service, action, or local: `plangate run` without GitHub."""
    story: str = "request"
    """request, or maintenance: a scheduled task instead of somebody's request."""
    headless: bool = False
    folder: Path | None = None
    port: int = 8484
    real_model: bool = False


def play(demo: Demo) -> int:
    """Play a demo. Return 0 only if its result exists and the sample's tests pass.

    SIGTERM and a closed terminal act like Ctrl-C: they also end everything that the demo started.
    """
    if demo.face == "local" and demo.story != "request":
        raise Misconfigured("only GitHub has scheduled tasks", where="--story", fix="use --face service or action")
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    folder = demo.folder.absolute() if demo.folder else Path(tempfile.mkdtemp(prefix="plangate-demo-"))
    folder.mkdir(parents=True, exist_ok=True)
    with _model(folder, real=demo.real_model) as with_model:
        if demo.face == "local":
            from bot.demo.local_story import play_locally

            return play_locally(folder, with_model, headless=demo.headless)
        from bot.demo.github_story import run_story

        return run_story(folder, with_model, demo)


@contextmanager
def _model(folder: Path, *, real: bool) -> Iterator[Settings]:
    """Yield settings for the real model, or start the simulated one and yield settings for it."""
    own = replace(settings(), data_dir=folder / "data", state_key=Secret(""))
    if real:
        if not own.api_key:
            cure = "set it, or leave out --real-model"
            raise Misconfigured("no key for the model", where="ANTHROPIC_API_KEY", fix=cure)
        yield own
        return
    from bot.testing.model.server import ScriptedModel
    from bot.testing.sample import policy

    with ScriptedModel(policy, latency=LATENCY) as server:
        yield replace(own, api_key=Secret("of-no-use"), base_url=server.base_url, output_cap=None, extra_body={})
