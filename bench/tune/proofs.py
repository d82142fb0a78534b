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
# As many as `hardmeter tune try` makes by default.
ROUNDS = 24
FEWEST_PROVEN, FEWEST_NEAR = 0.9, 0.75
# Calls and milliseconds of each statement before the remedy.
Mix = Dict[str, Tuple[float, float]]
# By measure of `hardmeter tune try`: milliseconds of execution a call, of CPU a transaction, of active time a transaction, and
# kilobytes of log a transaction.
# Each client sends its next transaction when the last has ended, so that the last is the inverse of the throughput.
Block = Dict[str, float]
NAMES = {
    "latency": "execution time a call",
    "cpu": "CPU time a transaction",
    "throughput": "active time a transaction",
    "log": "log a transaction",
}


def _prediction(server: bed.TunedServer, fault: Fault) -> Optional[Tuple[dict, Mix]]:
    """The finding, and the statements of the look that named it."""
    with in_place(server, fault):
        page = bed.looked(server, fault.load, fault.seconds, fault.holder)
    finding = cures._finding(page, fault)
    return (finding, _calls(page)) if finding else None


def _calls(page: dict) -> Mix:
    counted = [one for one in page["look"]["statements"] if one["counts"]]
    return {one["id"]: (one["counts"]["calls"], one["counts"]["total_exec_time"]) for one in counted}


def _execution(page: dict, mix: Mix) -> float:
    """Milliseconds a call, each statement weighted by its calls in the mix, as `hardmeter tune try` does."""
    if not mix:
        raise Trouble("the look counted no statement\n  remedy: pg_stat_statements must be loaded on the server")
    calls = _calls(page)
    # A statement that was not called counts with its time in the mix.
    each = [n * calls[one][1] / calls[one][0] if one in calls else ms for one, (n, ms) in mix.items()]
    return sum(each) / sum(n for n, _ in mix.values())


def _times(page: dict, mix: Mix) -> Block:
    look = page["look"]
    active, shares = cures._active_ms(page), look["time"]["shares"]
    running = sum(share["seconds"] for share in shares if share["kind"].startswith("running"))
    cpu = active * running / (look["active_backends"] * look["seconds"])
    log = look["wal"]["wal_bytes"] / 1e3 / (look["database"]["commits"] + look["database"]["rollbacks"])
    return {"latency": _execution(page, mix), "cpu": cpu, "throughput": active, "log": log}


def _block(server: bed.TunedServer, other: Optional[bed.TunedServer], fault: Fault, finding: dict, cured: bool) -> dict:
    """The report on a block with the remedy, or without."""
    if not cured:
        with in_place(server, fault):
            return bed.looked(server, fault.load, SECONDS, fault.holder, fault.warm)
    if other:
        return bed.looked(other, fault.load, SECONDS)
    restart = any(change["takes"] == "restart" for change in finding["changes"])
    with in_place(server, fault):
        cures._apply(server, [*cures._commands(finding, "apply"), *fault.cure_sql], restart)
        try:
            ended = fault.holder is not None and finding["remedy"] == "idle-in-transaction"
            holder = fault.holder if ended else None
            return bed.looked(server, fault.cure or fault.load, SECONDS, holder, fault.warm, ended)
        finally:
            cures._apply(server, [*cures._commands(finding, "undo"), *fault.cure_undo], restart)


def _tried(playground: Playground, server: bed.TunedServer, fault: Fault, finding: dict, mix: Mix) -> dict:
    """The standing of the remedy against the fault; `gains` are those by all measures."""
    measure = finding["measure"]
    metric = {"name": NAMES[measure], "direction": "less", "minimum_effect": 0.02}
    trial = evidence.Trial([metric], design="pairs", most_rounds=ROUNDS)
    blocks: Dict[int, List[Block]] = {0: [], 1: []}
    with contextlib.ExitStack() as stack:
        other = stack.enter_context(bed.running(playground, fault.cure_bed)) if fault.cure_bed else None
        for contestant in trial:
            times = _times(_block(server, other, fault, finding, contestant == 1), mix)
            blocks[contestant].append(times)
            trial.observe(contestant, [times[measure]])
    mean = {which: {one: median(block[one] for block in blocks[which]) for one in NAMES} for which in blocks}
    gains = {one: 1 - mean[1][one] / mean[0][one] for one in NAMES if mean[0][one]}
    return {**trial.standings()[0]["metrics"][0], "verdict": trial.verdict(), "gains": gains}


def _promised(finding: dict) -> Optional[float]:
    """The share that is predicted to be saved of what the trial measures."""
    prediction = finding["prediction"]
    if finding["measure"] == "log":
        return None
    by = {"latency": prediction["of_execution"], "cpu": prediction["of_cpu"]}.get(finding["measure"])
    return prediction["gain"] if by is None else by


def proofs(playground: Playground, quick: bool, say: Say) -> Iterator[Figure]:
    """The gain of each remedy with its interval, and how many are proven and were predicted."""
    proven, predicted = 0, 0
    for one in dict.fromkeys(case.bed for case in FAULTS):
        with bed.running(playground, one) as server:
            for fault in (case for case in FAULTS if case.bed is one):
                found = _prediction(server, fault)
                if found is None:
                    say(f"{fault.name}: not named")
                    continue
                if fault.remedies[0] in cures.UNTRIED:
                    say(f"{fault.name}: its remedy cannot be applied here")
                    continue
                finding, mix = found
                try:
                    standing = _tried(playground, server, fault, finding, mix)
                except Trouble as error:
                    say(f"{fault.name}: {error}")
                    continue
                gain = -100 * (standing["change"] or 0.0)
                interval = standing["interval"] and (-100 * standing["interval"]["high"], -100 * standing["interval"]["low"])
                promised = _promised(finding)
                is_near = promised is not None and promised * 50 <= gain <= promised * 200
                is_proven = bool(interval and interval[0] > 0)
                proven, predicted = proven + is_proven, predicted + is_near
                said = "no prediction" if promised is None else f"{promised * 100:.0f} % predicted"
                by_all = ", ".join(f"{gain * 100:.0f} % {NAMES[one]}" for one, gain in standing["gains"].items())
                say(f"{fault.name}: {gain:.0f} % gained, {interval}, {standing['verdict']}; {said}; medians: {by_all}")
                what = f"less {standing['name']} in interleaved blocks: {standing['verdict']}; {said}; medians: {by_all}"
                yield Figure(f"{fault.name}: proven gain", gain, "%", standing["n"], what, None, interval)
    of, n = f"of {len(FAULTS)}", len(FAULTS)
    yield Figure("gains proven", proven, of, n, "intervals above 0", Bar(FEWEST_PROVEN * n, False))
    what = "predicted within a factor of two of the measured gain"
    yield Figure("gains predicted", predicted, of, n, what, Bar(FEWEST_NEAR * n, False))
