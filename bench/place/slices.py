"""The gain by policy `time` on a real PostgreSQL: look-ups at fixed times, and aggregates that use all processors.

Three arms in turns, blocks of some seconds in random order: stock, policy `time` by the analyzer (no rule written, no guard), and
classes set by hand. A figure is the median over rounds of an arm's block to the stock block of the same round.

The aggregates use all processors. If the server got less than CALM of all processors' time, other programs or guests
ran and affected its latencies. So a round counts only if both blocks were calm. The latencies do not enter this choice.
"""

import contextlib
import os
import random
import statistics
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Callable, Dict, Iterator, List, Optional, Tuple

import evidence
from figure import Bar, Figure
from mixes import analyzer
from processes import Trouble
from servers import REPOSITORY, SETTINGS, Playground, Server
from slices_arms import Arms, Group, NiceServer
from slices_load import Block, Load

Say = Callable[[str], None]
ARMS = ("stock", "time", "by hand")
METRICS = ("mean", "p95", "p99", "aggregates")
BARS = {"mean": Bar(0.5), "p95": Bar(0.15), "p99": Bar(0.5), "aggregates": Bar(0.97, at_most=False)}
SCALE = 10
SERVERS: Dict[Path, NiceServer] = {}  # by the playground's folder
CALM = 0.85
SETTLE = 1.0  # the switch of an arm is in force within 0.2 s; aggregates under way end


@dataclass(frozen=True)
class Case:
    """A load, and the placement of the server and its clients."""

    name: str
    rate: int = 300
    parallel: bool = False
    own_group: bool = True  # otherwise each backend may be a scheduling group (autogroup)
    elsewhere: bool = True  # clients run before all else, as other machines do


SERIAL = Case("300/s, serial")
FAST = Case("1000/s, serial", rate=1000)
PARALLEL = Case("300/s, parallel", parallel=True)
FAST_PARALLEL = Case("1000/s, parallel", rate=1000, parallel=True)
SESSIONS = Case("300/s, serial, sessions are groups", own_group=False)
BESIDE = Case("300/s, serial, clients beside", elsewhere=False)


def of(case: Case) -> Callable[[Playground, bool, Say], Iterator[Figure]]:
    """The part of the bench that measures a case."""
    return lambda playground, quick, say: measure(case, playground, quick, say)


def measure(case: Case, playground: Playground, quick: bool, say: Say) -> Iterator[Figure]:
    """Both arms relative to stock, by metric, and the values of stock."""
    if not case.own_group and not _autogroups():
        raise Trouble("this kernel makes no group of a session\n  remedy: sysctl kernel.sched_autogroup_enabled=1")
    rounds, seconds = (1, 1.0) if quick else (9, 4.0)
    blocks: Dict[str, List[Block]] = {arm: [] for arm in ARMS}
    with serving(case, playground) as (server, segments):
        with analyzer(segments, "time", guard=False):
            with Load(server, playground.folder, case.rate, case.parallel, case.elsewhere).running() as load:
                with Arms(server, load).watching(case.parallel) as arms:
                    arms.switch("time")
                    time.sleep(3 if quick else 8)  # the analyzer learns the kinds of statements
                    _trial(case, arms, load, rounds, seconds, blocks, say)
    yield from figures(case, blocks, 0.0 if quick else CALM)


def _trial(case: Case, arms: Arms, load: Load, rounds: int, seconds: float, blocks: Dict[str, List[Block]], say: Say) -> None:
    """Runs the rounds of a trial. After an early decision another trial follows, so that there is an interval."""
    directions = {"aggregates": "more"}
    metrics = [{"name": one, "direction": directions.get(one, "less"), "minimum_effect": 0.05} for one in METRICS]
    while (done := min(map(len, blocks.values()))) < rounds:
        seed = random.getrandbits(32)
        trial = evidence.Trial(metrics, contestants=len(ARMS), seed=seed, design="pairs", most_rounds=rounds - done)
        for contestant in trial:
            arm = ARMS[contestant]
            arms.switch(arm)
            time.sleep(SETTLE)
            block = load.block(seconds)
            blocks[arm].append(block)
            trial.observe(contestant, block.values())
            shown = ", ".join(f"{name} {value:.0f}" for name, value in zip(METRICS, block.values()))
            say(f"{case.name}: round {len(blocks[arm])} of {rounds}, {arm}: {shown}; had {100 * block.had:.0f} %")


def figures(
    case: Case, blocks: Dict[str, List[Block]], calm: float, bars: Optional[Dict[str, Bar]] = None
) -> Iterator[Figure]:
    """The figures of all arms, over all blocks and over calm ones."""
    everything = [block for of_arm in blocks.values() for block in of_arm]
    disturbed = sum(block.had < calm for block in everything)
    what = f"blocks in which the server had less than {100 * calm:.0f} % of all processors' time"
    yield Figure(f"{case.name}: disturbed", 100 * disturbed / len(everything), "%", len(everything), what)
    yield from _compared(case.name, blocks, 0.0, ", disturbed too", {})
    yield from _compared(case.name, blocks, calm, "", BARS if bars is None else bars)


def _compared(name: str, blocks: Dict[str, List[Block]], calm: float, suffix: str, bars: Dict[str, Bar]) -> Iterator[Figure]:
    """Blocks in which the server had enough time; the other arms' values relative to stock in the same round."""
    stock = [block for block in blocks["stock"] if block.had >= calm]
    if not stock:
        raise Trouble(f"{name}: no block was calm\n  remedy: a calmer machine, or a calmer hour")
    count = sum(len(block.latencies) for block in stock)
    for index, (metric, unit) in enumerate(zip(METRICS, ("us", "us", "us", "1/s"))):
        value = statistics.median(block.values()[index] for block in stock)
        what = f"stock; {count} look-ups, from the intended start" if unit == "us" else "stock"
        yield Figure(f"{name}: {metric}, stock{suffix}", value, unit, len(stock), what)
    for arm in [arm for arm in blocks if arm != "stock"]:
        pairs = [(one, by) for one, by in zip(blocks[arm], blocks["stock"]) if min(one.had, by.had) >= calm]
        if not pairs:
            raise Trouble(f"{name}: no round of {arm} was calm\n  remedy: a calmer machine, or a calmer hour")
        for index, metric in enumerate(METRICS):
            ratios = [one.values()[index] / by.values()[index] for one, by in pairs]
            bar = bars.get(metric) if arm == "time" else None
            yield Figure.of_blocks(f"{name}: {metric}, {arm}{suffix}", ratios, "x", f"{arm} to stock, by round", bar)


@contextlib.contextmanager
def serving(case: Case, playground: Playground) -> Iterator[Tuple[Server, Path]]:
    """The server with the module, and the folder of its segments; all cases share it."""
    segments = playground.folder / "split"
    segments.mkdir(exist_ok=True)
    segments.chmod(0o777)
    if playground.folder not in SERVERS:
        made = SERVERS[playground.folder] = NiceServer("native", playground.folder, SCALE, {**SETTINGS, **_settings(segments)})
        playground.adopt(made)
        made.make()
    server = SERVERS[playground.folder]
    with contextlib.ExitStack() as stack:
        # The group can be removed only when the server has ended, because then it is empty.
        group = stack.enter_context(Group(f"hardmeter-bench-{os.getpid()}")) if case.own_group else None
        stack.enter_context(server.running())
        if group:
            group.take(server.processes())
        yield server, segments


def module() -> Path:
    """The module for the newest PostgreSQL for which it was built."""
    modules = sorted((REPOSITORY / "build/place/postgres").glob("*/split.so"), key=lambda one: int(one.parent.name))
    if not modules:
        raise Trouble("there is no module for PostgreSQL in build/place\n  remedy: make build-place")
    return modules[-1]


def _settings(segments: Path) -> Dict[str, str]:
    return {"shared_preload_libraries": str(module()), "split.directory": str(segments), "shared_buffers": "512MB"}


def _autogroups() -> bool:
    with contextlib.suppress(OSError), open("/proc/sys/kernel/sched_autogroup_enabled", encoding="ascii") as file:
        return file.read().strip() == "1"
    return False
