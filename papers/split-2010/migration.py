"""Runs split-migration (place/sections), or reads its saved output."""

import argparse
import json
import os
import pathlib
import subprocess
import sys

HOUSE = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(HOUSE / "bench/common"))

import driver  # noqa: E402

PROGRAM = HOUSE / "build/place/sections/split-migration"


def arguments(documentation, more=None):
    """The command line of table10 and figure5."""
    parser = argparse.ArgumentParser(
        description=documentation.split("\n")[0], epilog=documentation, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="seconds instead of minutes: does it work?")
    parser.add_argument("--result", type=pathlib.Path, help="what split-migration printed, instead of a run")
    parser.add_argument("--program", type=pathlib.Path, default=PROGRAM, help="split-migration")
    if more:
        more(parser)
    return parser.parse_args()


def measured(given):
    """The result as split-migration prints it in JSON."""
    if given.result:
        return json.loads(given.result.read_text())
    if not os.access(given.program, os.X_OK):
        fail(f"there is no {given.program}\n  remedy: make build-place")
    words = ["--calls", "20000", "--repeats", "100", "--rounds", "3", "--largest", "2048"] if given.quick else []
    done = subprocess.run([str(given.program), *words], capture_output=True, text=True)
    if done.returncode != 0:
        fail(done.stderr.strip())
    return json.loads(done.stdout)


def fail(message):
    print(f"{pathlib.Path(sys.argv[0]).name}: {message}", file=sys.stderr)
    sys.exit(1)


def on(result):
    """Which machine the figures are of, for the heading."""
    first, second = result["processors"]
    return f"{driver.in_words(driver.machine())}; processors {first} and {second}"
