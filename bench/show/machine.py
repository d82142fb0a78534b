"""The latencies of this machine, and the lines that the demo prints."""

import json
import re
from typing import Callable, Iterator

from figure import Bar, Figure
from processes import run
from servers import HARDMETER, REPOSITORY, Playground

LEVELS = ("L1", "L2", "L3", "memory")


def latency(_playground: Playground, quick: bool, say: Callable[[str], None]) -> Iterator[Figure]:
    """The order of the levels, and the sizes of the caches beside those that sysfs reports."""
    say("measuring the latencies of this machine")
    repeats = ["--repeats", "6", "--largest", "128M"] if quick else []
    report = json.loads(run([HARDMETER, "--quiet", "latency", "--format", "json", *repeats]))
    levels = [row["ns"] for row in report["summary"] if row["name"] in LEVELS]
    out_of_order = sum(later <= earlier for earlier, later in zip(levels, levels[1:]))
    what = "levels that are not slower than the one before: " + " < ".join(f"{one:.2f}" for one in levels) + " ns"
    yield Figure("latency: levels out of order", out_of_order, "", len(levels), what, Bar(0))
    silent = not report["cliffs_agree"] and not report["notes"]
    what = "whether sizes disagree with sysfs by more than a factor of 1.5, and no note says so"
    yield Figure("latency: sizes that disagree, unnoted", int(silent), "", len(report["caches"]), what, Bar(0))


def demo(_playground: Playground, quick: bool, say: Callable[[str], None]) -> Iterator[Figure]:
    """Lines of `make demo` after the build, and lines that it prints twice."""
    if quick:
        say("the demo compiles for minutes: left out of a quick run")
        return
    say("running the demo")
    output = run(["make", "--no-print-directory", "demo"], cwd=REPOSITORY)
    after = output[output.index("==> recording") :].splitlines()
    said = [line.strip() for line in after if len(line.strip()) > 20]
    yield Figure("demo: lines after the build", len(after), "", 1, "lines that make demo prints from its recording on", Bar(60))
    yield Figure("demo: lines printed twice", len(said) - len(set(said)), "", 1, "lines of more than 20 letters", Bar(0))
    path = re.search(r"\S+\.html", output)
    yield Figure("demo: names its report", int(path is not None), "", 1, "whether its output names the page", Bar(1, at_most=False))
