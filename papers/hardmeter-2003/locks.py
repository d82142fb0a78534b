"""Tables 7 and 8: the misses of four runs without and with the inner loop of the spin lock, and the effect's size."""

import pathlib

import evidence
import paper
from captures import Hits, Measured, together
from misses import heading, share, side_by_side

EVENT = "l1d-miss"
SIDES = {"7": ("original", paper.TABLE_7, paper.TABLE_7_ALL), "8": ("improved", paper.TABLE_8, paper.TABLE_8_ALL)}
TITLES = {"original": "the lock tested and set in each round", "improved": "with the inner loop that reads"}


def show_table(all_hits: dict[str, list[Hits]], part: str) -> None:
    """Table 7 or 8."""
    variant, table, total = SIDES[part]
    hits = together(all_hits[variant])
    print(f"\nTable {part}, {TITLES[variant]}: {len(all_hits[variant])} runs; {heading(hits, 'L1', total)}")
    print("\n".join(side_by_side(hits, table, total)))


def effect_of(measured: Measured, before: tuple[int, int], after: tuple[int, int]) -> dict[str, tuple[float, float, float]]:
    """What `hardmeter compare --counts` makes of two counts of two totals: change and interval, percent, by what it is of."""
    answer = measured.ask_json("compare", "--counts", "/".join(map(str, before)), "/".join(map(str, after)))
    effects = {}
    for line in answer["changes"]:
        interval = line["interval_95"]
        effects[line["of"]] = (100 * line["value"], 100 * interval["low"], 100 * interval["high"])
    return effects


def in_words(effect: tuple[float, float, float]) -> str:
    """A change with its interval."""
    return f"{effect[0]:+.1f} % ({effect[1]:+.1f}..{effect[2]:+.1f})"


def at_the_same_addresses() -> tuple[int, int]:
    """Samples at the addresses of table 7's lock routines: in table 5, of one run, and in table 7, of four."""
    addresses = {address for _, address, routine in paper.TABLE_7 if routine in paper.LOCK_ROUTINES}
    return sum(count for count, address, _ in paper.TABLE_5 if address in addresses), paper.of_locks(paper.TABLE_7)


def show_paper(measured: Measured) -> dict:
    """The effect by the paper's own tables, and what differs between its two experiments with one program."""
    before, after = (paper.of_locks(paper.TABLE_7), paper.TABLE_7_ALL), (paper.of_locks(paper.TABLE_8), paper.TABLE_8_ALL)
    effect = effect_of(measured, before, after)
    once, of_four = at_the_same_addresses()
    same = 100 * (of_four / paper.RUNS / once - 1)
    print("\nThe effect by the paper's tables 7 and 8")
    print(f"  LWLockAcquire and LWLockRelease: {before[0]:,} of {before[1]:,} before, {after[0]:,} of {after[1]:,} after")
    print(f"  {in_words(effect['these'])}, all others {in_words(effect['the others'])}; the paper says: {paper.CLAIM}")
    a_run = f"{of_four / paper.RUNS:,.0f}"
    print(f"  But table 5 is of the same program, one run: {once:,} at these addresses. Table 7 has {a_run} a run,")
    print(f"  {same:+.1f} %: two experiments with one program differ by more than the effect. The interval is of counts alone.")
    return {"effect": effect, "same_program": same}


def show_effect(measured: Measured, captures: dict[str, list[pathlib.Path]], all_hits: dict[str, list[Hits]]) -> dict:
    """The same of our runs: by counts as above, and between runs."""
    sums = {variant: together(hits) for variant, hits in all_hits.items()}
    pairs = {variant: (hits.of_routines(paper.LOCK_ROUTINES), hits.total) for variant, hits in sums.items()}
    effect = effect_of(measured, pairs["original"], pairs["improved"])
    print(f"\nThe effect here, {len(captures['original'])} runs each")
    for variant, (count, total) in pairs.items():
        runs = ", ".join(f"{hits.of_routines(paper.LOCK_ROUTINES):,}" for hits in all_hits[variant])
        waits = sums[variant].of_routines(("s_lock", "perform_spin_delay"))
        print(f"  {variant:<9} {count:,} of {total:,} ({share(count, total).strip()}); runs: {runs}; in s_lock: {waits:,}")
    print(f"  by counts, as of the paper's: {in_words(effect['these'])}, all others {in_words(effect['the others'])}")
    figures: dict = {"effect": effect, "counts": pairs}
    if len(captures["original"]) > 1:
        figures["same_program"] = show_same_program(measured, all_hits)
        figures["between_runs"] = show_between_runs(measured, captures["original"], captures["improved"])
    return figures


def show_same_program(measured: Measured, all_hits: dict[str, list[Hits]]) -> dict:
    """How far the first and the last runs of one program are apart by the same method, where nothing differs."""
    effects = {}
    print("  the same of one program, its last runs against its first:")
    for variant, hits in all_hits.items():
        half = len(hits) // 2
        halves = [together(part) for part in (hits[:half], hits[-half:])]
        first, last = ((part.of_routines(paper.LOCK_ROUTINES), part.total) for part in halves)
        effects[variant] = effect = effect_of(measured, first, last)
        print(f"    {variant:<18} {in_words(effect['these'])}, all others {in_words(effect['the others'])}")
    return effects


def show_between_runs(measured: Measured, a: list[pathlib.Path], b: list[pathlib.Path]) -> dict:
    """The effect with an interval that contains what differs from run to run."""
    compared = measured.ask_json("compare", "--a", *a, "--b", *b, "--per", "run", "--event", EVENT, "--by", "function")
    found = compared["events"][0]
    rows = {row["function"]: row for row in found["tables"][0]["rows"]}
    shown = {"all functions": found["total"]} | {name: rows[name] for name in paper.LOCK_ROUTINES if name in rows}
    print("  between runs, loads and stores (`hardmeter compare --per run --by function`):")
    for name, row in shown.items():
        change, interval = row["change"], row["change"]["interval_95"]
        print(f"    {name:<18} {in_words((100 * change['value'], 100 * interval['low'], 100 * interval['high']))}")
    for sentence in compared["sentences"]:
        print(f"    {sentence}")
    return {name: row["change"] for name, row in shown.items()}


def order(runs: int, seed: int = 2003) -> list[str]:
    """Both variants `runs` times, interleaved so that drift of the machine affects both alike."""
    variants = [variant for variant, _, _ in SIDES.values()]
    blocks = [variants[number] for block in range((runs + 1) // 2) for number in evidence.interleaved_order(2, seed + block)]
    kept: list[str] = []
    for variant in blocks:
        if kept.count(variant) < runs:
            kept.append(variant)
    return kept
