"""The contents of a recording as in `make demo`, for a tenth of the duration: the bars are reached by then."""

import json
from typing import Callable, List

from figure import Bar, Figure
from processes import run
from servers import EVENTS, HARDMETER, Playground


def measure(playground: Playground, quick: bool, say: Callable[[str], None]) -> List[Figure]:
    """Figure 8. Not shortened by --quick: the bars are counts."""
    server = playground.server("native")
    say("recording pgbench -c 10 -t 100 on the software PMU")
    pgbench = [server.program("pgbench"), "-n", "-c", "10", "-t", "100"]
    record = [HARDMETER, "--quiet", "record", "--source", "simulated", "-e", EVENTS, "-o", server.capture]
    run([*record, "--server", server.folder, "--", *pgbench])
    report = [HARDMETER, "--quiet", "report", "-i", server.capture, "--by", "pid,routine", "--all", "--format", "json"]
    described = json.loads(run(report))
    (first_level,) = [table for table in described["tables"] if table["event"] == "l1d-miss"]
    named = described["names"]["identified"]
    interval = named["interval_95"]
    return [
        Figure(
            "demo: l1d-miss samples",
            first_level["samples"],
            "",
            1,
            "samples of l1d-miss in a recording of pgbench -c 10 -t 100, scale 1",
            Bar(10_000, at_most=False),
        ),
        Figure(
            "demo: processes",
            len({row["pid"] for row in first_level["rows"]}),
            "",
            1,
            "server processes with samples of l1d-miss in it",
            Bar(10, at_most=False),
        ),
        Figure(
            "demo: samples with a name",
            named["fraction"] * 100,
            "%",
            named["of"],
            'user-mode samples of it with a routine\'s name or an honest "static function"',
            Bar(95, at_most=False),
            (interval["low"] * 100, interval["high"] * 100),
        ),
    ]
