"""Exports of a capture, opened by the programs they are for: `go tool pprof`, the Firefox Profiler's own command and the
OpenTelemetry Collector's receiver. Totals that are not those of `hardmeter report`."""

import contextlib
import json
import os
import re
import shutil
import socket
import subprocess
import time
import urllib.request
from pathlib import Path
from typing import Callable, Dict, Iterator, Sequence

from figure import Bar, Figure
from processes import Trouble, run
from servers import HARDMETER, Playground, make_capture

RECEIVER = Path(__file__).resolve().parent / "receiver"
# The profiler's command needs a newer Node than Debian has; npm has that, too.
PACKAGES = ("@firefox-devtools/profiler-cli@0.10.0", "node@24")
Totals = Dict[str, int]


def measure(playground: Playground, quick: bool, say: Callable[[str], None]) -> Iterator[Figure]:
    """Each program reads its export; what it does not say, or says otherwise, differs."""
    for tool, package in (("go", "golang-go 1.25 or newer"), ("npm", "npm")):
        if shutil.which(tool) is None:
            raise Trouble(f"there is no {tool}\n  remedy: install {package}")
    samples = 10_000 if quick else 100_000
    capture = playground.folder / "exports.data"
    run([make_capture(), capture, str(samples), playground.server("native").program("postgres"), "host"])
    expected = _of_report(capture)
    counts = {name: total for name, total in expected.items() if name.endswith("_samples")}
    readers = {
        "go tool pprof": (_of_pprof, expected),
        "OpenTelemetry's receiver": (_of_receiver, expected),
        "the Firefox Profiler": (_of_firefox, counts),
    }
    for name, (read, wanted) in readers.items():
        say(f"{name} reads its export")
        found = read(playground.folder, capture)
        differ = sum(found.get(total) != value for total, value in wanted.items())
        what = f"totals by event of {samples} samples that are not those of report: {', '.join(wanted)}"
        yield Figure(f"exports: {name}", differ, "totals", len(wanted), what, Bar(0))


def _export(capture: Path, form: str, suffix: str) -> Path:
    exported = capture.with_suffix(suffix)
    run([HARDMETER, "--quiet", "export", "--to", form, "-i", capture, "-o", exported])
    return exported


def _of_report(capture: Path) -> Totals:
    """Events, samples and latencies of each event."""
    words = ["report", "-i", capture, "--all", "--columns", "routine,count,events,total-latency", "--format", "json"]
    totals: Totals = {}
    for table in json.loads(run([HARDMETER, "--quiet", *words]))["tables"]:
        event = table["event"]
        totals[event] = sum(row["events"] for row in table["rows"])
        totals[f"{event}_samples"] = sum(row["count"] for row in table["rows"])
        totals[f"{event}_latency"] = sum(row["latencies"]["sum"] for row in table["rows"])
    return totals


def _of_pprof(_folder: Path, capture: Path) -> Totals:
    """The columns of the samples that `go tool pprof -raw` prints, added up."""
    raw = run(["go", "tool", "pprof", "-raw", _export(capture, "pprof", ".pb.gz")])
    _, heading, rest = re.split(r"^Samples:\n(.*)\n", raw, maxsplit=1, flags=re.M)
    names = [column.split("/")[0] for column in heading.split()]
    rows = re.findall(r"^ *(\d+(?: +\d+)*): ", rest.split("\nLocations", 1)[0], re.M)
    return {name: sum(values) for name, values in zip(names, zip(*([int(value) for value in row.split()] for row in rows)))}


def _of_receiver(folder: Path, capture: Path) -> Totals:
    """Builds the receiver, and posts the profile to it."""
    program = folder / "receiver"
    run(["go", "build", "-o", program, "."], cwd=RECEIVER)
    exported = _export(capture, "otlp", ".otlp")
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as free:
        endpoint = f"127.0.0.1:{free.getsockname()[1]}"
    with subprocess.Popen([program, endpoint], stdout=subprocess.PIPE, text=True) as receiver:
        try:
            if receiver.stdout.readline() != "ready\n":
                raise Trouble("the receiver did not start: see its message")
            headers = {"Content-Type": "application/x-protobuf"}
            url = f"http://{endpoint}/v1development/profiles"
            urllib.request.urlopen(urllib.request.Request(url, exported.read_bytes(), headers), timeout=60).close()
            return json.loads(receiver.stdout.readline())
        finally:
            receiver.kill()


def _of_firefox(folder: Path, capture: Path) -> Totals:
    """The samples of the profiler's threads, one of which is a process and event: `postgres (l2-miss)`."""
    place = folder / "profiler"
    place.mkdir()
    run(["npm", "install", "--prefix", place, "--no-audit", "--no-fund", "--silent", *PACKAGES])
    programs = place / "node_modules/.bin"
    # Its daemon keeps its socket in the home folder.
    environment = dict(os.environ, HOME=str(place), PATH=f"{programs}:{os.environ['PATH']}")

    def ask(*words: object, statuses: Sequence[int] = (0,)) -> str:
        return run([programs / "profiler-cli", *words], statuses, env=environment)

    # It gives its daemon half a second to start, and fails if that takes longer; the daemon starts all the same.
    ask("load", _export(capture, "firefox", ".json"), statuses=(0, 1))
    try:
        threads = ""
        while not threads:
            time.sleep(1)
            threads = ask("profile", "info", "--all", "--json", statuses=(0, 1))
        totals: Totals = {}
        for process in json.loads(threads)["processes"]:
            for thread in process["threads"]:
                handle = thread["threadHandle"]
                facts = json.loads(ask("thread", "info", "--thread", handle, "--json"))
                name = facts["name"].rpartition("(")[2].rstrip(")") + "_samples"
                totals[name] = totals.get(name, 0) + facts["sampleCount"]
        return totals
    finally:
        ask("stop", "--all")
