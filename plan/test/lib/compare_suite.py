#!/usr/bin/env python3
"""Compares what two runs of PostgreSQL's regression suite printed, except plans and the order of rows without ORDER BY.

    compare_suite.py --mode MODE --accepted FILE EXPECTED_FOLDER GOT_FOLDER

What psql echoes and prints is cut into statements with their output. Output of statements that print plans (EXPLAIN, or a
function with `explain` in its name) is not compared; rows are sorted where neither the statement nor anything in it has an
ORDER BY. The accepted file has lines

    MODE TEST REGULAR-EXPRESSION-OF-THE-STATEMENT: REASON

and one that accepts nothing any more is itself a failure.
"""

import argparse
import difflib
import re
import sys
from pathlib import Path

_RULE = re.compile(r"^-{2,}[-+]+$")  # of a column of width 1: three
_COUNT = re.compile(r"^\(\d+ rows?\)$")


def blocks(text: str) -> list:
    """Returns (statement, output) pairs: all text before a result table belongs to its statement."""
    found, statement, lines = [], [], text.split("\n")
    number = 0
    while number < len(lines):
        is_table = number + 1 < len(lines) and _RULE.match(lines[number + 1]) and lines[number].startswith(" ")
        is_empty_table = number + 1 < len(lines) and lines[number] == "--" and _COUNT.match(lines[number + 1])
        if is_table or is_empty_table:
            end = number + 1
            while end < len(lines) - 1 and lines[end] and not _COUNT.match(lines[end]):  # \d has no count
                end += 1
            found.append(("\n".join(statement), lines[number:end + 1]))
            statement = []
            number = end + 1
        elif lines[number].startswith(("ERROR:", "NOTICE:", "WARNING:", "INFO:")):
            found.append(("\n".join(statement), [lines[number]]))
            statement = []
            number += 1
        else:
            statement.append(lines[number])
            number += 1
    found.append(("\n".join(statement), []))
    return found


def last_statement(text: str) -> str:
    """Returns the statement that gave the output, from all the text before it."""
    lines = [line for line in text.split("\n") if not line.strip().startswith("--")]
    parts = [part for part in re.split(r";[ \t]*(?:--.*)?(?:\n|$)", "\n".join(lines)) if part.strip()]
    return parts[-1].strip() if parts else text.strip()


def judged(statement: str, output: list) -> list:
    if re.search(r"explain", statement, re.IGNORECASE) or (output and "QUERY PLAN" in output[0]):
        return ["<plan>"]
    if len(output) > 3 and not re.search(r"order\s+by", statement, re.IGNORECASE):
        return output[:2] + sorted(output[2:-1]) + output[-1:]
    return output


def differences(expected: str, got: str):
    """Yields (statement, expected output, output) where they differ. Statements are the lines that both files have in
    common; the first place where even those differ (an error's context, rows instead of an error) ends the
    comparison of a file.
    """
    for (text, before), (other_text, after) in zip(blocks(expected), blocks(got)):
        statement = last_statement(text)
        if text != other_text:
            yield statement, text.split("\n"), other_text.split("\n")
            return
        if judged(statement, before) != judged(statement, after):
            yield statement, before, after
    if len(blocks(expected)) != len(blocks(got)):
        yield "(end)", [], []


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--mode", required=True)
    parser.add_argument("--accepted", required=True)
    parser.add_argument("expected", type=Path)
    parser.add_argument("got", type=Path)
    arguments = parser.parse_args()

    accepted, used = [], set()
    for line in Path(arguments.accepted).read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            mode, test, rest = line.split(None, 2)
            pattern, reason = rest.split(": ", 1)
            accepted.append((mode, test, re.compile(pattern), reason))
    tests, equal, judged_equal, failures = sorted(arguments.expected.glob("*.out")), 0, 0, 0
    for path in tests:
        other = arguments.got / path.name
        expected = path.read_text(errors="replace")
        if not other.exists():
            print(f"{arguments.mode}: {path.stem} did not run")
            failures += 1
            continue
        got = other.read_text(errors="replace")
        if expected == got:
            equal += 1
            continue
        bad = 0
        for statement, before, after in differences(expected, got):
            rule = next((number for number, (mode, test, pattern, _) in enumerate(accepted) if mode in (arguments.mode, "*")
                         and test == path.stem and pattern.search(" ".join(statement.split()))), None)
            if rule is not None:
                used.add(rule)
                continue
            bad += 1
            if bad <= 8:
                print(f"{arguments.mode}: {path.stem}: {' '.join(statement.split())[:400]}")
                changed = [line for line in difflib.unified_diff(before, after, lineterm="", n=1) if line[:2] not in ("--", "++")]
                print("\n".join(f"    {line[:150]}" for line in changed[:16]))
        failures += bad
        judged_equal += not bad
    for number, (mode, test, pattern, _) in enumerate(accepted):
        if number not in used and mode == arguments.mode:
            print(f"{mode}: {test}: the accepted difference {pattern.pattern!r} is gone: take it from regression-accepted")
            failures += 1
    print(f"regression suite, {arguments.mode}: {len(tests)} tests, {equal} print the same, {judged_equal} the same but for "
          f"plans and unasked order, {failures} differences that fail, {len(used)} accepted")
    return 1 if failures or not tests else 0


if __name__ == "__main__":
    sys.exit(main())
