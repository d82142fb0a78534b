"""How long ghosts stop a backend among 64 that are active, by the stopper's clock and by an independent watcher's."""

import time
from typing import Callable, List

import ghosts
import kills
import loads
from figure import Bar, Figure
from processes import run
from servers import HARDMETER, Playground

CLIENTS = 64
# A look at all of them takes some 0.6 ms: with a pause of 2 ms the watcher leaves most of its processor to the load.
LOOK_EVERY = 0.002


def measure(playground: Playground, quick: bool, say: Callable[[str], None]) -> List[Figure]:
    """Stops under pgbench -S -c 64, statements not prepared; each processor has more backends than it can run."""
    seconds = "5" if quick else "60"
    with loads._server(playground).running() as server, kills._load(server, CLIENTS) as load:
        with kills._watcher(server.processes(), LOOK_EVERY) as seen:
            say(f"pgbench -S, {CLIENTS} clients, followed")
            begin = time.monotonic()
            record = [HARDMETER, "--quiet", "record", "--ghosts", "-o", server.capture, "--server", server.folder]
            run([*record, "--", "sleep", seconds])
            took = time.monotonic() - begin
        notes = ghosts._sidecar(server.capture)["ghosts"]
    pauses, priority = notes["pauses"], "real-time" if notes["real_time"] else "usual"
    of = f"pgbench -S -c {CLIENTS}, followed for {seconds} s, {priority} priority"
    looks, stops, ends = f"looks of the watcher at {of}", f"stops of {of}", f"transactions; {of}"
    stood = {"watcher": 1000 * seen.standing / max(1, seen.looks), "stopper": pauses["sum_ns"] / 1e6 / took}
    return [
        *(
            Figure(f"crowd: stop of a backend, {name}", pauses[key] / 1e6, "ms", pauses["n"], stops, Bar(most))
            for name, key, most in ghosts.PAUSES
        ),
        Figure("crowd: longest stop, by the watcher", 1000 * seen.longest, "ms", seen.looks, looks, Bar(20)),
        Figure("crowd: longest stop, at most", 1000 * seen.at_most, "ms", seen.looks, "from the look before to the look behind"),
        Figure("crowd: longest time without a look", 1000 * seen.gap, "ms", seen.looks, looks),
        Figure(
            "crowd: standing, by the watcher", stood["watcher"], "ms in s", seen.standing, f"looks at a stopped backend; {looks}"
        ),
        Figure("crowd: standing, by the stopper", stood["stopper"], "ms in s", pauses["n"], stops),
        Figure("crowd: errors at clients", load.errors, "errors", load.transactions, ends, Bar(0)),
        Figure("crowd: longest latency", load.longest_ms, "ms", load.transactions, ends),
    ]
