"""A store larger than memory: 2,000,000 parts, and a control group of 1/2.7 of the smaller store.

Nine traversals in ten begin at one of 60 parts; what they reach fits, but is scattered over nearly all pages of the store.
The limit is configured in both: P3L stays below it, offsets turn off the kernel's read-ahead, which is their best form here.
"""

from typing import Callable, List

import oo1
from figure import Figure
from servers import Playground

TIMES = 2.7


def measure(playground: Playground, quick: bool, say: Callable[[str], None]) -> List[Figure]:
    """The mean traversal, relative to that by offsets in a mapping."""
    parts, rounds, units = (200_000, 1, 40) if quick else (2_000_000, 6, 200)
    modes = [oo1.PLUGIN, "offset"]
    figures = []
    for locality, name in (("yes", "local"), ("no", "random")):
        conditions = ["--parts", parts, "--locality", locality, "--layout", "paper", "--protocol", "hot-set"]
        conditions += ["--page-cache", "dropped"]
        say(f"a store of {parts:,} parts in too little memory, locality {locality}: {rounds} rounds")
        sizes = oo1.compare(playground, modes, *conditions, "--rounds", 1, "--units", 1)
        limit = max(8, int(min(sizes.store_bytes(mode) for mode in modes) / TIMES / 1e6))
        cell = oo1.compare(playground, modes, *conditions, "--rounds", rounds, "--units", units, "--memory", limit)
        what = f"mean wall time of {units} traversals, 90 % of them of a hot set, in {limit} MB"
        ratio = cell.ratio(oo1.PLUGIN, ["offset"], "mixed")
        figures.append(ratio.figure(f"store 2.7x memory, {name}: plugin / offsets", what, 0.5))
    return figures
