"""How long lists of 10,000 threads take over HTTP.

The index is filled with copies of random threads. Each request goes through the API or a page, redaction included.
"""

import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from statistics import quantiles

sys.path.insert(0, str(Path(__file__).parents[1]))

from bot.service.overview.recorder import thread_record
from tests.service.overview.ground import SERVER, journals
from tests.webhooks.api_ground import World, request
from tests.webhooks.dashboard.journal_site import journal_site

THREADS = 10_000
ROUNDS = 40
PATHS = (
    "/api/threads",
    "/api/threads?limit=100",
    "/api/threads?stage=executing&limit=100",
    "/api/threads?search=t1+octo&limit=100",
    "/api/threads?repository=octo/hello-3",
    "/",
    "/threads",
    "/threads?q=t1+octo&stage=ended",
    "/costs?days=30",
)


def fill(world: World) -> None:
    """Put copies of random threads into the index."""
    records = [thread_record(place, entries, SERVER) for place, entries in journals(30).items()]
    for n in range(THREADS):
        like = records[n % len(records)]
        address = replace(like.address, repository=n // 20 + 1, number=n + 1)
        world.recorder.index.put(replace(like, address=address, summary=replace(like.summary, number=n + 1)))


def measure(base: str, path: str) -> None:
    """Print the median and the 95th percentile of a request, in milliseconds."""
    seconds = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        if request(base, "GET", path).status != 200:
            raise SystemExit(f"{path} is not served")
        seconds.append(time.perf_counter() - began)
    cuts = quantiles(seconds, n=20)
    print(f"{path:45} median {cuts[9] * 1000:6.1f} ms   p95 {cuts[18] * 1000:6.1f} ms")


def main() -> None:
    """Fill, serve, and measure."""
    with tempfile.TemporaryDirectory() as folder, journal_site(Path(folder)) as site:
        fill(site.world)
        for path in PATHS:
            measure(site.base, path)


if __name__ == "__main__":
    main()
