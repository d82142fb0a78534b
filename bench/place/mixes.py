"""Gain and loss by placement on ten mixes of synthetic sections: CPU time per request and throughput, on compared
with off.

One server (`split-sections`) compares both within itself: stages of a second or two, placement on or off, each block ABBA. So both
have the same memory in the same sets of the cache, and what differs is who runs where. There are several servers per mix, so that
one favourable layout of memory does not decide. The analyzer runs beside and decides, as in production; its first seconds are not counted.

The gain of placement where each processor has a cache of its own (`gains`) can be measured only while that is so. In a virtual machine that
holds only at times: other guests work on the other threads of its cores, or the host puts both of its processors on one core. So stages are
short there, and between two of them all workers rest while the share of lost L2 lines is measured (place/sections/calm.h). A pair of stages is
calm if little went before, between, and after them; their own times have no part in that. The result of all pairs is printed as well.
"""

import contextlib
import json
import random
import signal
import statistics
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Callable, Dict, Iterator, List, Optional, Sequence

from figure import Bar, Figure, interleaved
from processes import Trouble, run
from servers import HARDMETER, REPOSITORY, Playground

SECTIONS = REPOSITORY / "build/place/sections/split-sections"
MIXES = "ACFHBDEKMN"
# Mixes with an expected gain: CPU time per request at least 20 % lower.
GAINS, GAIN = "KC", Bar(0.8)
# The sizes of mixes (1.2 MB, 4 MB) suit an L2 of this many kilobytes (place/sections/mixes.h): two kinds of 1.2 MB
# gain by placement if one fits into a cache and two do not. For a smaller one all sizes are scaled.
PROMISED_L2 = 2048
NO_LOSS = Bar(0.99, at_most=False)
# One line in eight, as in the probe's calibration (SPLIT_CALM_SHARE).
CALM = 0.125


def gains(playground: Playground, quick: bool, say: Callable[[str], None]) -> Iterator[Figure]:
    """CPU time of K and C under soft; with a smaller L2 also with the original sizes, without bars."""
    bench = Mixes(playground, say)
    for mix in GAINS:
        yield from bench.in_calm(mix, "soft", Watch(1, 1, 40, fewest_calm=1) if quick else Watch(6, 12, 370))
        if bench.l2 != PROMISED_L2:
            yield from bench.compared(mix, "soft", _plain(quick), l2=PROMISED_L2)


def guarded(playground: Playground, quick: bool, say: Callable[[str], None]) -> Iterator[Figure]:
    """Throughput of all ten under soft and its guard."""
    # The guard decides by epochs of up to a second, mostly before the first measured stage. Stages are short: on a
    # shared machine a ratio of four stages varies by a tenth, whether they last half a second or four.
    plan = Plan(1, 1, 0.5, learning=3, guard=True) if quick else Plan(2, 10, 1, learning=30, guard=True)
    bench = Mixes(playground, say)
    for mix in MIXES:
        yield from bench.compared(mix, "soft", plan, throughput_bar=NO_LOSS)


def policies(playground: Playground, quick: bool, say: Callable[[str], None]) -> Iterator[Figure]:
    """The policies lazy and paper on C and E."""
    bench = Mixes(playground, say)
    for policy in ("lazy", "paper"):
        for mix in "CE":
            yield from bench.compared(mix, policy, _plain(quick))


def _l2_kilobytes() -> int:
    """This machine's L2 from the kernel, at most PROMISED_L2, which is also the default."""
    for index in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*"):
        if (index / "level").read_text().strip() == "2":
            return min(PROMISED_L2, int((index / "size").read_text().strip().rstrip("K")))
    return PROMISED_L2


def _for_cache(l2: int) -> List:
    """The sizes of mixes, and for other sizes the balanced shares."""
    return [] if l2 == PROMISED_L2 else ["--l2", l2, "--balance"]


def _plain(quick: bool) -> "Plan":
    return Plan(1, 1, 0.3, learning=3) if quick else Plan(3, 4, 1, learning=12)


@dataclass(frozen=True)
class Plan:
    """Number of servers, and duration of a stage."""

    servers: int
    blocks: int
    seconds: float
    learning: float  # the analyzer's learning time before
    guard: bool = False


@dataclass(frozen=True)
class Watch:
    """Pairs of short stages; only undisturbed pairs count, and more servers are started until there are enough. """

    servers: int  # that have them
    most_servers: int
    pairs: int  # of a server
    fewest_calm: int = 2  # minimum calm pairs for a server to count
    seconds: float = 0.04  # of a stage
    settle: float = 0.01
    learning: float = 14  # until there is a probe, and a plan that uses it


class Mixes:
    """Compares mixes with and without placement."""

    def __init__(self, playground: Playground, say: Callable[[str], None]):
        if not SECTIONS.exists():
            raise Trouble(f"there is no {SECTIONS}\n  remedy: make build-place")
        self.playground, self.say = playground, say
        self.chance = random.Random(1)
        self.l2 = _l2_kilobytes()

    def compared(
        self,
        mix: str,
        policy: str,
        plan: Plan,
        l2: Optional[int] = None,
        throughput_bar: Optional[Bar] = None,
    ) -> List[Figure]:
        """A mix under a policy, its sizes scaled to an L2 of this many kilobytes (this machine's), compared with
        itself without placement.
        """
        cpu, throughput, shares = [], [], []
        l2 = l2 or self.l2
        name = f"{self._named(mix, l2, policy)}{', guarded' if plan.guard else ''}"
        for server in range(plan.servers):
            self.say(f"mixes: {name}: server {server + 1} of {plan.servers}")
            for block in self._blocks(mix, l2, policy, plan, server):
                shares.append(_placed(block[True]))
                # If the guard allowed no placement, both sides were the same: their difference is noise.
                same = plan.guard and shares[-1] == 0
                cpu.append(1.0 if same else _ratio(block, _cpu))
                throughput.append(1.0 if same else _ratio(block, _rate))
        how = f"placed by {policy}{' and its guard' if plan.guard else ''}, to the default scheduler; mix {mix} for an L2 of {l2} KB"
        of = [
            Figure.of_blocks(f"{name}: CPU time", cpu, "x", f"workers' processor time for a request, {how}"),
            Figure.of_blocks(f"{name}: throughput", throughput, "x", f"requests a second, {how}", throughput_bar),
        ]
        if plan.guard:
            what = "requests that were placed, of those while the guard might place"
            of.append(Figure.of_blocks(f"{name}: placed", [100 * share for share in shares], "%", what))
        return of

    def in_calm(self, mix: str, policy: str, watch: Watch) -> Iterator[Figure]:
        """A mix under a policy in calm periods, its sizes scaled to this machine's L2; and in all periods. A block is
        a server.
        """
        name = self._named(mix, self.l2, policy)
        servers: List[List[Dict[bool, list]]] = []
        calm: List[List[Dict[bool, list]]] = []
        while len(calm) < watch.servers and len(servers) < watch.most_servers:
            self.say(f"mixes: {name}: server {len(servers) + 1} of at most {watch.most_servers}; calm pairs: {list(map(len, calm))}")
            servers.append(self._pairs(mix, policy, watch, len(servers)))
            found = [pair for pair in servers[-1] if _calm(pair)]
            if len(found) >= watch.fewest_calm:
                calm.append(found)
        pairs = [pair for of_one in servers for pair in of_one]
        disturbed = 100 * (1 - sum(map(_calm, pairs)) / len(pairs))
        what = "pairs of stages before, between or after which strangers, or our other processor, displaced an eighth of L2 in 200 us"
        yield Figure(f"{name}: pairs disturbed", disturbed, "%", len(pairs), what)
        how = f"placed by {policy}, to the default scheduler; mix {mix} for an L2 of {self.l2} KB; medians of servers"
        for suffix, of_servers, bar in ((", disturbed too", servers, None), ("", calm, GAIN)):
            if not of_servers:
                raise Trouble(f"{name}: of {len(pairs)} pairs of stages too few were calm\n  remedy: a calmer machine, or a calmer hour")
            for measure, unit, value in (
                ("CPU time", "workers' processor time for a request", _cpu),
                ("throughput", "requests a second", _rate),
                ("p99 of the first kind", "99th percentile of its latency", lambda stage: stage["kinds"][0]["p99_us"]),
            ):
                blocks = [statistics.median(_ratio(pair, value) for pair in pairs) for pairs in of_servers]
                judged = bar if measure == "CPU time" else None
                yield Figure.of_blocks(f"{name}: {measure}{suffix}", blocks, "x", f"{unit}, {how}", judged)

    def _named(self, mix: str, l2: int, policy: str) -> str:
        sizes = f" at {l2} KB of L2" if l2 != PROMISED_L2 else "" if l2 == self.l2 else ", promised sizes"
        return f"{mix}{sizes}, {policy}"

    def _pairs(self, mix: str, policy: str, watch: Watch, server: int) -> List[Dict[bool, list]]:
        """A server's reported pairs: placement on and off, in either order."""
        warm = round(watch.learning / (watch.seconds + watch.settle))
        order = "".join(self.chance.choice(("10", "01")) for _ in range(watch.pairs))
        words = ["--stages", "1" * warm + order, "--seconds", watch.seconds, "--settle", watch.settle, "--watch"]
        stages = self._served(mix, self.l2, policy, False, [*words, "--seed", server + 1])[warm:]
        return [_by_placement(list(pair)) for pair in zip(stages[::2], stages[1::2])]

    def _served(self, mix: str, l2: int, policy: str, guard: bool, words: list) -> List[dict]:
        """The stages of a server with an analyzer."""
        with tempfile.TemporaryDirectory(prefix="split-mixes-", dir=self.playground.folder) as folder:
            with analyzer(Path(folder), policy, guard):
                words = [SECTIONS, "--mix", mix, *_for_cache(l2), *words, "--directory", folder, "--format", "json"]
                return json.loads(run(list(map(str, words))))["stages"]

    def _blocks(self, mix: str, l2: int, policy: str, plan: Plan, server: int) -> List[Dict[bool, list]]:
        warm = max(1, round(plan.learning / plan.seconds))
        order = [interleaved("10", self.chance) for _ in range(plan.blocks)]
        stages = "1" * warm + "".join(stage for block in order for stage in block)
        words = ["--stages", stages, "--seconds", plan.seconds, "--seed", server + 1]
        measured = iter(self._served(mix, l2, policy, plan.guard, words)[warm:])
        return [_by_placement([next(measured) for _ in block]) for block in order]


def _cpu(stage: dict) -> float:
    return stage["worker_cpu_us"]


def _rate(stage: dict) -> float:
    return stage["requests"] / stage["seconds"]


def _calm(pair: Dict[bool, list]) -> bool:
    return all(share <= CALM for stages in pair.values() for stage in stages for share in stage["displaced"].values())


def _by_placement(stages: list) -> Dict[bool, list]:
    by: Dict[bool, list] = {True: [], False: []}
    for stage in stages:
        by[stage["placing"]].append(stage)
    return by


def _placed(stages: list) -> float:
    """Which share of their requests was placed."""
    return sum(stage["placed"] for stage in stages) / max(1, sum(stage["at_home"] + stage["stolen"] for stage in stages))


def _ratio(block: Dict[bool, list], value: Callable[[dict], float]) -> float:
    """Placement on relative to off, each the mean of its stages."""
    on, off = (sum(map(value, block[placing])) / len(block[placing]) for placing in (True, False))
    if on == 0 or off == 0:
        raise Trouble("a stage without requests\n  remedy: a calmer machine")
    return on / off


@contextlib.contextmanager
def analyzer(folder: Path, policy: str, guard: bool, more: Sequence[str] = ()) -> Iterator["subprocess.Popen[bytes]"]:
    """The analyzer with its own folder, for the duration of the block, with more options."""
    words = [HARDMETER, "--quiet", "split", "analyze", "--directory", folder, "--policy", policy, *more]
    log = folder / "analyzer.log"
    with open(log, "w", encoding="utf-8") as output:
        process = subprocess.Popen(
            [*map(str, words), *([] if guard else ["--no-guard"])],
            stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True,
        )
        try:
            yield process
            if process.poll() not in (None, -signal.SIGKILL):
                raise Trouble(f"the analyzer ended by itself:\n{log.read_text().strip()[-2000:]}")
        finally:
            process.terminate()
            try:
                process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
