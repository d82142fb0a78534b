"""The first screen of a program in a pseudo terminal, as text."""

import fcntl
import os
import pty
import re
import select
import struct
import termios
import time
from collections.abc import Sequence

ROWS, COLUMNS = 30, 100
# A control sequence of a terminal, or a piece of text.
PIECE = re.compile(r"\x1b\[(?P<numbers>[0-9;?]*)(?P<letter>[A-Za-z])|\x1b[()][A-Z0-9]|\x1b[=>78]|(?P<text>[^\x1b]+)")


def draw(output: str, rows: int = ROWS, columns: int = COLUMNS) -> list[str]:
    """Returns the lines on a terminal of this size after it got `output`.

    Cursor positions, clearing and text are followed, colours are not: that is what full-screen programs write.
    """
    cells = [[" "] * columns for _ in range(rows)]
    row = column = 0
    for piece in PIECE.finditer(output):
        letter = piece["letter"]
        if letter == "H":
            numbers = [int(number or 1) for number in (piece["numbers"] or "1;1").split(";")]
            row, column = min(numbers[0], rows) - 1, min((numbers + [1])[1], columns) - 1
        elif letter == "J":
            cells = [[" "] * columns for _ in range(rows)]
        elif letter == "K":
            cells[row][column:] = [" "] * (columns - column)
        for character in piece["text"] or "":
            if character == "\r":
                column = 0
            elif character == "\n":
                row = min(row + 1, rows - 1)
            elif column < columns:
                cells[row][column] = character
                column += 1
    lines = ["".join(line).rstrip() for line in cells]
    while lines and not lines[-1]:
        lines.pop()
    return lines


def first_screen(command: Sequence[object], awaited: str, seconds: float = 60.0) -> list[str]:
    """Runs the program until `awaited` is on its screen and nothing more comes for a second, then types q."""
    words = [str(word) for word in command]
    child, terminal = pty.fork()
    if child == 0:
        os.environ["TERM"] = "xterm-256color"
        try:
            os.execvp(words[0], words)
        finally:
            os._exit(127)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    output = b""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            if select.select([terminal], [], [], 1.0)[0]:
                output += os.read(terminal, 65536)
            elif any(awaited in line for line in draw(output.decode(errors="replace"))):
                break
        except OSError:  # the program has ended
            break
    screen = draw(output.decode(errors="replace"))
    try:
        os.write(terminal, b"q")
        while os.read(terminal, 65536):
            pass
    except OSError:
        pass
    os.close(terminal)
    os.waitpid(child, 0)
    return screen
