"""Measures the auction site for tables 5, 7 and 8 with bench/place/auction.py and prints the paper's figures beside.
"""

import argparse
import pathlib
import signal
import statistics
import sys

HOUSE = pathlib.Path(__file__).resolve().parents[2]
for folder in ("bench/common", "bench/place"):
    sys.path.append(str(HOUSE / folder))

import auction  # noqa: E402
import driver  # noqa: E402
from processes import Trouble  # noqa: E402
from servers import Playground  # noqa: E402


def with_auction(documentation, work):
    """Parses the command line, makes the sites and measures them; returns the exit status."""
    parser = argparse.ArgumentParser(
        description=documentation.split("\n")[0], epilog=documentation, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a tenth of the data, few repetitions: does it work?")
    given = parser.parse_args()
    # SIGTERM is handled like Ctrl-C, so that the servers are stopped.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with Playground() as playground:
            work(auction.Auction(playground, _say, given.quick), given.quick)
    except (Trouble, OSError) as error:
        print(f"{pathlib.Path(sys.argv[0]).name}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def response_times(bench, quick, scenario):
    """Prints table 7 or 8: seconds until the last answer for stock, collecting, placing."""
    legs = bench.legs(scenario, 2 if quick else 6)
    theirs = THEIRS[scenario]
    rows = {way: [mine["seconds"] for mine, _ in pairs] for way, pairs in legs.items()}
    rows["off"] = [stock["seconds"] for pairs in legs.values() for _, stock in pairs]
    # Each run is divided by the stock run next to it: a machine that is slower for a minute is slower for both.
    ratios = {way: statistics.median(mine["seconds"] / stock["seconds"] for mine, stock in pairs) for way, pairs in legs.items()}
    print(f"{TITLES[scenario]}; {driver.in_words(driver.machine())}")
    print(f"  {'':<26} {'here, s':>9} {'least':>8} {'most':>8} {'n':>3} {'to stock':>9}   {'the paper, s':>12} {'to stock':>9}")
    for way, name in NAMES.items():
        times = rows[way]
        median = statistics.median(times)
        change = "-" if way == "off" else f"{100 * (ratios[way] - 1):+.1f} %"
        their = theirs.get(way)
        paper = "-" if way == "off" or their is None else f"{100 * (their / theirs['off'] - 1):+.1f} %"
        beside = "" if their is None else f"{their:12.3f} {paper:>9}"
        print(f"  {name:<26} {median:9.3f} {min(times):8.3f} {max(times):8.3f} {len(times):3d} {change:>9}   {beside}")
    print(f"  here {bench.share(scenario):g} of the paper's clients, over rows of scale {bench.data:g}")


TITLES = {
    "accesses": "Table 7: response time, many accesses (1,000 clients in the paper)",
    "volume": "Table 8: response time, much data (100 clients in the paper)",
}
NAMES = {
    "off": "stock servers",
    "observe": "collecting, not placing",
    "paper": "placing, the paper's policy",
    "lazy": "placing, lazy",
    "soft": "placing, soft",
}
THEIRS = {
    "accesses": {"off": 21.788, "observe": 22.888, "paper": 20.759},
    "volume": {"off": 152.426, "observe": 156.275, "paper": 112.738},
}


def _say(what):
    print(f"[{what}]", file=sys.stderr, flush=True)
