"""The page of a session's transcript. It is for whoever may see the thread, and reads nothing before that is known."""

from fastapi import Request

from webhooks.dashboard.live import transcript_state
from webhooks.dashboard.pages import Answer, Page, Pages
from webhooks.dashboard.visits import NotFound, Visit


def add_transcript_pages(pages: Pages) -> None:
    """Add the page of a session's transcript."""
    board = pages.dashboard

    async def transcript(visit: Visit, request: Request) -> Answer:
        address = await board.address(visit, request)
        page = request.query_params.get("page", "")
        number = int(page) if page.isdecimal() and page.isascii() and len(page) < 9 else 1
        view = await board.reading.transcript(address, request.path_params["session"], number)
        if view is None:
            raise NotFound
        state = await transcript_state(board.reading, address, view.session)
        summary = (await board.reading.detail(address)).summary
        title = f"{view.session} · {summary.repository}#{summary.number}"
        return Page("transcript.html", title, {"transcript": view, "summary": summary, "state": state})

    pages.show("/threads/{owner}/{name}/{number:int}/transcripts/{session}", transcript)
