"""Shared by every `bench/PART/run`: arguments, the table, the verdict, the exit status.

A part of the bench is a function of a playground, `quick` (few repetitions), and `say` (progress), that returns figures; or yields
them, so that what was measured is printed at once, and stays when what follows fails.
"""

import argparse
import os
import platform
import signal
import sys
import time
from pathlib import Path
from typing import Callable, Dict, Generator, Iterable, Optional, Sequence

import figure
from figure import Figure
from processes import Trouble
from servers import HARDMETER, Playground

# A quick run stops a part that yields its figures one by one after this time.
QUICK_SECONDS = 8.0
Part = Callable[[Playground, bool, Callable[[str], None]], Iterable[Figure]]
# Restricts what parts measure to cases whose names contain one of these words.
Choose = Callable[[Sequence[str]], None]


def run(name: str, documentation: str, parts: Dict[str, Part], choose: Optional[Choose] = None) -> int:
    """Measures what the command line asks for and prints it; returns the exit status. With `choose` there is `--case`."""
    try:
        return _measure(name, documentation, parts, choose)
    except KeyboardInterrupt:
        print("bench: interrupted; everything is cleared away", file=sys.stderr)
        return 130


def _measure(name: str, documentation: str, parts: Dict[str, Part], choose: Optional[Choose]) -> int:
    arguments = _parse(documentation, parts, choose is not None)
    if choose and arguments.case:
        choose(arguments.case)
    if arguments.list:
        print(figure.HEADING)
        for part in parts:
            print(f"# {part}")
        return 0
    if not os.access(HARDMETER, os.X_OK):
        print(f"bench: there is no {HARDMETER}\n  remedy: make build", file=sys.stderr)
        return 2
    # Handle SIGTERM and SIGHUP like Ctrl-C, so that running programs are cleaned up.
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:  # as nohup leaves it
            signal.signal(number, signal.default_int_handler)
    started, figures, broken = time.monotonic(), [], []

    def say(what: str) -> None:
        print(f"[{time.monotonic() - started:5.0f} s] {what}", file=sys.stderr, flush=True)

    if arguments.format == "text":
        print(describe(machine(), arguments.quick), flush=True)
        print(figure.HEADING, flush=True)
    with Playground() as playground:
        for part in arguments.only or parts:
            begun = time.monotonic()
            try:
                for one in (measured := iter(parts[part](playground, arguments.quick, say))):
                    figures.append(one)
                    if arguments.format == "text":
                        print(one.as_line(), flush=True)
                    if arguments.quick and time.monotonic() - begun > QUICK_SECONDS and isinstance(measured, Generator):
                        measured.close()
                        say(f"{part}: the rest is left out of a quick run")
                        break
            except (Trouble, OSError) as error:
                broken.append(part)
                print(f"bench: {part} could not be measured: {error}", file=sys.stderr)
    short = [one for one in figures if one.verdict == "short"]
    if arguments.results:
        Path(arguments.results).write_text(figure.as_lines(name, figures, machine(), arguments.quick), encoding="utf-8")
    if arguments.format == "json":
        print(figure.as_json(name, figures, machine(), arguments.quick, broken))
    else:
        barred = sum(one.bar is not None for one in figures)
        missing = f"; not measured: {', '.join(broken)}" if broken else ""
        print(f"{barred - len(short)} of {barred} bars held{missing}")
    return 2 if broken else 1 if short else 0


def _parse(documentation: str, parts: Dict[str, Part], cases: bool) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=documentation.splitlines()[0],
        epilog=documentation,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    quick = os.environ.get("QUICK", "") not in ("", "0")
    parser.add_argument(
        "--quick", action="store_true", default=quick, help="few repetitions, a small file: does it work? (or QUICK=1)"
    )
    parser.add_argument("--only", action="append", choices=parts, metavar="PART", help="only this part; several times")
    if cases:
        parser.add_argument("--case", action="append", metavar="WORDS", help="only cases whose name contains this; several times")
    parser.add_argument("--format", choices=("text", "json"), default="text", help="how to print")
    parser.add_argument("--results", metavar="FILE", help="also write each figure as a line of JSON")
    parser.add_argument("--list", action="store_true", help="print the table's heading and the parts, measure nothing")
    return parser.parse_args()


def machine() -> dict:
    """The machine of the measurements."""
    processor = "unknown processor"
    with open("/proc/cpuinfo", encoding="utf-8") as lines:
        for line in lines:
            if line.startswith("model name"):
                processor = line.split(":", 1)[1].strip()
                break
    return {
        "processor": processor,
        "processors": os.cpu_count(),
        "kernel": platform.release(),
        "load_average": os.getloadavg()[0],
    }


def in_words(found: dict) -> str:
    """The same as words for a heading."""
    return "{processors} x {processor}, kernel {kernel}".format(**found)


def describe(found: dict, quick: bool) -> str:
    line = f"on {in_words(found)}, load {found['load_average']:.1f}"
    return line + (": QUICK, too few repetitions to judge by" if quick else "")
