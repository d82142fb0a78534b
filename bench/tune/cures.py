"""Remedies of planted faults, applied as `hardmeter tune` prints them, and undone again."""

from typing import Callable, Iterator, List, Optional, Tuple

import bed
import faults
from faults import ABSENT, FAULTS, Fault
from figure import Bar, Figure
from processes import Trouble
from servers import Playground

Say = Callable[[str], None]

# Huge pages need the kernel.
UNTRIED = {"huge-pages"}

# Everything that a remedy may change: settings of databases and roles, the server's own file, indexes, options of tables.
STATE = """
    SELECT 'role', coalesce(d.datname, ''), coalesce(r.rolname, ''), one FROM pg_db_role_setting s
      LEFT JOIN pg_database d ON d.oid = s.setdatabase LEFT JOIN pg_roles r ON r.oid = s.setrole, unnest(s.setconfig) one
    UNION ALL SELECT 'file', name, '', setting FROM pg_file_settings WHERE sourcefile LIKE '%/postgresql.auto.conf'
    UNION ALL SELECT 'index', schemaname, indexname, indexdef FROM pg_indexes WHERE schemaname = 'public'
    UNION ALL SELECT 'table', relname, '', reloptions::text FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace
    ORDER BY 1, 2, 3, 4
"""


def _commands(finding: dict, which: str) -> List[str]:
    """The statements among the printed commands; the others are for administrators."""
    return [command for command in finding[which] if finding["changes"] and not command.startswith("--")]


def _active_ms(page: dict) -> float:
    """Time in the server per transaction: predicted gains are shares of it."""
    look = page["look"]
    transactions = look["database"]["commits"] + look["database"]["rollbacks"]
    if not transactions:
        raise Trouble("no transaction ended during the look")
    return look["active_backends"] * look["seconds"] * 1000 / transactions


def _finding(page: dict, fault: Fault) -> Optional[dict]:
    return next((one for one in page["findings"] if one["remedy"] in fault.remedies), None)


def _apply(server: bed.TunedServer, commands: List[str], restart: bool) -> None:
    for sql in commands:
        server.query(sql)
    if restart:
        server.restart()


def _cured(playground: Playground, server: bed.TunedServer, fault: Fault) -> Optional[Tuple[dict, dict, bool]]:
    """The finding, the effect of its remedy, and whether undoing it restores everything; nothing if the fault is not
    named."""
    before = bed.looked(server, fault.load, fault.seconds, fault.holder)
    finding = _finding(before, fault)
    if finding is None:
        return None
    finding["active_ms"] = _active_ms(before)
    if fault.cure_bed:
        with bed.running(playground, fault.cure_bed) as other:
            return finding, bed.looked(other, fault.load, fault.seconds), True
    state = server.query(STATE)
    restart = any(change["takes"] == "restart" for change in finding["changes"])
    _apply(server, [*_commands(finding, "apply"), *fault.cure_sql], restart)
    try:
        after = bed.looked(server, fault.cure or fault.load, fault.seconds)
    finally:
        _apply(server, [*_commands(finding, "undo"), *fault.cure_undo], restart)
    return finding, after, server.query(STATE) == state


def cured(playground: Playground, quick: bool, say: Say) -> Iterator[Figure]:
    """The gain of each remedy compared with its prediction, and whether it is undone."""
    gone, undone, tried, near, predicted = 0, 0, 0, 0, 0
    cases = [one for one in FAULTS if not UNTRIED.intersection(one.remedies)]
    for one in dict.fromkeys(case.bed for case in cases):
        with bed.running(playground, one) as server:
            for case in (case for case in cases if case.bed is one):
                with faults.in_place(server, case):
                    found = _cured(playground, server, case)
                if found is None:
                    say(f"{case.name}: not named")
                    continue
                finding, after, restored = found
                tried += 1
                undone += restored
                gone += faults.place(bed.named(after), case.remedies) == ABSENT
                gain = 1 - _active_ms(after) / finding["active_ms"]
                promised = finding["prediction"]["gain"]
                if promised is not None:
                    predicted += 1
                    near += promised / 2 <= gain <= promised * 2
                said = "no prediction" if promised is None else f"{promised * 100:.0f} % predicted"
                say(f"{case.name}: {gain * 100:.0f} % gained, {said}; {'undone' if restored else 'NOT undone'}")
                yield Figure(f"{case.name}: gain", gain * 100, "%", 1, f"less time in the server a transaction; {said}")
    yield Figure("remedies after which the finding is gone", gone, f"of {tried}", tried, "findings gone", Bar(tried, False))
    yield Figure("remedies undone to the state before", undone, f"of {tried}", tried, "settings, indexes, options", Bar(tried, False))
    what = "gains within a factor of two of what was predicted, one look before and one after"
    yield Figure("predictions within a factor of two", near, f"of {predicted}", predicted, what, Bar(0.75 * predicted, False))
