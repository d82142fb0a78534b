"""The spin lock alone: two processes on two simulated CPUs, in lockstep (spinning.c)."""

import json
import pathlib
from collections.abc import Generator

from captures import MACHINE, Measured
from steps import run

HERE = pathlib.Path(__file__).resolve().parent
LOOPS = ("tas", "read")
NAMES = {"tas": "test and set", "read": "with the loop that reads"}
EVENTS = ("coherence-miss", "invalidation")
HELD = (1, 2, 4, 8, 16, 32)  # writes while the lock is held

Process = Generator[str, bool, None]


class Line:
    """The line of the lock: which of the two processors has a copy, and what a coherent cache counts."""

    def __init__(self) -> None:
        self.has, self.had = {0}, {0}  # the first process has initialised the lock
        self.events = dict.fromkeys(EVENTS, 0)

    def access(self, processor: int, writes: bool) -> None:
        """A load, or a store: a copy that was taken away misses, and a store takes away the other's."""
        self.events["coherence-miss"] += processor in self.had - self.has
        self.events["invalidation"] += writes and bool(self.has - {processor})
        self.has = {processor} if writes else self.has | {processor}
        self.had.add(processor)


def looking(loop: str, times: int, first: bool) -> Process:
    """The holder, who writes, or the one that looks."""
    for _ in range(times):
        yield "write" if first else "test-and-set" if loop == "tas" else "read"


def taking(loop: str, times: int, writes: int) -> Process:
    """One that takes the lock; each access yields what it is, and gets whether the lock was taken."""
    for _ in range(times):
        while (yield "test-and-set"):
            while loop == "read" and (yield "read"):
                pass
        for _ in range(writes):
            yield "write"
        yield "release"
        yield "nothing"
        yield "nothing"


def expected(processes: list[Process], taken: bool) -> dict[str, int]:
    """The events of two processes that have their turns one after the other, and alone once one has ended."""
    line = Line()
    answers: list[bool | None] = [None, None]
    left = [0, 1]
    while left:
        for number in list(left):
            try:
                step = processes[number].send(answers[number])  # type: ignore[arg-type]  # the first one is None
            except StopIteration:
                left.remove(number)
                continue
            answers[number] = taken
            if step == "nothing":
                continue
            line.access(number, writes=step != "read")
            taken = step == "test-and-set" or (taken and step != "release")
    return line.events


def expected_of_looks(loop: str, times: int) -> dict[str, int]:
    """What `spinning LOOP look TIMES 0` must count."""
    return expected([looking(loop, times, True), looking(loop, times, False)], taken=True)


def expected_of_takings(loop: str, times: int, writes: int) -> dict[str, int]:
    """What `spinning LOOP take TIMES WRITES` must count."""
    return expected([taking(loop, times, writes) for _ in range(2)], taken=False)


def count(measured: Measured, program: pathlib.Path, *words: object) -> dict[str, int]:
    """Runs the program once on the software PMU, on two cores."""
    options = ["--source", "simulated", "--machine", MACHINE, "--cores", 2, "-e", ",".join(EVENTS), "--format", "json"]
    _, _, answer = measured.ask("stat", *options, "--", program, *words).partition("\n")
    return {event["name"]: event["count"] for event in json.loads(answer)["events"]}


def in_a_row(counted: dict[str, int], model: dict[str, int]) -> str:
    """Both events, each with what a model of one line has."""
    return "".join(f"{counted[event]:>18,} {model[event]:>9,}" for event in EVENTS)


def show(measured: Measured, times: int) -> dict:
    """Prints both experiments; returns their figures."""
    measured.folder.mkdir(parents=True, exist_ok=True)
    program = measured.folder / "spinning"
    run(["gcc", "-O2", "-Wall", "-Wextra", "-Werror", "-o", program, HERE / "spinning.c"])
    figures: dict = {"looks": {}, "takings": {}}
    print(f"\nThe spin lock alone: two processes on two CPUs of {MACHINE}, in lockstep; lock and counter in one line. Exact")
    print(f"\n  {times:,} writes of the holder, after each of which the other one looks at the lock once")
    titles = "".join(f"{event:>18} {'expected':>9}" for event in EVENTS)
    print(f"  {'':<26}{titles}")
    for loop in LOOPS:
        counted, model = count(measured, program, loop, "look", times, 0), expected_of_looks(loop, times)
        figures["looks"][loop] = {"counted": counted, "expected": model}
        print(f"  {NAMES[loop]:<26}{in_a_row(counted, model)}")
    takings = max(times // 5, 1)
    print(f"\n  each takes the lock {takings:,} times, and writes beside it while it has it: coherence misses a taking")
    print(f"  {'writes':>6} {NAMES['tas']:>26} {NAMES['read']:>26} {'change':>10}   both as expected")
    for writes in HELD:
        found = {loop: count(measured, program, loop, "take", takings, writes) for loop in LOOPS}
        models = {loop: expected_of_takings(loop, takings, writes) for loop in LOOPS}
        tas, read = (found[loop]["coherence-miss"] / (2 * takings) for loop in LOOPS)
        figures["takings"][writes] = {"counted": found, "expected": models}
        same = "yes" if found == models else f"no: {models}"
        print(f"  {writes:>6} {tas:>26.2f} {read:>26.2f} {100 * (read / tas - 1):>+8.1f} %   {same}")
    return figures
