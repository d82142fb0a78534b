"""Terminals with keying and think times in one process, with a stub that answers after 2 ms: the driver alone."""

import json
import subprocess
from pathlib import Path
from typing import Callable, List, Optional

from figure import Bar, Figure
from processes import Trouble, run_measured
from servers import HARDMETER, Playground

SERVICE = "2ms"
MEBIBYTE = 1 << 20
# Terminals, their connections (rate * 2 ms are busy: 10 and 38, and bursts need more), bars or none.
SIZES = [(100_000, 256, Bar(30), Bar(5)), (390_000, 1024, None, None)]
QUICK_SIZES = [(10_000, 64, Bar(30), Bar(5))]
# Three cycles until the steady state: terminals begin evenly distributed, unlike later.
RAMP, INTERVAL = 60, 60
QUICK_RAMP, QUICK_INTERVAL = 10, 5

# Clauses 5.2.5.7 and 5.2.4.2, by transaction: seconds of keying and of thinking, shares of the two ways of mixing.
KEYING = [18, 3, 2, 2, 2]
THINK = [12, 12, 10, 5, 5]
SHARES = {"weights": [0.4405, 0.4335, 0.042, 0.042, 0.042], "deck": [count / 23 for count in (10, 10, 1, 1, 1)]}


def measure(playground: Playground, quick: bool, say: Callable[[str], None]) -> List[Figure]:
    """Memory, lag, CPU time and throughput, for each number of terminals."""
    ramp, interval = (QUICK_RAMP, QUICK_INTERVAL) if quick else (RAMP, INTERVAL)
    figures = []
    for terminals, connections, memory, lag in QUICK_SIZES if quick else SIZES:
        say(f"{terminals:,} terminals: {ramp} s to get going, {interval} s measured")
        result = playground.folder / f"terminals-{terminals}.json"
        words = ["--stub", SERVICE, "--warehouses", str(terminals // 10), "--connections", str(connections)]
        words += ["--ramp", f"{ramp}s", "--interval", f"{interval}s", "--output", str(result.with_suffix(""))]
        used = run_measured([HARDMETER, "--quiet", "tpcc", "run", *words])
        figures += figures_of(terminals, shown(result), used.peak_bytes, memory, lag)
    return figures


def shown(result: Path) -> dict:
    """The JSON of `hardmeter tpcc show` for a result. Its status is 1 if a verdict is short: a run of a minute does
    not meet the specification.
    """
    command = [str(HARDMETER), "tpcc", "show", str(result), "--format", "json"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode not in (0, 1) or not done.stdout:
        raise Trouble(f"{' '.join(command)}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def theory(mix: str, response: float) -> float:
    """New-Orders per minute of a warehouse's ten terminals at this mean response time in seconds."""
    shares = SHARES[mix]
    # Terminals pause for whole milliseconds, rounded up.
    cycle = sum(share * (key + think) for share, key, think in zip(shares, KEYING, THINK)) + response + 0.0005
    return 600 / cycle * shares[0]


def figures_of(terminals: int, result: dict, peak: int, memory: Optional[Bar], lag: Optional[Bar]) -> List[Figure]:
    name = f"{terminals:,} terminals"
    summary = result["summary"]
    kinds = summary["kinds"]
    transactions = sum(kind["completed"] for kind in kinds)
    orders = kinds[0]["completed"]
    # One loop sends all transaction types: the worst of them is an upper bound for all together.
    worst = max(kind["lag"]["p99"] for kind in kinds if kind["lag"])
    response = sum(kind["response"]["mean"] * kind["completed"] for kind in kinds) / transactions
    expected = theory(result["order"]["mix"], response)
    rate = summary["per_warehouse"]
    return [
        Figure(f"{name}: memory", peak / MEBIBYTE, "MiB", 1, "largest resident memory of the whole process", memory),
        Figure(f"{name}: p99 lag", 1000 * worst, "ms", transactions, "from due to sent, of the worst transaction", lag),
        Figure(f"{name}: CPU time", summary["driver_cpu_per_1000"], "s/1000", orders, "of the driver, per 1000 New-Orders"),
        Figure(f"{name}: New-Orders", summary["new_orders_a_minute"], "/min", orders, "of the measured minute"),
        Figure(f"{name}: of theory", 100 * rate / expected, "%", orders, f"theory has {expected:.3f} a warehouse"),
    ]
