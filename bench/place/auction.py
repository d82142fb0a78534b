"""The auction site (`hardmeter auction`), three parts of the bench: the cost of collecting, the accuracy of predicted
cycles, and the paper's scenarios by policy.

Two sites run side by side, one stock, one with placement's modules, and are visited in turn: a machine that drifts drifts alike for both.
Processor time per request is compared, of Apache, PHP, MariaDB and the analyzer: on a shared machine it is much less noisy than response
times, which are printed as well.
"""

import random
import statistics
from typing import Callable, Dict, Iterator, List, Optional

import auction_overhead
from auction_overhead import SCENARIOS
from auction_prediction import EXECUTIONS, Foretold, foretold, table
from auction_site import Site, Visitor, need_modules
from figure import Bar, Figure
from processes import Trouble
from servers import Playground

ERROR = Bar(5.0)
POLICIES = ("paper", "lazy", "soft")
NO_LOSS = Bar(1.0)
# Applications with predicted sections, and the paper's error.
FORETOLD = {"web": 11.2, "mariadb": 5.7}
# The paper's section 4.3 sends the same request a thousand times, and a thousand times again. Pages that write are
# excluded: the thousandth bid for an item is different work from the first.
SAME = (
    "index.html",
    "picture1.svg",
    "categories.php",
    "categories.php?region=9",
    "regions.php",
    "category.php?category=4&page=0",
    "region.php?category=4&region=9&page=0",
    "item.php?item=77",
    "user.php?user=7",
    "bids.php?item=77",
    "login.php?next=put_bid&item=77",
    "sell_item.php?category=4&user=7",
    "search.php?words=brass",
)
PAPER = {"accesses": "1.050 observing, 0.953 placing", "volume": "1.025 observing, 0.740 placing"}


def overhead(playground: Playground, quick: bool, say: Callable[[str], None]) -> Iterator[Figure]:
    """The cost of collecting in CPU time (auction_overhead.py)."""
    bench = Auction(playground, say, quick)
    for scenario in SCENARIOS[: 1 if quick else None]:
        yield from auction_overhead.measure(bench.stock, bench.split, scenario, quick, say)


def prediction(playground: Playground, quick: bool, say: Callable[[str], None]) -> Iterator[Figure]:
    """The accuracy of predicted cycles."""
    yield from Auction(playground, say, quick).prediction(quick)


def scenarios(playground: Playground, quick: bool, say: Callable[[str], None]) -> Iterator[Figure]:
    """The paper's scenarios by policy."""
    bench = Auction(playground, say, quick)
    for scenario in SCENARIOS[: 1 if quick else None]:
        yield from bench.by_policy(scenario, 1 if quick else 6)


class Auction:
    """The measurements, on two sites."""

    def __init__(self, playground: Playground, say: Callable[[str], None], quick: bool):
        need_modules()
        self.playground, self.data = playground, 0.1 if quick else 1.0
        self.say, self.chance = say, random.Random(1)

    @property
    def stock(self) -> Site:
        """Stock servers; created on demand: predictions need none."""
        return Site.of(self.playground, "stock", "off", self.data, self.say)

    @property
    def split(self) -> Site:
        """Servers with placement's modules."""
        return Site.of(self.playground, "split", "collect", self.data, self.say)

    def errors(self, policy: str, quick: bool, visit: Callable[[bool], None]) -> Dict[str, List[Foretold]]:
        """The accuracy of predictions for each application's kinds under a policy, with this load."""
        trace, wanted = self.split.folder / f"trace-{policy}-{visit.__name__}.jsonl", _executions(quick)
        self.split.switch(True)
        with self.split.analyzed(policy, "--no-guard", "--trace", trace, "--interval", "100ms"):
            visit(quick)
        found = {application: foretold(trace, application, wanted) for application in FORETOLD}
        for application, kinds in found.items():
            if not kinds:
                raise Trouble(f"no kind of {application} was executed {2 * wanted} times\n  remedy: a longer or faster run")
            self.say(f"prediction: kinds of {application}\n{table(kinds)}")
        return found

    def same(self, quick: bool) -> None:
        """As in the paper: one client, each request repeatedly."""
        # A few more: sections in which a thread was preempted or moved have no cycles of their own.
        times = 2 * _executions(quick) * 5 // 4
        self.say(f"prediction: {len(SAME)} requests, each {times} times, traced")
        with Visitor(self.split) as visitor:
            for path in SAME:
                for _ in range(times):
                    visitor.get(path)

    def mixed(self, quick: bool) -> None:
        """Harder: a kind's requests differ, and two concurrent ones disturb each other. A closed loop: the machine is
        busy, and no request waits for long.
        """
        self.say("prediction: a bidding mix, traced")
        self.split.visit("--mix", "bidding", "--clients", 2, "--seconds", 4 if quick else 60)

    @staticmethod
    def in_percent(kinds: List[Foretold]) -> tuple:
        """The medians over kinds of the mean and the typical error; and the largest of all."""
        means, typical = [100 * abs(one.mean) for one in kinds], [100 * one.typical for one in kinds]
        return statistics.median(means), statistics.median(typical), max(100 * one.largest for one in kinds)

    def prediction(self, quick: bool) -> List[Figure]:
        """Equation (2): the expectation of equation (1) compared with the measurement, for each kind with enough
        executions.
        """
        same, mixed = (self.errors("observe", quick, visit).items() for visit in (self.same, self.mixed))
        return [
            *(figure for application, kinds in same for figure in _errors(application, kinds, ERROR)),
            *(figure for application, kinds in mixed for figure in _errors(application, kinds, None, ", mix")),
        ]

    def by_policy(self, scenario: str, blocks: int) -> List[Figure]:
        """Response and CPU time of a scenario under each policy relative to stock servers; Hardmeter's best policy
        relative to the paper's.
        """
        legs = self.legs(scenario, blocks)
        ratios = {
            name: {way: [mine[name] / stock[name] for mine, stock in pairs] for way, pairs in legs.items()} for name in ("seconds", "cpu")
        }
        figures = []
        for way in legs:
            for name, words in (("seconds", "response time"), ("cpu", "CPU time")):
                what = f"{scenario}, policy {way}, over stock servers; the paper's own: {PAPER[scenario]}"
                figures.append(Figure.of_blocks(f"{scenario}, {way}: {words}", ratios[name][way], "x", what))
        times = ratios["seconds"]
        best = min(("observe", "lazy", "soft"), key=lambda way: statistics.median(times[way]))
        against = [mine / theirs for mine, theirs in zip(times[best], times["paper"])]
        what = f"response time under {best}, the best of SPLiT's, relative to the paper's policy"
        return figures + [Figure.of_blocks(f"{scenario}, {best} / paper", against, "x", what, NO_LOSS)]

    def legs(self, scenario: str, blocks: int) -> Dict[str, List[tuple]]:
        """Pairs of runs of a scenario, under the policy and on stock servers: seconds until the last answer, and CPU
        time per request in us. A policy is always active here: its guard, which would end losses, is off.
        """
        found: Dict[str, List[tuple]] = {}
        self.split.switch(True)
        for way in ("observe", *self.chance.sample(POLICIES, len(POLICIES))):
            with self.split.analyzed(way, "--no-guard"):
                self.say(f"{scenario} by policy: {way}")
                for seed in (1, 2):  # the analyzer learns the kinds, and decides
                    self._leg(self.split, scenario, seed)
                self._leg(self.stock, scenario, 1)
                found[way] = [self._pair(scenario, block) for block in range(blocks)]
        return found

    def _pair(self, scenario: str, block: int) -> tuple:
        sites = [self.split, self.stock]
        order = sites if block % 2 == 0 else sites[::-1]
        legs = {site: self._leg(site, scenario, block + 3) for site in order}
        return legs[self.split], legs[self.stock]

    @staticmethod
    def share(scenario: str) -> float:
        """The share of the paper's clients in a leg, which takes a few seconds."""
        return {"accesses": 0.05, "volume": 0.04}[scenario]

    def _leg(self, site: Site, scenario: str, seed: int) -> dict:
        result = site.visit("--scenario", scenario, "--scale", self.share(scenario), "--seed", seed)
        if result["errors"]:
            raise Trouble(f"{result['errors']} requests of scenario {scenario} went wrong: {result['faults']}")
        return {"seconds": result["seconds"], "cpu": result["cpu"]["servers_us_per_request"]}


def _executions(quick: bool) -> int:
    """Number of executions to learn from, and to predict."""
    return 30 if quick else EXECUTIONS


def _errors(application: str, kinds: List[Foretold], bar: Optional[Bar], visits: str = "") -> List[Figure]:
    """An application's errors, by kind."""
    name = f"prediction, {application}{visits}"
    what = f"equation (2) over executions after the first {EXECUTIONS}, by kind; the paper: {FORETOLD[application]} %"
    columns = {
        "mean error": ("mean", what, bar),
        "error of the sum": ("total", "all that was foretold over all that came, by kind", None),
        "typical error": ("typical", "of a single execution, by kind", None),
        "largest error": ("largest", "of a single execution, by kind", None),
    }
    return [
        Figure.of_blocks(f"{name}: {words}", [100 * abs(getattr(kind, field)) for kind in kinds], "%", about, of)
        for words, (field, about, of) in columns.items()
    ]
