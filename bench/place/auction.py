"""The auction site (`hardmeter auction`): what collecting costs, how well cycles are predicted, and the paper's scenarios by policy.

Two sites run side by side, one stock, one with placement's modules, and are visited in turn (ABBA): a machine that drifts drifts
alike for both. Processor time per request is compared, of Apache, PHP, MariaDB and the analyzer: on a shared machine it is much less
noisy than response times, which are told beside.
"""

import contextlib
import json
import random
import signal
import statistics
import subprocess
import time
from collections import defaultdict
from pathlib import Path
from typing import Callable, Dict, Iterator, List, Optional

from figure import Bar, Figure, interleaved
from processes import Trouble, cpu_seconds, run
from servers import HARDMETER, REPOSITORY, Playground, undisturbed

MODULES = REPOSITORY / "build/placement"
SCENARIOS = ("accesses", "volume")
OVERHEAD, ERROR = Bar(0.5), Bar(5.0)
# Theta and w of equation (1), as libsplit has them by default (split.h).
THETA, WEIGHT = 100, 0.9
EXECUTIONS = 1000
POLICIES = ("paper", "lazy", "soft")
# Applications whose sections are predicted, and the paper's error.
PREDICTED = {"web": 11.2, "mariadb": 5.7}


def measure(playground: Playground, quick: bool, say: Callable[[str], None]) -> List[Figure]:
    """Overhead of collecting, prediction error, the scenarios by policy."""
    if not (MODULES / "apache/mod_split.so").exists():
        raise Trouble(f"there are no modules in {MODULES}\n  remedy: make build-placement")
    data = 0.1 if quick else 1.0
    bench = Auction(playground, say, data)
    figures = []
    for scenario in SCENARIOS:
        figures += bench.overhead(scenario, 1 if quick else 12)
    figures += bench.prediction(quick)
    for scenario in SCENARIOS:
        figures += bench.by_policy(scenario, 1 if quick else 6)
    return figures


class Site:
    """A site that stays until the playground is left."""

    def __init__(self, playground: Playground, name: str, split: str, data: float):
        self.folder = playground.folder / f"auction-{name}"
        playground.adopt(self)
        words = ["--dir", self.folder, "--split", split, "--split-build", MODULES, "--data", str(data), "--workers", "16"]
        run([HARDMETER, "--quiet", "auction", "start", *words])

    def visit(self, *words) -> dict:
        """One run; its result."""
        command = [HARDMETER, "--quiet", "auction", "--at", self.folder, "--format", "json", *map(str, words)]
        return json.loads(run(command))

    def remove(self) -> None:
        if (self.folder / "site.json").exists():
            run([HARDMETER, "--quiet", "auction", "stop", "--dir", self.folder])

    @contextlib.contextmanager
    def analyzed(self, policy: str, *words) -> Iterator[int]:
        """With an analyzer beside; its process id."""
        log = open(self.folder / "analyzer.log", "ab")  # pylint: disable=consider-using-with
        command = [HARDMETER, "split", "analyze", "--directory", self.folder / "split", "--policy", policy, *map(str, words)]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        try:
            yield process.pid
            if process.poll() is not None:
                raise Trouble(f"the analyzer ended: {(self.folder / 'analyzer.log').read_text()[-2000:]}")
        finally:
            with undisturbed():
                process.send_signal(signal.SIGINT)
                try:
                    process.wait(timeout=20)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
                log.close()


class Auction:
    """The measurements, on two sites."""

    def __init__(self, playground: Playground, say: Callable[[str], None], data: float):
        self.say, self.data, self.chance = say, data, random.Random(1)
        say("making two sites")
        self.stock = Site(playground, "stock", "off", data)
        self.split = Site(playground, "split", "collect", data)

    def words(self, scenario: str, seed: int) -> list:
        """A leg of some seconds."""
        return ["--scenario", scenario, "--scale", self.share(scenario), "--seed", seed]

    @staticmethod
    def share(scenario: str) -> float:
        """Which share of the paper's clients a leg has."""
        return {"accesses": 0.05, "volume": 0.04}[scenario]

    def overhead(self, scenario: str, blocks: int) -> List[Figure]:
        """Processor time per request of the collecting site over that of the stock one, in percent."""
        cost: List[float] = []
        slower: List[float] = []
        analyzer: List[float] = []
        sites = {"off": self.stock, "collect": self.split}
        with self.split.analyzed("observe") as process:
            for site in sites.values():  # fills caches; the analyzer finds its sets meanwhile
                site.visit(*self.words(scenario, 1))
            for block in range(blocks):
                self.say(f"overhead of collecting, {scenario}: block {block + 1} of {blocks}")
                cpu: Dict[str, List[float]] = defaultdict(list)
                took: Dict[str, List[float]] = defaultdict(list)
                for way in interleaved(list(sites), self.chance):
                    before = cpu_seconds(process)
                    result = sites[way].visit(*self.words(scenario, block + 2))
                    one = result["cpu"]["servers_us_per_request"]
                    if way == "collect":
                        # It works through the other site's turn as well, which has nothing for it.
                        own = 1e6 * (cpu_seconds(process) - before) / result["requests"]
                        analyzer.append(100 * own / one)
                        one += own
                    cpu[way].append(one)
                    took[way].append(result["seconds"])
                cost.append(_percent(cpu["collect"], cpu["off"]))
                slower.append(_percent(took["collect"], took["off"]))
        what = f"processor time of a request when collecting, over stock servers; scenario {scenario}, modules and analyzer"
        paper = {"accesses": 5.0, "volume": 2.5}[scenario]
        return [
            Figure.of_blocks(f"collecting, {scenario}: CPU time", cost, "% more", what, OVERHEAD),
            Figure.of_blocks(f"collecting, {scenario}: analyzer", analyzer, "%", "the analyzer's part of it"),
            Figure.of_blocks(
                f"collecting, {scenario}: response time", slower, "% more", f"until the last answer; the paper: {paper} %"
            ),
        ]

    def errors(self, policy: str, quick: bool) -> Dict[str, list]:
        """prediction_errors of each application, under a policy."""
        trace = self.split.folder / f"trace-{policy}.jsonl"
        with self.split.analyzed(policy, "--trace", trace, "--interval", "100ms"):
            self.say(f"prediction: a bidding mix, traced, policy {policy}")
            self.split.visit("--mix", "bidding", "--rate", 250, "--seconds", 10 if quick else 120)
        wanted = 100 if quick else EXECUTIONS
        found = {application: prediction_errors(trace, application, wanted) for application in PREDICTED}
        for application, errors in found.items():
            if not errors:
                raise Trouble(f"no kind of {application} was executed {2 * wanted} times\n  remedy: a longer or faster run")
        return found

    @staticmethod
    def in_percent(errors: list) -> tuple:
        """The medians of kinds: of the mean, of the typical error, and the largest of all."""
        means, typical, largest = ([100 * abs(one[place]) for one in errors] for place in range(3))
        return statistics.median(means), statistics.median(typical), max(largest)

    def prediction(self, quick: bool) -> List[Figure]:
        """Equation (2): what equation (1) expected beside what came, for each kind with executions enough."""
        figures = []
        for application, errors in self.errors("observe", quick).items():
            means, typical, largest = ([100 * abs(one[place]) for one in errors] for place in range(3))
            what = f"equation (2) after {EXECUTIONS} executions against the next, by kind; the paper: {PREDICTED[application]} %"
            figures += [
                Figure.of_blocks(f"prediction, {application}: mean error", means, "%", what, ERROR),
                Figure.of_blocks(f"prediction, {application}: typical error", typical, "%", "of a single execution, by kind"),
                Figure.of_blocks(f"prediction, {application}: largest error", largest, "%", "of a single execution, by kind"),
            ]
        return figures

    def by_policy(self, scenario: str, blocks: int) -> List[Figure]:
        """Response and processor time of a scenario under each policy, over stock servers."""
        cpu: Dict[str, List[float]] = {}
        took = self.responses(scenario, blocks, cpu)
        figures = []
        for way in ("observe", *POLICIES):
            for name, values in (("response time", took), ("CPU time", cpu)):
                ratios = [mine / stock for mine, stock in zip(values[way], values["off"])]
                what = f"{scenario}, policy {way}, over stock servers; the paper's own: " + PAPER[scenario]
                figures.append(Figure.of_blocks(f"{scenario}, {way}: {name}", ratios, "x", what))
        return figures

    def responses(self, scenario: str, blocks: int, cpu: Optional[Dict[str, List[float]]] = None) -> Dict[str, List[float]]:
        """Seconds until the last answer, of stock servers and under each policy; processor time per request into `cpu`."""
        ways = ["off", "observe", *POLICIES]
        took: Dict[str, List[float]] = {way: [] for way in ways}
        for block in range(blocks):
            for way in self.chance.sample(ways, len(ways)):
                self.say(f"{scenario} by policy: block {block + 1} of {blocks}: {way}")
                result = self._leg(scenario, way, block + 2)
                took[way].append(result["seconds"])
                if cpu is not None:
                    cpu.setdefault(way, []).append(result["cpu"]["servers_us_per_request"])
        return took

    def _leg(self, scenario: str, way: str, seed: int) -> dict:
        words = self.words(scenario, seed)
        if way == "off":
            return self.stock.visit(*words)
        with self.split.analyzed(way):
            # It learns the kinds, and decides, while they run as they will.
            self.split.visit(*self.words(scenario, 1))
            return self.split.visit(*words)


PAPER = {"accesses": "1.050 observing, 0.953 placing", "volume": "1.025 observing, 0.740 placing"}


def _percent(mine: List[float], theirs: List[float]) -> float:
    return 100 * (statistics.mean(mine) / statistics.mean(theirs) - 1)


def prediction_errors(trace: Path, application: str, wanted: int) -> list:
    """For each kind of an application with executions enough: the mean of (s - m) / m (equation 2), the median and the largest of
    its absolute values. s is what equation (1) expects before each execution, m the execution's own cycles."""
    applications: Dict[str, str] = {}
    cycles: Dict[str, list] = defaultdict(list)
    with open(trace, encoding="utf-8") as lines:
        for line in lines:
            one = json.loads(line)
            if isinstance(one, dict):
                if "kind" in one:
                    applications[one["kind"]] = one.get("application", "")
            elif one[4]:
                cycles[one[2]].append((one[0], one[4]))
    found = []
    for kind, executions in sorted(cycles.items()):
        if applications.get(kind) != application or len(executions) < 2 * wanted:
            continue
        expected, errors = 0.0, []
        for number, (_, own) in enumerate(sorted(executions)[: 2 * wanted]):
            if number >= wanted:
                errors.append((expected - own) / own)
            # Equation (1).
            expected = (expected * number + own) / (number + 1) if number < THETA else expected * WEIGHT + own * (1 - WEIGHT)
        absolute = [abs(error) for error in errors]
        found.append((statistics.mean(errors), statistics.median(absolute), max(absolute)))
    return found
