"""Visitors of a stock WordPress beside an export and search crawler: policy `time` to the kernel alone.

Three arms in blocks of some seconds, in random order: stock (the modules are loaded and off), policy `time` by the analyzer (no rule
written, no guard), and visitors alone, which is the floor: no policy can make them faster than without a crawler. A figure is the median
over rounds of an arm's block to the stock block of the same round.

The crawler uses all processors. If the site got less than CALM of all processors' time, other programs or guests ran and affected its
latencies. So a round counts only if both blocks were calm. The latencies do not enter this choice.
"""

import os
import random
import statistics
import time
from typing import Callable, Dict, Iterator, List, Tuple

from auction_site import process_seconds
from figure import Bar, Figure
from processes import Trouble
from servers import Playground
from slices import CALM
from slices_arms import Group
from wordpress_load import Block, Load
from wordpress_site import WordPress

Say = Callable[[str], None]
RATE = 4.0  # visits a second
# A connection each: two that export all posts, two that search.
CRAWLER = ("export", "export", "search", "search")
ARMS = ("stock", "time")
P95, CRAWLED = Bar(0.6), Bar(0.9, at_most=False)
SETTLE = 3.0  # the analyzer looks once a second


class Trial:
    """The site, its load, and the arms."""

    def __init__(self, site: WordPress, load: Load, costs: Dict[str, float], say: Say):
        self._site, self._load, self._costs, self._say = site, load, costs, say
        self.blocks: Dict[str, List[Block]] = {arm: [] for arm in (*ARMS, "alone")}
        self.had: Dict[str, List[float]] = {arm: [] for arm in self.blocks}

    def block(self, arm: str, seconds: float) -> None:
        """Requests that the crawler has under way end before the switch: a section has the slice that it began with."""
        self._load.drain()
        self._site.switch(arm == "time")
        self._load.crawl(arm != "alone")
        time.sleep(SETTLE)
        before = self._cpu_seconds()
        block = self._load.block(seconds)
        had = (self._cpu_seconds() - before) / (time.monotonic() - block.begin) / (os.cpu_count() or 1)
        self.blocks[arm].append(block)
        self.had[arm].append(had)
        self._say(
            f"wordpress: {arm}: {len(block.latencies)} visits, mean {block.mean:.0f} ms, p95 {block.quantile(0.95):.0f} ms; "
            f"had {100 * had:.0f} %"
        )

    def work(self, block: Block) -> float:
        """What the crawler did: seconds of requests, by what they take on the idle site, a second."""
        return sum(rate * self._costs[kind] for kind, rate in self._load.crawled(block).items())

    def _cpu_seconds(self) -> float:
        return sum(map(process_seconds, self._site.processes()))


def measure(playground: Playground, quick: bool, say: Say) -> Iterator[Figure]:
    """Policy `time` and visitors alone relative to stock; the crawler's work; errors."""
    rounds, seconds = (1, 4.0) if quick else (6, 12.0)
    chance = random.Random(11)
    with Group(f"hardmeter-bench-{os.getpid()}") as group:
        say("making a WordPress")
        site = WordPress(playground)
        group.take(site.processes())
        load = Load(site, RATE, CRAWLER)
        costs = load.costs()
        trial = Trial(site, load, costs, say)
        with site.analyzed("time", "--no-guard"), load.running():
            trial.block("alone", seconds)
            trial.block("time", seconds)  # the analyzer learns the kinds
            _forget(trial, "time")
            for _ in range(rounds):
                for arm in chance.sample(ARMS, len(ARMS)):
                    trial.block(arm, seconds)
                for kind in site.background():
                    say(f"wordpress: in the background: {kind}")
            load.drain()
        # The group can be removed only when the servers have ended, because then it is empty.
        site.remove()
    yield from figures(trial, load, costs, 0.0 if quick else CALM)


def _forget(trial: Trial, arm: str) -> None:
    trial.blocks[arm].clear()
    trial.had[arm].clear()


def figures(trial: Trial, load: Load, costs: Dict[str, float], calm: float) -> Iterator[Figure]:
    """All figures of a trial."""
    everything = [one for arm in ARMS for one in trial.had[arm]]
    what = f"blocks beside the crawler in which the site had less than {100 * calm:.0f} % of all processors' time"
    yield Figure("wordpress: disturbed", 100 * sum(one < calm for one in everything) / len(everything), "%", len(everything), what)
    for kind, cost in costs.items():
        yield Figure(f"wordpress: {kind}, idle site", 1e3 * cost, "ms", 3, "response time on the idle site")
    what = "answers with another status than 200, or without the text that belongs to them"
    yield Figure("wordpress: errors", len(load.errors), "", load.answers, what, Bar(0))
    yield from _compared(trial, load, 0.0, ", disturbed too")
    yield from _compared(trial, load, calm, "", P95, CRAWLED)


def _compared(trial: Trial, load: Load, calm: float, suffix: str, p95: "Bar | None" = None, crawled: "Bar | None" = None) -> Iterator[Figure]:
    rounds: List[Tuple[Block, Block]] = [
        (ours, stock)
        for ours, stock, *had in zip(trial.blocks["time"], trial.blocks["stock"], trial.had["time"], trial.had["stock"])
        if min(had) >= calm
    ]
    if not rounds:
        raise Trouble("wordpress: no round was calm\n  remedy: a calmer machine, or a calmer hour")
    stock = [one for _, one in rounds]
    visits = sum(len(block.latencies) for block in stock)
    floor = trial.blocks["alone"][0]
    for name, of, bar in (("mean", lambda block: block.mean, None), ("p95", lambda block: block.quantile(0.95), p95)):
        value = statistics.median(map(of, stock))
        yield Figure(f"wordpress: {name}, stock{suffix}", value, "ms", len(stock), f"{visits} visits, from the intended start")
        ratios = [of(ours) / of(one) for ours, one in rounds]
        yield Figure.of_blocks(f"wordpress: {name}, time{suffix}", ratios, "x", "policy time to stock, by round", bar)
        alone = [of(floor) / of(one) for one in stock]
        yield Figure.of_blocks(f"wordpress: {name}, alone{suffix}", alone, "x", "visitors without a crawler to stock: the floor")
    work = [trial.work(ours) / trial.work(one) for ours, one in rounds]
    what = "what the crawler did a second, by what its requests take on the idle site"
    yield Figure.of_blocks(f"wordpress: crawled, time{suffix}", work, "x", what, crawled)
    for kind in sorted(set(CRAWLER)):
        done = [[load.crawled(block)[kind] for block in pair] for pair in rounds]
        yield Figure(f"wordpress: {kind}, stock{suffix}", statistics.median(one for _, one in done), "1/s", len(done), "requests a second")
        yield Figure.of_blocks(f"wordpress: {kind}, time{suffix}", [ours / one for ours, one in done if one], "x", "to stock, by round")
