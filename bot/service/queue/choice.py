"""Chooses the queue that the settings ask for."""

from typing import TYPE_CHECKING

from bot.service.host_port import HostPort
from bot.service.inbox import Inbox
from bot.service.queue.file_queue import FileQueue
from bot.service.queue.queue_port import Queue
from bot.service.worker import Worker
from bot.store.postgres.database import Database

if TYPE_CHECKING:
    from bot.config.settings import Settings


def choose_queue(settings: "Settings", host: HostPort, *, worker: bool) -> Queue:
    """Return the queue in the database of the settings; without one, the queue in files."""
    limits = settings.service
    if settings.database:
        from bot.service.queue.postgres_queue import PostgresQueue

        return PostgresQueue(host, Database(settings.database.reveal()), limits if worker else None)
    inbox = Inbox(settings.data_dir / "inbox")
    return FileQueue(inbox, Worker(host, inbox, looks=limits.looks, sessions=limits.sessions) if worker else None)
