#!/usr/bin/env python3
"""Records what an AArch64 program does, step by step, for tests/stall_arm64.rs.

    record.py walk                                       compiles walk.c; writes walk.hex and steps.txt beside it
    record.py steps OUTPUT [--steps N] [--skip N] [--root DIR] -- PROGRAM [ARGUMENT...]

qemu-aarch64-static executes single instructions and prints the registers before each; binutils disassembles the
program. The address that a load loads from is computed here, from binutils' text and the registers before it: nothing
of Hardmeter is used. Needs qemu-user-static, and for `walk` gcc-aarch64-linux-gnu. A program with an interpreter is
refused: link it statically.

A file of steps has lines of these forms:

    map START LENGTH OFFSET PATH        a mapping of code, in hexadecimal
    PC TRUTH [REGISTER=VALUE...]        registers that differ from those of the line before; 31 is the stack pointer
                                        TRUTH: the address that the instruction at PC loads from, "-" if it is no load,
                                        "?" if the address is not one
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).parent
QEMU = os.environ.get("QEMU_AARCH64") or shutil.which("qemu-aarch64-static") or "qemu-aarch64-static"
TOOLS = "aarch64-linux-gnu-"
LINE = re.compile(r"^ *([0-9a-f]+):\t([0-9a-f]{8}) *\t(.*)$")
VALUE = re.compile(r"(X\d\d|SP|PC)=([0-9a-f]{16})")
LOADS = ("ld", "cas", "swp")
LOW, ALL = (1 << 32) - 1, (1 << 64) - 1


def mappings(program: Path) -> list[tuple[int, int, int]]:
    """Start, length and file offset of the executable segments."""
    text = subprocess.run([TOOLS + "readelf", "-lW", program], check=True, capture_output=True, text=True).stdout
    if "INTERP" in text:
        sys.exit(f"{program} has an interpreter: link it statically")
    found = []
    for line in text.splitlines():
        fields = line.split()
        if fields[:1] == ["LOAD"] and "E" in fields[6:-1]:
            offset, start, size = int(fields[1], 16), int(fields[2], 16), int(fields[5], 16)
            slack = offset % 4096
            found.append((start - slack, (size + slack + 4095) // 4096 * 4096, offset - slack))
    return found


def listing(program: Path) -> dict[int, str]:
    """The text of each instruction by its address."""
    command = [TOOLS + "objdump", "-d", "-z", "-M", "no-aliases", program]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    lines = (LINE.match(line) for line in text.splitlines())
    return {int(line[1], 16): line[3] for line in lines if line}


def signed(value: int) -> int:
    return (value & LOW) - (1 << 32 if value & 1 << 31 else 0)


def truth(text: str, registers: list[int]) -> str:
    """The address that an instruction loads from."""
    mnemonic, _, operands = text.split("//")[0].partition("\t")
    if not mnemonic.startswith(LOADS):
        return "-"
    place = re.search(r"\[([^\]]*)\]", re.sub(r"\}\[\d+\]", "}", operands))
    if place is None:
        return f"{int(operands.split(',')[1].split()[0], 16):x}"
    parts = [part.strip() for part in place[1].split(",")]
    if "z" in operands.split(",")[0] or mnemonic.startswith("ldra"):
        return "?"

    def value(name: str) -> int:
        if name in ("xzr", "wzr"):
            return 0
        return registers[31 if name == "sp" else int(name[1:])]

    address = value(parts[0])
    if len(parts) > 1 and parts[1].startswith("#"):
        address += int(parts[1][1:], 0)
    elif len(parts) > 1:
        how, _, shift = (parts[2] if len(parts) > 2 else "lsl #0").partition(" #")
        index = value(parts[1])
        index = {"uxtw": index & LOW, "sxtw": signed(index)}.get(how, index)
        address += index << int(shift or 0)
    return f"{address & ALL:x}"


def trace(command: list[str], root: str | None) -> Iterator[list[int]]:
    """Registers before each instruction: x0 to x30, the stack pointer, the program counter."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "log")
        os.mkfifo(log)
        qemu = [QEMU, *(["-L", root] if root else []), "-singlestep", "-d", "cpu,nochain", "-D", str(log), *command]
        # Without an environment, which lies on the stack, the stack pointer is the same in each run.
        program = subprocess.Popen(qemu, stdout=subprocess.DEVNULL, env={})
        registers = [0] * 33
        with open(log, encoding="utf-8") as lines:
            try:
                for line in lines:
                    for name, value in VALUE.findall(line):
                        at = {"SP": 31, "PC": 32}.get(name)
                        registers[int(name[1:]) if at is None else at] = int(value, 16)
                    if line.startswith("PSTATE"):
                        yield registers
            finally:
                program.kill()
                program.wait()


def record(output: Path, program: Path, arguments: list[str], name: str, steps: int, skip: int, root: str | None) -> None:
    texts = listing(program)
    written: list[int] = [0] * 32
    with open(output, "w", encoding="ascii") as out:
        out.write(f"# Written by tests/arm64/record.py: {name} under qemu-aarch64, with the addresses that it loads from.\n")
        for start, length, offset in mappings(program):
            out.write(f"map {start:x} {length:x} {offset:x} {name}\n")
        for number, registers in enumerate(trace([str(program), *arguments], root)):
            if number < skip:
                continue
            if number >= skip + steps:
                break
            pc = registers[32]
            changed = (f" {at}={registers[at]:x}" for at in range(32) if registers[at] != written[at])
            out.write(f"{pc:x} {truth(texts.get(pc, '.'), registers)}{''.join(changed)}\n")
            written = registers[:32]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("walk")
    of_program = commands.add_parser("steps")
    of_program.add_argument("output", type=Path)
    of_program.add_argument("--steps", type=int, default=200_000)
    of_program.add_argument("--skip", type=int, default=0)
    of_program.add_argument("--root")
    of_program.add_argument("program", type=Path)
    of_program.add_argument("arguments", nargs="*")
    options = parser.parse_args()
    if options.command == "steps":
        name = str(options.program.resolve())
        record(options.output, options.program, options.arguments, name, options.steps, options.skip, options.root)
        return
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder, "walk")
        flags = ["-O2", "-fno-tree-vectorize", "-fno-ipa-cp", "--param", "case-values-threshold=4"]
        flags += ["-fasynchronous-unwind-tables", "-static", "-nostdlib", "-s"]
        flags += ["-Wl,--build-id=none", "-Wl,-z,max-page-size=4096", "-Wl,-z,noseparate-code"]
        subprocess.run([TOOLS + "gcc", *flags, "-o", program, HERE / "walk.c"], check=True)
        data = program.read_bytes()
        rows = (data[at : at + 48].hex() for at in range(0, len(data), 48))
        (HERE / "walk.hex").write_text("\n".join(rows) + "\n", encoding="ascii")
        record(HERE / "steps.txt", program, [], "walk", 1 << 20, 0, None)


if __name__ == "__main__":
    main()
