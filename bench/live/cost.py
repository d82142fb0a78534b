"""The cost of stall samples to a server: pgbench with and without `hardmeter record --source live`."""

from typing import Callable, Dict, List, Optional, Sequence

import windows
from figure import Bar, Figure
from servers import HARDMETER, Playground


def measure(playground: Playground, quick: bool, say: Callable[[str], None]) -> List[Figure]:
    """The server's CPU per transaction, and the recorder's own."""
    with playground.server("native", 10, {"shared_buffers": "256MB"}).running() as server:
        live = [HARDMETER, "--quiet", "record", "--source", "live", "-o", server.capture]
        ways: Dict[str, Optional[Sequence]] = {"off": None, "live": [*live, "--server", server.folder, "--", "cat"]}
        blocks = windows.blocks_of(server, "select", ways, 1 if quick else 10, lambda what: say(f"cost, {what}"))
    by = f"pgbench -S, {windows.CLIENTS} clients, beside record --source live"
    return [
        Figure.of_blocks(
            "live, select: backends' CPU",
            [block.backends_more("live", "off") for block in blocks],
            "% more",
            f"more CPU time of the server per transaction, {by}",
            Bar(1.0),
        ),
        Figure.of_blocks(
            "live, select: recorder's CPU",
            [block.recorder_more("live", "off") for block in blocks],
            "% of one",
            f"CPU time of the recorder, of one processor, {by}",
            Bar(5.0),
        ),
    ]
