"""Admission on a real PostgreSQL: the load of `slices`, with a limited number of aggregates at once, alone and beside policy `time`.

Each block has an analyzer of its own, with the options of its arm; it learns the kinds of statements before the block begins.
"""

import contextlib
import random
import time
from typing import Callable, Dict, Iterator, List

from figure import Figure
from mixes import analyzer
from servers import Playground
from slices import CALM, METRICS, SERIAL, figures, serving
from slices_load import Block, Load

# By arm: the policy, and more options of `hardmeter split analyze`.
ARMS: Dict[str, List[str]] = {
    "stock": [],
    "admit": ["admit"],
    "admit 1": ["admit", "--admit", "1"],
    "time": ["time"],
    "time + admit": ["time", "--admit", "auto"],
}
LEARNING = 4.0


def measure(playground: Playground, quick: bool, say: Callable[[str], None]) -> Iterator[Figure]:
    """Each arm relative to stock, by metric, and the values of stock."""
    rounds, seconds = (1, 1.0) if quick else (5, 3.0)
    blocks: Dict[str, List[Block]] = {arm: [] for arm in ARMS}
    with serving(SERIAL, playground) as (server, segments):
        with Load(server, playground.folder, SERIAL.rate, SERIAL.parallel, SERIAL.elsewhere).running() as load:
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
    for one in figures(SERIAL, blocks, 0.0 if quick else CALM):
        one.name = one.name.replace(SERIAL.name, "admission")
        yield one
