"""The accuracy of predicted cycles of a request: equation (1) of the paper before each execution, compared with the
execution.

  bench/place/auction_prediction.py TRACE [WANTED]     every kind of a trace (hardmeter split analyze --trace), the worst first

Equation (1) foretells a mean. Equation (2) averages (s - m) / m, in which short executions weigh more than long ones: where executions differ by a
share v of their mean it says about v^2 (40 %: 16 %) even of a mean that is foretold exactly. So what was foretold in sum is compared with what
came in sum, too: that is what shares of cores are made of.
"""

import json
import statistics
import sys
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Dict, List, Tuple

# Theta and w of equation (1): libsplit's defaults (split.h).
THETA, WEIGHT = 100, 0.9
# As in the paper, section 4.3: number of executions to learn from, and to predict.
EXECUTIONS = 1000


@dataclass
class Foretold:
    """A kind, with the errors of predictions for its second thousand of executions, relative to the measured cycles.
    """

    label: str
    executions: int
    cycles: float  # the median
    mean: float  # of (s - m) / m, equation (2)
    total: float  # sum of all predictions over the sum of measurements, minus one
    typical: float  # the median of its absolute value
    largest: float
    spread: float  # half the interquartile range of cycles, over their median


def foretold(trace: Path, application: str, wanted: int = EXECUTIONS) -> List[Foretold]:
    """The kinds of an application with executions enough, the worst first."""
    labels, cycles = read(trace, application)
    found = [
        _of_kind(labels[kind], [own for _, own in sorted(executions)], wanted)
        for kind, executions in cycles.items()
        if len(executions) >= 2 * wanted
    ]
    return sorted(found, key=lambda one: -abs(one.mean))


def read(trace: Path, application: str) -> Tuple[Dict[str, str], Dict[str, list]]:
    """An application's kinds by their text, and each one's (end time, own cycles), where known."""
    labels: Dict[str, str] = {}
    cycles: Dict[str, list] = defaultdict(list)
    with open(trace, encoding="utf-8") as lines:
        for line in lines:
            one = json.loads(line)
            if isinstance(one, dict):
                if one.get("application") == application:
                    labels[one["kind"]] = one["label"]
            elif one[4]:
                cycles[one[2]].append((one[0], one[4]))
    return labels, {kind: executions for kind, executions in cycles.items() if kind in labels}


def _of_kind(label: str, cycles: List[int], wanted: int) -> Foretold:
    expected, errors, foretold_cycles = 0.0, [], 0.0
    for number, own in enumerate(cycles[: 2 * wanted]):
        if number >= wanted:
            errors.append((expected - own) / own)
            foretold_cycles += expected
        # Equation (1).
        expected = (expected * number + own) / (number + 1) if number < THETA else expected * WEIGHT + own * (1 - WEIGHT)
    absolute = [abs(error) for error in errors]
    low, middle, high = statistics.quantiles(cycles, n=4)
    return Foretold(
        label, len(cycles), middle, statistics.mean(errors), foretold_cycles / sum(cycles[wanted : 2 * wanted]) - 1,
        statistics.median(absolute), max(absolute), (high - low) / 2 / middle,
    )  # fmt: skip


def table(found: List[Foretold]) -> str:
    """Kinds as lines of text."""
    rows = [f"  {'mean error':>10} {'total':>7} {'typical':>8} {'largest':>9} {'spread':>7} {'kcycles':>8} {'n':>7}  kind"]
    for one in found:
        percents = f"{100 * one.mean:9.1f}% {100 * one.total:6.2f}% {100 * one.typical:7.1f}% {100 * one.largest:8.0f}% {100 * one.spread:6.1f}%"
        rows.append(f"  {percents} {one.cycles / 1e3:8.0f} {one.executions:7d}  {_short(one.label)}")
    return "\n".join(rows)


def _short(label: str) -> str:
    """A page by its file's name, a statement by its beginning and end."""
    if label.startswith("/"):
        return Path(label).name
    return label if len(label) <= 100 else f"{label[:70]} ... {label[-25:]}"


if __name__ == "__main__":
    for name in ("web", "mariadb"):
        print(f"{name}:\n{table(foretold(Path(sys.argv[1]), name, int(sys.argv[2]) if len(sys.argv) > 2 else EXECUTIONS))}")
