"""The HTML report: size, time to write, and checks in a browser."""

import json
import shutil
from pathlib import Path
from typing import Callable, Iterator, Tuple

from figure import Bar, Figure
from processes import Trouble, Used, run, run_measured
from servers import HARDMETER, REPOSITORY, Playground, make_capture

Say = Callable[[str], None]
BYTES_PER_SAMPLE = 330
CHECK = REPOSITORY / "measure/html/check"


def size(playground: Playground, _quick: bool, say: Say) -> Iterator[Figure]:
    """A report of 100,000 samples."""
    page = _report(playground, 100_000, say)[0]
    what = "report of 100,000 samples with call chains"
    yield Figure("size, 100,000 samples", page.stat().st_size / 1000, "kB", 1, what, Bar(1500))


def large(playground: Playground, quick: bool, say: Say) -> Iterator[Figure]:
    """A report of a large capture."""
    samples = 200_000 if quick else 5_000_000
    page, used = _report(playground, samples, say)
    what = f"report of {samples} samples with call chains"
    yield Figure("large: CPU time", used.cpu_seconds, "s", 1, what, Bar(20))
    yield Figure("large: size", page.stat().st_size / 1000, "kB", 1, what, Bar(5000))
    yield Figure("large: peak memory", used.peak_bytes / (1 << 20), "MB", 1, what)


def browser(playground: Playground, quick: bool, say: Say) -> Iterator[Figure]:
    """Checks of a report by a headless Chromium and axe-core, opened from disk."""
    if shutil.which("npm") is None:
        raise Trouble("there is no npm\n  remedy: apt-get install npm chromium")
    if not (CHECK / "node_modules").is_dir():
        say("fetching axe-core and playwright-core")
        run(["npm", "ci", "--prefix", CHECK, "--ignore-scripts", "--no-audit", "--no-fund", "--silent"])
    page = _report(playground, 100_000 if quick else 1_000_000, say)[0]
    say("opening it in Chromium")
    # Its status is that of its own checks, or 77 without a browser; the bars here use the figures.
    output = run(["node", CHECK / "page.mjs", "--json", page], statuses=(0, 1, 77))
    if output.startswith("skipped"):
        raise Trouble("there is no Chromium\n  remedy: apt-get install chromium, or set CHROMIUM")
    found = json.loads(output)
    reached = 100 * found["chapters_reached"] / max(1, found["chapters"])
    what = "report opened from disk, light and dark"
    yield Figure("browser: requests beside the file", found["requests"], "", 2, what, Bar(0))
    yield Figure("browser: messages on the console", found["console"], "", 2, what, Bar(0))
    chapters = "chapters reached by Tab and Enter"
    yield Figure("browser: chapters by keyboard", reached, "%", found["chapters"], chapters, Bar(100, at_most=False))
    yield Figure("browser: shares without n", found["without_n"], "", 1, "boxes whose title has a share and no n", Bar(0))
    yield Figure("browser: axe-core, serious or worse", found["serious"], "", 2, what, Bar(0))
    yield Figure("browser: time to open", found["milliseconds"] / 1000, "s", 2, f"the longer of two, {what}", Bar(2))


def _report(playground: Playground, samples: int, say: Say) -> Tuple[Path, Used]:
    """A report of this many samples, and the resources for writing it."""
    needed = samples * BYTES_PER_SAMPLE
    if shutil.disk_usage(playground.folder).free < 2 * needed:
        raise Trouble(f"no room for a capture of {needed >> 20} MB in /var/tmp\n  remedy: free some space there")
    capture = playground.folder / f"show-{samples}.data"
    page: Path = playground.folder / f"show-{samples}.html"
    try:
        say(f"making a capture of {samples} samples")
        # Its samples are in this program's code.
        program = playground.server("native").program("postgres")
        run([make_capture(), capture, str(samples), program])
        say(f"report of {samples} samples")
        return page, run_measured([HARDMETER, "--quiet", "report", "-i", capture, "--html", page])
    finally:
        capture.unlink(missing_ok=True)
