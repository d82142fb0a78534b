"""Remedies of planted faults, proven: blocks with the remedy and without it in random order; each block plants its fault.

A block plants the fault, applies the remedy or not, gives the load, looks, and takes all away: so that remedies which cannot
be switched back within a trial (ANALYZE, VACUUM, a rewritten table, another program) are compared like the others.
"""

import contextlib
from statistics import median
from typing import Callable, Dict, Iterator, List, Optional, Tuple

import bed
import cures
import evidence
from faults import FAULTS, Fault, in_place
from figure import Bar, Figure
from processes import Trouble
from servers import Playground

Say = Callable[[str], None]

SECONDS = 2
ROUNDS = 12
# The measure that decides is that of `hardmeter tune try`: CPU time where the disk's time would hide it.
BY_CPU = {"unused-indexes", "duplicate-indexes", "prepared-statements"}
Block = Tuple[float, float]
FEWEST_PROVEN, FEWEST_NEAR = 0.9, 0.75


def _prediction(server: bed.TunedServer, fault: Fault) -> Optional[dict]:
    with in_place(server, fault):
        return cures._finding(bed.looked(server, fault.load, fault.seconds, fault.holder), fault)


def _times(page: dict) -> Block:
    """Milliseconds of active time, and of CPU time, per transaction."""
    active, shares = cures._active_ms(page), page["look"]["time"]["shares"]
    running = sum(share["seconds"] for share in shares if share["kind"].startswith("running"))
    return active, active * running / (page["look"]["active_backends"] * page["look"]["seconds"])


def _block(server: bed.TunedServer, other: Optional[bed.TunedServer], fault: Fault, finding: dict, cured: bool) -> Block:
    """The times of a block with the remedy, or without."""
    if not cured:
        with in_place(server, fault):
            return _times(bed.looked(server, fault.load, SECONDS, fault.holder))
    if other:
        return _times(bed.looked(other, fault.load, SECONDS))
    restart = any(change["takes"] == "restart" for change in finding["changes"])
    with in_place(server, fault):
        cures._apply(server, [*cures._commands(finding, "apply"), *fault.cure_sql], restart)
        try:
            return _times(bed.looked(server, fault.cure or fault.load, SECONDS))
        finally:
            cures._apply(server, [*cures._commands(finding, "undo"), *fault.cure_undo], restart)


def _tried(playground: Playground, server: bed.TunedServer, fault: Fault, finding: dict) -> dict:
    """The standing of the remedy against the fault; `active` is the gain in active time, which is what was predicted."""
    by_cpu = finding["remedy"] in BY_CPU
    name = "CPU time a transaction" if by_cpu else "active time a transaction"
    metric = {"name": name, "direction": "less", "minimum_effect": 0.02}
    trial = evidence.Trial([metric], design="pairs", most_rounds=ROUNDS)
    active: Dict[int, List[float]] = {0: [], 1: []}
    with contextlib.ExitStack() as stack:
        other = stack.enter_context(bed.running(playground, fault.cure_bed)) if fault.cure_bed else None
        for contestant in trial:
            times = _block(server, other, fault, finding, contestant == 1)
            active[contestant].append(times[0])
            trial.observe(contestant, [times[by_cpu]])
    gain = 100 * (1 - median(active[1]) / median(active[0]))
    return {**trial.standings()[0]["metrics"][0], "verdict": trial.verdict(), "active": gain}


def proofs(playground: Playground, quick: bool, say: Say) -> Iterator[Figure]:
    """The gain of each remedy with its interval, and how many are proven and were predicted."""
    proven, predicted = 0, 0
    for one in dict.fromkeys(case.bed for case in FAULTS):
        with bed.running(playground, one) as server:
            for fault in (case for case in FAULTS if case.bed is one):
                finding = _prediction(server, fault)
                if finding is None:
                    say(f"{fault.name}: not named")
                    continue
                if fault.remedies[0] in cures.UNTRIED:
                    say(f"{fault.name}: its remedy cannot be applied here")
                    continue
                try:
                    standing = _tried(playground, server, fault, finding)
                except Trouble as error:
                    say(f"{fault.name}: {error}")
                    continue
                gain = -100 * (standing["change"] or 0.0)
                interval = standing["interval"] and (-100 * standing["interval"]["high"], -100 * standing["interval"]["low"])
                promised = finding["prediction"]["gain"]
                is_near = promised is not None and promised * 50 <= standing["active"] <= promised * 200
                is_proven = bool(interval and interval[0] > 0)
                proven, predicted = proven + is_proven, predicted + is_near
                said = "no prediction" if promised is None else f"{promised * 100:.0f} % predicted"
                said += f", {standing['active']:.0f} % less active time"
                say(f"{fault.name}: {gain:.0f} % gained, {interval}, {standing['verdict']}; {said}")
                what = f"less {standing['name']} in interleaved blocks: {standing['verdict']}; {said}"
                yield Figure(f"{fault.name}: proven gain", gain, "%", standing["n"], what, None, interval)
    of, n = f"of {len(FAULTS)}", len(FAULTS)
    yield Figure("gains proven", proven, of, n, "intervals above 0", Bar(FEWEST_PROVEN * n, False))
    what = "predicted within a factor of two of the measured gain"
    yield Figure("gains predicted", predicted, of, n, what, Bar(FEWEST_NEAR * n, False))
