"""Healthy servers, the cost of an observation, and the time to the first finding."""

import json
import os
import time
from typing import Callable, Dict, Iterator, Optional

import bed
from bed import Load
from figure import Bar, Figure
from processes import run
from servers import HARDMETER, Playground

Say = Callable[[str], None]

HEALTHY: Dict[str, Load] = {
    "tpcb": Load(),
    "look-ups": Load(arguments=["-S"]),
    "ranges": Load(
        "\\set a random(1, 900000)\n"
        "SELECT count(*), sum(abalance) FROM pgbench_accounts WHERE aid BETWEEN :a AND :a + 300;\n"
    ),
    "inserts": Load(
        "\\set a random(1, 1000000)\nINSERT INTO pgbench_history (tid, bid, aid, delta, mtime) "
        "VALUES (1, 1, :a, 5, CURRENT_TIMESTAMP);\n"
    ),
    "whole tables": Load("SELECT bid, count(*), avg(abalance) FROM pgbench_accounts GROUP BY bid;\n"),
}


def healthy(playground: Playground, quick: bool, say: Say) -> Iterator[Figure]:
    """Number of loads, of five on a tuned server, that get advice."""
    advised = []
    loads = dict(list(HEALTHY.items())[: 1 if quick else None])
    with bed.running(playground, bed.MAIN) as server:
        for name, load in loads.items():
            found = bed.named(bed.looked(server, load, 5 if quick else 10))
            say(f"healthy, {name}: {', '.join(found) or 'nothing to gain'}")
            if found:
                advised.append(f"{name}: {', '.join(found)}")
    yield Figure(
        name="healthy loads with advice",
        value=len(advised),
        unit=f"of {len(loads)}",
        n=len(loads),
        what="; ".join(advised) or "nothing to gain on each of " + ", ".join(loads),
        bar=Bar(0),
    )


def cost(playground: Playground, quick: bool, say: Say) -> Iterator[Figure]:
    """CPU time of the command and of its backend, for observations of the default length."""
    here, backend = [], []
    with bed.running(playground, bed.MAIN) as server:
        for block in range(1 if quick else 6):
            look = bed.looked(server, Load(clients=4), 5 if quick else 20)["look"]
            here.append(look["cost"]["here"] / look["seconds"] * 100)
            backend.append(look["cost"]["backend"] / look["seconds"] * 100)
            say(f"cost, {block}: {here[-1]:.2f} + {backend[-1]:.2f} %")
    both = [one + other for one, other in zip(here, backend)]
    of = "CPU time of a look of 20 s at pgbench's transaction of 4 clients, as a part of one CPU"
    yield Figure.of_blocks("cost of looking, command and backend", both, "% of one", of, Bar(1.0))
    yield Figure.of_blocks("cost of looking, command", here, "% of one", of + ": of the command alone")
    yield Figure.of_blocks("cost of looking, backend", backend, "% of one", of + ": of its backend alone")


def onset(playground: Playground, quick: bool, say: Say) -> Iterator[Figure]:
    """From the start of the command to its first screen with a finding, and to the proof of the first remedy."""
    seconds, proven = [], None
    with bed.running(playground, bed.MAIN) as server:
        server.query("CREATE TABLE ox AS SELECT i AS id, i % 20000 AS customer FROM generate_series(1, 200000) i")
        server.query("VACUUM ANALYZE ox")
        script = "\\set c random(0, 19999)\nSELECT id FROM ox WHERE customer = :c;\n"
        with bed.under(server, Load(script)):
            time.sleep(1)
            for _ in range(1 if quick else 3):
                begin = time.monotonic()
                found = bed.named(bed.look(server, 5 if quick else 20))
                if found:
                    seconds.append(time.monotonic() - begin)
                say(f"onset: {', '.join(found) or 'nothing'} after {time.monotonic() - begin:.1f} s")
            if not quick:
                proven = _seconds_to_proof(server, say)
    if seconds:
        what = "seconds from the command's start to its page, which names a missing index"
        yield Figure.of_blocks("seconds to the first finding", seconds, "s", what, Bar(60))
    if proven is not None:
        what = "seconds from the start of `tune try missing-index --yes` to its verdict better, by default blocks of 5 s"
        yield Figure("seconds to the proven gain of the first remedy", proven, "s", 1, what, Bar(600))


def _seconds_to_proof(server: bed.TunedServer, say: Say) -> Optional[float]:
    """The time that a trial of the missing index takes; None if it proves no gain."""
    begin = time.monotonic()
    words: list = [HARDMETER, "--quiet", "tune", "try", "missing-index", "--yes", "--format", "json", "--server", server.folder]
    state = dict(os.environ, XDG_STATE_HOME=str(server.folder.with_suffix(".state")))
    page = json.loads(run(words, (0, 1), env=state))
    say(f"proof: {page['result']['verdict']} after {time.monotonic() - begin:.1f} s")
    return time.monotonic() - begin if page["result"]["verdict"] == "better" else None
