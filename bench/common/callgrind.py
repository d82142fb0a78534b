"""Reads callgrind's results."""

import re
from pathlib import Path
from typing import Optional


def total(file: Path) -> Optional[int]:
    """The instruction count in a file of callgrind; None if it collected nothing."""
    found = re.search(r"^(?:summary|totals): (\d+)", file.read_text(errors="replace"), re.MULTILINE)
    return int(found[1]) if found and int(found[1]) else None
