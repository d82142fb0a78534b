"""`p3l torture`: a writer killed by SIGKILL at random moments; an oracle knows what must be there afterwards."""

import os
import subprocess
from pathlib import Path
from typing import Callable, List

from figure import Bar, Figure
from processes import Trouble
from servers import REPOSITORY, Playground

P3L = Path(os.environ.get("P3L", REPOSITORY / "build/persist/tools/p3l"))


def measure(playground: Playground, quick: bool, say: Callable[[str], None]) -> List[Figure]:
    """How many kills lost something: the torture ends with the first."""
    kills = 200 if quick else 10_000
    if not P3L.exists():
        raise Trouble(f"there is no {P3L}\n  remedy: make build")
    say(f"killing a writer {kills:,} times")
    folder = playground.folder / "torture"
    folder.mkdir()
    done = subprocess.run([P3L, "torture", "--kills", str(kills), folder], capture_output=True, text=True, check=False)
    # 1 is the oracle's word; anything else is not about the store.
    if done.returncode not in (0, 1):
        raise Trouble(f"{P3L} torture: exit status {done.returncode}\n{done.stderr.strip()}")
    said = done.stdout.strip().splitlines()
    if done.returncode == 1 and not any(line.startswith("kill ") for line in said):
        raise Trouble(f"{P3L} torture could not go on\n{done.stderr.strip()}")
    what = f"kills after which something acknowledged was not there, or something half: {'; '.join(said)}"
    return [Figure("torture: losses", done.returncode, "", kills, what, Bar(0))]
