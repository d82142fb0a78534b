"""`p3l torture`: a writer killed by SIGKILL at random times; an oracle knows the expected contents afterwards."""

import os
import subprocess
from pathlib import Path
from typing import Callable, List, Tuple

from figure import Bar, Figure
from processes import Trouble
from servers import REPOSITORY, Playground

P3L = Path(os.environ.get("P3L", REPOSITORY / "build/persist/tools/p3l"))


def torture(folder: Path, kills: int, *options: str) -> Tuple[int, str]:
    """Its exit status, 0 or 1, and what it printed."""
    folder.mkdir()
    command = [str(P3L), "torture", "--kills", str(kills), *options, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    # 1 is the oracle's finding; other statuses are errors of the test.
    if done.returncode not in (0, 1):
        raise Trouble(f"{P3L} torture: exit status {done.returncode}\n{done.stderr.strip()}")
    said = done.stdout.strip().splitlines()
    if done.returncode == 1 and not any(line.startswith("kill ") for line in said):
        raise Trouble(f"{P3L} torture could not go on\n{done.stderr.strip()}")
    return done.returncode, "; ".join(said)


def measure(playground: Playground, quick: bool, say: Callable[[str], None]) -> List[Figure]:
    """Number of kills with a loss: the test ends at the first."""
    kills, readers = (30, 3) if quick else (10_000, 8)
    if not P3L.exists():
        raise Trouble(f"there is no {P3L}\n  remedy: make build")
    say(f"killing a writer {kills:,} times")
    lost, said = torture(playground.folder / "torture", kills)
    alone = Figure(
        "torture: losses",
        lost,
        "",
        kills,
        f"kills after which something acknowledged was not there, or something half: {said}",
        Bar(0),
    )
    say(f"the same beside {readers} readers, killed too, and backups")
    lost, said = torture(playground.folder / "torture-readers", kills, "--readers", str(readers))
    beside = Figure(
        "torture: losses beside readers",
        lost,
        "",
        kills,
        f"the same; or a reader or a backup saw something else than one committed version: {said}",
        Bar(0),
    )
    return [alone, beside]
