"""Tables 1, 3 and 4 and figure 2: latencies, the machine, the database, the window that chooses events."""

import pathlib
import tomllib

import paper
from captures import MACHINE, Measured
from screen import first_screen

MODELS = pathlib.Path(__file__).resolve().parents[2] / "ground/samples/machines"
LEVELS = {"L1": "l1d", "L2": "l2"}


def model() -> dict:
    """The simulated machine's description."""
    return tomllib.loads((MODELS / f"{MACHINE}.toml").read_text(encoding="utf-8"))


def modelled_ns(machine: dict) -> dict[str, float]:
    """The latencies of table 1 in the model: its cycles by its clock."""
    cycles = {level: machine[name]["latency"] for level, name in LEVELS.items()}
    cycles["memory"] = machine["memory_latency"]
    return {level: 1000 * count / machine["clock_mhz"] for level, count in cycles.items()}


def show_latencies(measured: Measured) -> dict:
    """Table 1, with the machine that this runs on beside it."""
    here = measured.ask_json("latency")
    measured_ns = {row["name"]: row["ns"] for row in here["summary"]}
    simulated = modelled_ns(model())
    print("\nTable 1: latency, ns (here: `hardmeter latency`)")
    print(f"  {'':<14} {'the paper':>10} {MACHINE + ', simulated':>22} {'this machine':>14}")
    names = [*paper.TABLE_1, *(name for name in measured_ns if name not in paper.TABLE_1)]
    for name in names:
        cells = [paper.TABLE_1.get(name), simulated.get(name), measured_ns.get(name)]
        shown = ["-" if ns is None else f"{ns:,.3g}" for ns in cells]
        print(f"  {name:<14} {shown[0]:>10} {shown[1]:>22} {shown[2]:>14}")
    return {"paper": paper.TABLE_1, "simulated": simulated, "here": measured_ns}


def cache(machine: dict, name: str) -> str:
    """A cache of the model in words."""
    return f"{machine[name]['size'].replace('KiB', 'KB')}, {machine[name]['ways']} ways, lines of 64 bytes"


def show_machine() -> dict[str, str]:
    """Table 3."""
    machine = model()
    simulated = {
        "CPU": machine["title"].split(",")[0],
        "clock": f"{machine['clock_mhz'] / 1000:.1f} GHz",
        "memory": "not limited",
        "L1 data cache": cache(machine, "l1d"),
        "instructions": cache(machine, "l1i") + ": no trace cache",
        "L2 cache": cache(machine, "l2"),
    }
    print("\nTable 3: the machine")
    print(f"  {'':<14} {'the paper':<36} {MACHINE + ', simulated'}")
    for name, theirs in paper.TABLE_3.items():
        print(f"  {name:<14} {theirs:<36} {simulated[name]}")
    return simulated


def show_database(measured: Measured, variant: str) -> dict[str, int]:
    """Table 4: rows of pgbench's tables at scale 1."""
    rows = measured.load(variant)
    print("\nTable 4: rows of pgbench's tables at scale 1")
    print(f"  {'':<14} {'the paper':>10} {'here':>10}")
    for name, theirs in paper.TABLE_4.items():
        print(f"  {name:<14} {theirs:>10,} {rows[name]:>10,}")
    return rows


def show_window(measured: Measured) -> list[str]:
    """Figure 2: the window in which events are chosen."""
    lines = first_screen([measured.hardmeter, "tui"], "Events")
    print("\nFigure 2: xhardmeter's window was a picture; this is `hardmeter tui`")
    print("\n".join(f"  | {line}" for line in lines))
    return lines
