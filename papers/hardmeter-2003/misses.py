"""Tables 5 and 6 and the listing of PEBS records: where PostgreSQL misses L1 and L2 in one run of pgbench."""

import pathlib

import paper
from captures import MACHINE, Hits, Measured

EVENTS = {"5": ("l1d-miss", "L1", paper.TABLE_5, paper.TABLE_5_ALL), "6": ("l2-miss", "L2", paper.TABLE_6, paper.TABLE_6_ALL)}
ROWS = 10
LISTED = "LWLockRelease"


def heading(hits: Hits, what: str, theirs: int) -> str:
    """What a table is of, and how many samples both have."""
    here = f"n = {hits.total:,}, one of every {hits.period:,} ({MACHINE}, simulated)"
    return f"loads that miss {what}, {here}; the paper: n = {theirs:,}"


def side_by_side(hits: Hits, table: list[paper.Row], total: int) -> list[str]:
    """The rows with most samples by rank, Hardmeter's on the left, the paper's on the right."""
    titles = f"  {'count':>8} {'share':>7}  {'address':<9} {'routine':<33} {'count':>7} {'share':>7}  routine"
    lines = [f"  {'here':<62} the paper", titles]
    ours = hits.places.most_common(ROWS)
    for rank in range(max(len(ours), len(table))):
        left = " " * 60
        if rank < len(ours):
            (address, routine), count = ours[rank]
            left = f"{count:>8,} {share(count, hits.total)}  {address:<9} {routine[:32]:<33}"
        right = ""
        if rank < len(table):
            count, _, routine = table[rank]
            right = f"{count:>7,} {share(count, total)}  {routine}"
        lines.append(f"  {left} {right}".rstrip())
    return lines


def share(count: int, total: int) -> str:
    """Seven characters."""
    return f"{100 * count / total if total else 0:5.2f} %"


def by_routine(hits: Hits) -> str:
    """The five routines with most samples, in one line."""
    routines: dict[str, int] = {}
    for (_, routine), count in hits.places.items():
        routines[routine] = routines.get(routine, 0) + count
    first = sorted(routines.items(), key=lambda entry: -entry[1])[:5]
    return "; ".join(f"{routine} {share(count, hits.total).strip()}" for routine, count in first)


def show(measured: Measured, capture: pathlib.Path, part: str) -> dict:
    """Table 5 or 6."""
    event, level, table, total = EVENTS[part]
    hits = measured.hits(capture, event)
    print(f"\nTable {part}: {heading(hits, level, total)}")
    print("\n".join(side_by_side(hits, table, total)))
    print(f"  by routine: {by_routine(hits)}")
    in_locks = hits.of_routines(paper.LOCK_ROUTINES)
    print(
        f"  in {', '.join(paper.LOCK_ROUTINES)}: {in_locks:,} ({share(in_locks, hits.total).strip()});"
        f" the paper's rows of them: {paper.of_locks(table):,} ({share(paper.of_locks(table), total).strip()})"
    )
    return {"samples": hits.total, "period": hits.period, "rows": hits.places.most_common(ROWS), "in_locks": in_locks}


# The registers of a PEBS record, in its order; rip is the paper's linear_ip.
REGISTERS = ("rflags", "rip", "rax", "rbx", "rcx", "rdx", "rsi", "rdi", "rbp", "rsp")


def record_line(record: dict) -> str:
    """A record as the paper prints them, and what PEBS of 2003 did not have: data address, latency, level."""
    registers = record["registers"]
    cells = [f"{int(registers[name], 16):0{8 if name == 'rflags' else 10}x}" for name in REGISTERS]
    return " ".join([*cells, "|", f"{int(record['data_address'], 16):010x}", f"{record['latency']:>4}", record["level"]])


def show_listing(measured: Measured, capture: pathlib.Path, records: int = 12) -> dict:
    """Single records with their registers, and the code around the instructions that miss."""
    words = ["annotate", LISTED, "-i", capture, "--event", "l1d-miss"]
    answer = measured.ask_json(*words, "--registers", records)
    event = next(event for event in answer["capture"]["events"] if event["name"] == "l1d-miss")
    print(f"\nThe listing of PEBS records: of {LISTED} (`hardmeter annotate {LISTED} --registers`)")
    print(f"  # Command: {answer['capture']['command']}")
    print(f"  # events per sample: {event['period']:,}")
    print(f"  # samples collected: {event['samples']:,}, in this routine {answer['registers']['total']:,}")
    print(f"  # Each sample is: {{{', '.join(REGISTERS)} | data address, latency, level}}")
    for record in answer["registers"]["records"]:
        print(f"  {record_line(record)}")
    print("\nThe listing of the code (objdump -S in the paper)")
    print("\n".join(f"  {line}".rstrip() for line in measured.ask(*words).splitlines() if not line.startswith("next:")))
    return answer["registers"]
