"""OO1's insert: 100 parts and 300 connections, committed; to an append of as many bytes as were logged, and fdatasync.

The append follows each commit on the same disk, so that the disk's state affects both.
"""

from typing import Callable, List

import oo1
from figure import Bar, Figure
from servers import Playground

RIVALS = ["lmdb", "sqlite", "pmemobj"]


def measure(playground: Playground, quick: bool, say: Callable[[str], None]) -> List[Figure]:
    """The median commit of a run, relative to the append."""
    rounds, units = (2, 5) if quick else (10, 20)
    figures = []
    for mode in [oo1.PLUGIN, *RIVALS]:
        say(f"insert, {mode}: {rounds} rounds")
        words = ["--measure", "insert", "--page-cache", "hot", "--rounds", rounds, "--units", units]
        try:
            blocks = oo1.compare(playground, [mode], *words).rounds(mode, "commit/raw")
        except oo1.Trouble:
            if mode == oo1.PLUGIN:
                raise
            say(f"{mode} is not here, and no figure is of it")
            continue
        what = f"a commit of 100 parts and 300 connections by {mode}, to an append and fdatasync of as many bytes"
        bar = Bar(1.5) if mode == oo1.PLUGIN else None
        name = "plugin" if mode == oo1.PLUGIN else mode
        figures.append(Figure.of_blocks(f"insert: commit of {name} / raw append", blocks, "x", what, bar))
    return figures
