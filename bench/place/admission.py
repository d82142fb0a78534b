"""What admission gains on a real PostgreSQL, and what it costs: look-ups beside eight clients of an aggregate that keeps megabytes.

The arms take turns in random order: stock, policy `time`, and `time` with admission of as many aggregates as there are processors.
Each block has an analyzer of its own, with the options of its arm; it learns the kinds of statements before the block begins. Look-ups
are at fixed times and count from their intended start; aggregates follow each other, and count from their request, waits included.
"""

import contextlib
import random
import statistics
import time
from typing import Callable, Dict, Iterator, List

from figure import Figure
from mixes import analyzer
from processes import Trouble
from servers import Playground
from slices import CALM, METRICS, Case, figures, serving
from slices_load import Block, Load

CASE = Case("admission")
CLIENTS = 8
# A hash table of 100,000 groups: eight of them are more than an L2, or the share of an L3, holds.
AGGREGATE = "select count(*) from (select aid / 10 as tenth, sum(abalance) from pgbench_accounts group by 1) as sums"
# By arm: the policy, and more options of `hardmeter split analyze`.
ARMS: Dict[str, List[str]] = {"stock": [], "time": ["time"], "time + admit": ["time", "--admit", "auto"]}
LEARNING = 3.0


def measure(playground: Playground, quick: bool, say: Callable[[str], None]) -> Iterator[Figure]:
    """Each arm relative to stock, by metric, and the values of stock."""
    rounds, seconds = (1, 1.0) if quick else (7, 4.0)
    blocks: Dict[str, List[Block]] = {arm: [] for arm in ARMS}
    with serving(CASE, playground) as (server, segments):
        load = Load(server, playground.folder, CASE.rate, CASE.parallel, CASE.elsewhere, CLIENTS, AGGREGATE)
        with load.running():
            for number in range(rounds):
                for arm in random.sample(list(ARMS), len(ARMS)):
                    with contextlib.ExitStack() as stack:
                        if ARMS[arm]:
                            policy, *more = ARMS[arm]
                            stack.enter_context(analyzer(segments, policy, False, more))
                        time.sleep(LEARNING)
                        block = load.block(seconds)
                    blocks[arm].append(block)
                    shown = ", ".join(f"{name} {value:.0f}" for name, value in zip(METRICS, block.values()))
                    say(f"admission: round {number + 1} of {rounds}, {arm}: {shown}; had {100 * block.had:.0f} %")
    calm = 0.0 if quick else CALM
    yield from _added(blocks, 0.0, ", disturbed too")
    yield from figures(CASE, blocks, calm, {})
    yield from _added(blocks, calm, "")


def _mean(block: Block) -> float:
    return statistics.fmean(block.took)


def _p95(block: Block) -> float:
    return block.took[min(len(block.took) - 1, int(0.95 * len(block.took)))]


def _added(blocks: Dict[str, List[Block]], calm: float, suffix: str) -> Iterator[Figure]:
    """What an aggregate takes from its request to its end, and what admission changes beside time slices."""
    of_aggregates = {"mean of an aggregate": _mean, "p95 of an aggregate": _p95}
    for name, of in of_aggregates.items():
        stock = [of(block) for block in blocks["stock"] if block.had >= calm and block.took]
        if stock:
            yield Figure(f"admission: {name}, stock{suffix}", statistics.median(stock), "ms", len(stock), "stock, waits included")
        for arm in ("time", "time + admit"):
            yield _ratio(blocks, calm, arm, "stock", name, of, suffix)
    of_all = {name: (lambda block, at=at: block.values()[at]) for at, name in enumerate(METRICS)}
    for name, of in {**of_all, **of_aggregates}.items():
        yield _ratio(blocks, calm, "time + admit", "time", name, of, suffix)


def _ratio(
    blocks: Dict[str, List[Block]], calm: float, arm: str, to: str, name: str, of: Callable[[Block], float], suffix: str
) -> Figure:
    """The median over the calm rounds of one arm's value to the other's."""
    pairs = [(one, by) for one, by in zip(blocks[arm], blocks[to]) if min(one.had, by.had) >= calm and one.took and by.took]
    if not pairs:
        raise Trouble(f"admission: no round of {arm} was calm\n  remedy: a calmer machine, or a calmer hour")
    ratios = [of(one) / of(by) for one, by in pairs]
    return Figure.of_blocks(f"admission: {name}, {arm} to {to}{suffix}", ratios, "x", f"{arm} to {to}, by round")
