"""Runs other programs, and ends with cause and remedy where one fails."""

import pathlib
import subprocess
import sys
import time
from collections.abc import Sequence


class Failure(Exception):
    """Something is missing or failed; `remedy` says what helps."""

    def __init__(self, cause: str, remedy: str = "") -> None:
        super().__init__(cause)
        self.remedy = remedy


def say(what: str) -> None:
    """Reports progress on standard error: standard output has the tables."""
    print(f"[{time.strftime('%H:%M:%S')}] {what}", file=sys.stderr, flush=True)


def run(
    command: Sequence[object],
    folder: pathlib.Path | None = None,
    environment: dict[str, str] | None = None,
    text: str | None = None,
    accepted: Sequence[int] = (0,),
) -> str:
    """Returns what the command printed on standard output.

    Raises Failure, with the end of what it printed on standard error, if its exit status is not an accepted one.
    """
    words = [str(word) for word in command]
    try:
        done = subprocess.run(
            words, cwd=folder, env=environment, input=text, capture_output=True, text=True, errors="replace", check=False
        )
    except OSError as error:
        raise Failure(f"cannot run {words[0]}: {error.strerror}", f"install {pathlib.Path(words[0]).name}") from error
    if done.returncode not in accepted:
        said = (done.stderr.strip() or done.stdout.strip())[-2000:]
        raise Failure(f"{' '.join(words[:6])} ... failed with status {done.returncode}:\n{said}")
    return done.stdout
