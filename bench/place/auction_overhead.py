"""The cost of collecting on the auction site: CPU time per request with collecting on, off, and of stock servers.

The bar is half a percent, and on a shared machine runs of the same site differ by many. So legs are short (a tenth to a fifth of a second of
the same requests over a kept connection, so that the same process of Apache and the same thread of MariaDB answer), and follow each other
within a second, on, off and stock, then in the mirrored order. On and off are the same servers, with the same memory in the same sets of the
caches: their ratio has the bar. Stock servers are others, whose memory lies otherwise; each block has another connection, and so another
process, to average that. On to stock has in it what on to off has not: that a module is called at all.
"""

import random
import time
from collections import defaultdict
from typing import Callable, Dict, List

from auction_site import Site, Visitor, process_seconds
from figure import Bar, Figure, interleaved

BAR = Bar(0.5)
SCENARIOS = ("accesses", "volume")
# In percent: the paper's cost of collecting, of response time.
PAPER = {"accesses": 5.0, "volume": 2.5}
# Apache and MariaDB do cleanup work after the answer.
SETTLE_SECONDS = 0.002
SECONDS, QUICK_SECONDS = 150, 3
# Words of items' names (prove/auction/src/words.rs); each makes a statement read all items.
WORDS = ("brass", "wooden", "green", "copper", "round")
CATEGORIES, REGIONS, PICTURES = 20, 62, 16


def requests(scenario: str, chance: random.Random) -> List[str]:
    """The requests of a leg: for many accesses a client's list (prove/auction/src/scenario.rs), for much data a
    picture and a catalogue with about 5,000 statements, a ninth of a client's list.
    """
    picture = f"picture{chance.randrange(PICTURES)}.svg"
    category = chance.randint(1, CATEGORIES)
    if scenario == "volume":
        return [picture, f"catalogue.php?category={category}"]
    words = f"search.php?words={chance.choice(WORDS)}"
    region = f"region.php?category={category}&region={chance.randint(1, REGIONS)}"
    four = [words, region, words, region]
    return [picture, *four, picture, *four, picture, words, region, picture]


def measure(stock: Site, split: Site, scenario: str, quick: bool, say: Callable[[str], None]) -> List[Figure]:
    """Processor time of a request when collecting, over the same servers switched off, and over stock ones."""
    chance = random.Random(1)
    found: Dict[str, List[float]] = defaultdict(list)
    with split.analyzed("observe") as analyzer:
        _learn(split, scenario, chance)
        begun, analyzed = time.monotonic(), process_seconds(analyzer)
        served = 0.0
        say(f"overhead of collecting, {scenario}: {QUICK_SECONDS if quick else SECONDS} s of short legs")
        while time.monotonic() - begun < (QUICK_SECONDS if quick else SECONDS) or len(found["on"]) < 2:
            block = _block(stock, split, scenario, chance)
            for way, values in block.items():
                found[way].append(sum(values))
            served += sum(block["on"]) / len(block["on"])
        # The analyzer runs all the time: its share of the servers' CPU time.
        share = (process_seconds(analyzer) - analyzed) / (time.monotonic() - begun)
    per_second = served / max(sum(found["seconds"]) / 2, 1e-9)
    share = 100 * share / per_second
    ratio = {way: [100 * (on / other - 1) for on, other in zip(found["on"], found[way])] for way in ("off", "stock")}
    noise = [100 * (one / other - 1) for one, other in zip(found["off-1"], found["off-2"])]
    what = f"a request of scenario {scenario}, the same servers collecting and not, ABBA"
    return [
        Figure.of_blocks(
            f"collecting, {scenario}: CPU time",
            [one + share for one in ratio["off"]],
            "% more",
            f"{what}; with the analyzer; the paper, of response time: {PAPER[scenario]} %",
            BAR,
        ),
        Figure(f"collecting, {scenario}: analyzer", share, "%", 1, "of it: the analyzer's, to that of busy servers"),
        Figure.of_blocks(f"collecting, {scenario}: to stock servers", [one + share for one in ratio["stock"]], "% more", "other servers"),
        Figure.of_blocks(f"collecting, {scenario}: off to off", noise, "% more", "what this measurement makes of no difference"),
    ]


def _learn(split: Site, scenario: str, chance: random.Random) -> None:
    """All sections of new kinds are probed; a server that has run for a minute is past that."""
    split.switch(True)
    with Visitor(split) as visitor:
        for _ in range(20):
            for path in requests(scenario, chance):
                visitor.get(path)


def _block(stock: Site, split: Site, scenario: str, chance: random.Random) -> Dict[str, List[float]]:
    """CPU time of legs, by way; also of the first and the second leg that was off, and the duration of legs that were
    on.
    """
    cpu: Dict[str, List[float]] = defaultdict(list)
    asked = requests(scenario, chance)
    sites = {"on": split, "off": split, "stock": stock}
    with Visitor(split) as mine, Visitor(stock) as theirs:
        visitors = {"on": mine, "off": mine, "stock": theirs}
        is_on = None
        for way in ("on", "stock", *interleaved(list(sites), chance)):
            if way != "stock" and is_on != (way == "on"):
                is_on = way == "on"
                split.switch(is_on)
                _leg(split, mine, asked[:1])
            begun = time.monotonic()
            cpu[way].append(_leg(sites[way], visitors[way], asked))
            if way == "on":
                cpu["seconds"].append(time.monotonic() - begun)
    # The first legs of a connection fill the caches.
    cpu["on"].pop(0)
    cpu["seconds"].pop(0)
    cpu["stock"].pop(0)
    return {**cpu, "off-1": cpu["off"][:1], "off-2": cpu["off"][1:]}


def _leg(site: Site, visitor: Visitor, asked: List[str]) -> float:
    before = site.cpu_seconds()
    for path in asked:
        visitor.get(path)
    time.sleep(SETTLE_SECONDS)
    return site.cpu_seconds() - before
