#!/usr/bin/env python3
"""Compares the rows of random queries over random tables with and without ccopt.

    plan/test/differential/run [--seed N] [--seconds N | --rounds N] [--round N] [...]

A round makes tables with a history and asks queries of three sessions: `stock`, where the library is not loaded; `costs`,
where ccopt plans as its costs say; `force`, with ccopt.force and random settings. With --cache (a preloaded library, and a
column cache), `stock` is a session with ccopt.enabled = off. In half of the rounds the three hold one
snapshot, while another session updates, deletes and vacuums. Answers are compared as multisets of what is printed, as
lists where the query has an order. `--seed N --round R` repeats one round exactly.

A difference is shrunk by leaving out parts of the query, and printed with its seed, settings, plan and rows. The
share of queries with each of ccopt's nodes in the plan is printed, and must be above a minimum, without which the
test would prove nothing.
"""

import argparse
import re
import sys
import time
from collections import Counter
from dataclasses import dataclass
from random import Random

import queries
import tables
from libpq import Connection, ConnectionLost, SqlError

# The minimum share of the `force` queries whose plan has the node. Below it the test no longer exercises the node.
# Over many seeds the shares are 92, 84, 26, 45, 14 (windows: of one seed), 26 and 3 per cent.
FLOORS = {"any": 0.8, "BatchScan": 0.7, "BatchAgg": 0.15, "BatchHashJoin": 0.25, "BatchWindow": 0.05,
          "Buffer": 0.1, "AdaptiveJoin": 0.005}
QUERIES_PER_ROUND = 60
FINDINGS_AT_MOST = 5
SHRINK_SECONDS = 20
TIMEOUT = "57014"


@dataclass
class Finding:
    what: str
    query: queries.Select
    settings: list
    mode: str


class Sessions:
    """The three sessions, and the way to run a query in one of them."""

    def __init__(self, conninfo: str, schema: str, timeout: int):
        self.conninfo, self.schema, self.timeout = conninfo, schema, timeout
        self.by_name = {}
        self.snapshot = None
        self.open()

    def open(self):
        self.close()
        for name in ("stock", "costs", "force"):
            options = f"-c search_path={self.schema} -c client_min_messages=warning"
            if with_cache:
                options += " -c ccopt.enabled=off" if name == "stock" else ""
            elif name != "stock":
                options += " -c session_preload_libraries=ccopt"
            self.by_name[name] = Connection(f"{self.conninfo} options='{options}'")
        if self.snapshot:
            self.hold_snapshot(self.snapshot)

    def open_after_crash(self):
        time.sleep(1)
        for _ in range(60):
            try:
                return self.open()
            except ConnectionLost:
                time.sleep(0.5)
        raise ConnectionLost("the server does not come back")

    def close(self):
        for connection in self.by_name.values():
            connection.close()
        self.by_name = {}

    def hold_snapshot(self, level: str):
        """All three see the current state of the database until they are opened again."""
        self.snapshot = level
        stock = self.by_name["stock"]
        stock.run(f"BEGIN ISOLATION LEVEL {level}")
        exported = stock.run("SELECT pg_export_snapshot()")[0][0].decode()
        for name in ("costs", "force"):
            self.by_name[name].run(f"BEGIN ISOLATION LEVEL {level}; SET TRANSACTION SNAPSHOT '{exported}'")

    def ask(self, name: str, sql: str, settings: list, mode: str, rng_seed: int):
        connection = self.by_name[name]
        connection.run("".join(f"SET {setting};" for setting in settings) + ("SAVEPOINT q" if self.snapshot else "SELECT 1"))
        # The timeout must be the last statement of its own message, because the server measures from the next one.
        connection.run(f"SET statement_timeout = {self.timeout if name == 'stock' else 60000}")
        try:
            result = self.ask_in_mode(connection, sql, mode, rng_seed)
        finally:
            if not sys.exc_info()[0]:
                if self.snapshot:
                    self.run_in_time(connection, "ROLLBACK TO q")
                    connection.run("RELEASE q")  # in a subtransaction that is undone, so is the setting of the time
                elif mode == "cursor":
                    self.run_in_time(connection, "ROLLBACK")
                self.run_in_time(connection, "SET statement_timeout = 0")
                connection.run("".join(f"RESET {setting.split()[0]};" for setting in settings) or "SELECT 1")
        return result

    @staticmethod
    def run_in_time(connection, sql: str):
        """The statement's timeout still holds: on a machine that stalls for that long, the rollback is cancelled too.
        """
        for _ in range(10):
            result = connection.try_run(sql)
            if result.sqlstate != TIMEOUT:
                break
        if result.sqlstate:
            raise SqlError(f"{result.sqlstate} {result.message}\n{sql}")

    @staticmethod
    def ask_in_mode(connection, sql: str, mode: str, rng_seed: int):
        literal = queries.with_literals(sql)
        if mode == "prepared":
            text, types, values = queries.with_parameters(sql)
            arguments = f"({', '.join(types)})" if types else ""
            call = f"({', '.join(values)})" if types else ""
            cleared = connection.try_run("DEALLOCATE ALL")
            if cleared.sqlstate:
                return cleared
            prepared = connection.try_run(f"PREPARE p{arguments} AS {text}")
            if prepared.sqlstate:
                return prepared
            if types:  # other constants first, so that remains of them would show
                nulls = ", ".join("NULL" for _ in types)
                first = connection.try_run(f"EXECUTE p({nulls})")
                if first.sqlstate:
                    return first
            return connection.try_run(f"EXECUTE p{call}")
        if mode == "cursor":
            opened = connection.try_run(f"BEGIN; DECLARE c NO SCROLL CURSOR FOR {literal}")
            if opened.sqlstate:
                return opened
            result = connection.try_run(f"FETCH {rng_seed % 7 + 1} FROM c")
            for count in ("1", "1000", "ALL"):
                if result.sqlstate:
                    return result
                more = connection.try_run(f"FETCH {count} FROM c")
                more.rows = result.rows + more.rows
                result = more
            return result
        return connection.try_run(literal)

    def plan(self, name: str, sql: str, settings: list, analyze: bool = False) -> str:
        connection = self.by_name[name]
        if self.snapshot:
            connection.run("SAVEPOINT q")
        connection.run("".join(f"SET {setting};" for setting in settings) or "SELECT 1")
        options = "ANALYZE, VERBOSE, TIMING OFF, SUMMARY OFF, COSTS OFF" if analyze else "COSTS OFF"
        result = connection.try_run(f"EXPLAIN ({options}) " + queries.with_literals(sql))
        if self.snapshot:
            connection.run("ROLLBACK TO q; RELEASE q")
        connection.run("".join(f"RESET {setting.split()[0]};" for setting in settings) or "SELECT 1")
        return "\n".join(row[0].decode() for row in result.rows) if not result.sqlstate else result.message


def planner_settings(rng: Random) -> list:
    """Settings of core's that lead to other plans."""
    settings = []
    for name in ("hashjoin", "mergejoin", "nestloop", "hashagg", "sort", "indexscan", "bitmapscan", "material", "memoize"):
        if rng.random() < 0.1:
            settings.append(f"enable_{name} = off")
    if rng.random() < 0.3:
        settings.append(f"work_mem = '{rng.choice((64, 256, 16384))}kB'")
    if rng.random() < 0.15:
        settings += ["max_parallel_workers_per_gather = 2", "parallel_setup_cost = 0", "parallel_tuple_cost = 0",
                     "min_parallel_table_scan_size = 0"]
    if rng.random() < 0.1:
        settings += ["enable_partitionwise_join = on", "enable_partitionwise_aggregate = on"]
    return settings


# For rounds of look-ups: nested loops over index scans, which may become hash joins while they run. Without an
# index such loops take very long, which is not a defect.
LOOK_UPS = [*(f"enable_{name} = off" for name in ("hashjoin", "mergejoin", "bitmapscan", "indexonlyscan", "memoize")),
            "ccopt.enable_batch_join = off", "statement_timeout = 1500"]


def force_settings(rng: Random) -> list:
    settings = ["ccopt.force = on", *planner_settings(rng)]
    settings.append(f"ccopt.buffer = {rng.choice(('auto', 'auto', 'force', 'force', 'paper', 'off'))}")
    settings.append(f"ccopt.buffer_mode = {rng.choice(('ring', 'copy'))}")
    if rng.random() < 0.5:
        settings.append(f"ccopt.buffer_rows = {rng.choice((1, 2, 7, 100, 2000))}")
    for name in ("batch_scan", "batch_agg", "batch_join", "adaptive_join", "bloom"):
        if rng.random() < 0.08:
            settings.append(f"ccopt.enable_{name} = off")
    return settings


def difference(stock, other, ordered: bool) -> str:
    """What is wrong with the answer, or nothing."""
    if stock.sqlstate or other.sqlstate:
        # The plan decides which of a query's errors comes first; an error must occur in all sessions.
        if bool(stock.sqlstate) == bool(other.sqlstate):
            return ""
        return f"error {stock.sqlstate or other.sqlstate} only {'in stock' if stock.sqlstate else 'with ccopt'}: " \
               f"{stock.message or other.message}"
    if ordered and stock.rows == other.rows:
        return ""
    expected, got = Counter(stock.rows), Counter(other.rows)
    if expected == got:
        return "rows in another order" if ordered else ""
    lines = [f"{len(stock.rows)} rows in stock, {len(other.rows)} with ccopt"]
    for title, rows in (("missing", expected - got), ("too much", got - expected)):
        for row, count in list(rows.items())[:4]:
            cells = " | ".join("NULL" if cell is None else cell.decode(errors="replace")[:60] for cell in row)
            lines.append(f"  {title} {count}x: {cells}")
    return "\n".join(lines)


class Round:
    def __init__(self, conninfo: str, seed: int, number: int, counts: Counter, timeout: int):
        self.conninfo, self.number, self.counts, self.timeout = conninfo, number, counts, timeout
        self.rng = Random(f"{seed}/{number}")
        self.schema = f"r{number}"
        self.findings = []
        self.asked, self.stock = None, None  # the last query, and stock's answer

    def make_tables(self, connection) -> list:
        connection.run(f"DROP SCHEMA IF EXISTS {self.schema} CASCADE")
        connection.run(f"CREATE SCHEMA {self.schema}")
        connection.run(f"SET search_path = {self.schema}")
        connection.run("CREATE COLLATION fold_case (provider = icu, locale = 'und-u-ks-level2', deterministic = false)")
        made = []
        self.look_ups = self.rng.random() < 0.25
        for number in range(self.rng.randint(2, 4)):
            table, statements = tables.create(self.rng, f"{'abcd'[number]}")
            for statement in statements:
                result = connection.try_run(statement)
                if result.sqlstate and result.sqlstate not in ("22003", "22P02"):
                    raise SqlError(f"{result.message}\n{statement[:300]}")
            if with_cache:
                for statement in tables.enlarge(self.rng, table):
                    connection.try_run(statement)
            made.append(table)
            if self.look_ups:
                connection.try_run(tables.index(self.rng, table))
        return made

    def differs(self, sessions, query, settings, mode, name, seed) -> str:
        sql = query.render()
        try:
            if sql != self.asked:  # nothing changes what a query sees between two sessions
                self.asked, self.stock = sql, sessions.ask("stock", sql, [], "plain", seed)
            stock = self.stock
            if stock.sqlstate == TIMEOUT:
                return ""
            other = sessions.ask(name, sql, settings, mode, seed)
        except ConnectionLost as error:
            self.asked = None
            sessions.open_after_crash()
            return f"the server crashed: {error}"
        if other.sqlstate == TIMEOUT:  # a bad plan was forced, or a loop has no end: for a person to judge
            self.counts["timed out with ccopt only"] += 1
            if not self.look_ups:
                print(f"SLOW in round {self.number} ({name}, {mode}, {'; '.join(settings)}):\n"
                      f"  {queries.with_literals(sql)}")
                print("  plan:\n    " + sessions.plan(name, sql, settings).replace("\n", "\n    "), flush=True)
            return ""
        text = difference(stock, other, bool(query.order))
        for line in sessions.by_name[name].notices:
            text += f"\nnotice: {line}"
        sessions.by_name[name].notices.clear()
        return text

    def shrink(self, sessions, finding: Finding, name: str, seed: int) -> Finding:
        end = time.monotonic() + SHRINK_SECONDS
        shape = finding.what.split(":")[0][:16]
        progress = True
        while progress and time.monotonic() < end:
            progress = False
            if finding.mode != "plain":
                what = self.differs(sessions, finding.query, finding.settings, "plain", name, seed)
                if what and what[:16] == shape[:16] or what and "rows" in shape and "rows" in what:
                    finding, progress = Finding(what, finding.query, finding.settings, "plain"), True
            for number in range(len(finding.settings)):
                fewer = finding.settings[:number] + finding.settings[number + 1:]
                what = self.differs(sessions, finding.query, fewer, finding.mode, name, seed)
                if what and ("rows" in what) == ("rows" in finding.what) and ("error" in what) == ("error" in finding.what):
                    finding, progress = Finding(what, finding.query, fewer, finding.mode), True
                    break
            for query in finding.query.smaller():
                if time.monotonic() > end:
                    break
                what = self.differs(sessions, query, finding.settings, finding.mode, name, seed)
                if what and ("rows" in what) == ("rows" in finding.what) and ("error" in what) == ("error" in finding.what):
                    finding, progress = Finding(what, query, finding.settings, finding.mode), True
                    break
        return finding

    def run(self, query_count: int) -> list:
        rng = self.rng
        writer = Connection(f"{self.conninfo} options='-c client_min_messages=error'")
        made = self.make_tables(writer)
        sessions = Sessions(self.conninfo, self.schema, self.timeout)
        # In some rounds all sessions hold one snapshot while rows change, in some another transaction stays in progress.
        held = rng.random() < 0.5
        if held:
            sessions.hold_snapshot(rng.choice(("REPEATABLE READ", "REPEATABLE READ", "SERIALIZABLE")))
        elif rng.random() < 0.5:
            writer.run("BEGIN")
            for table in made:
                statement = tables.disturb(rng, table)[0]
                if not statement.startswith("VACUUM"):
                    writer.try_run(statement) if not statement.startswith("INSERT") else writer.run(
                        f"SAVEPOINT s; {statement}")
        generator = queries.Generator(rng, made)
        for number in range(query_count):
            if (held and rng.random() < 0.1) or (with_cache and rng.random() < 0.2):
                for statement in tables.disturb(rng, rng.choice(made)):
                    try:
                        writer.try_run(statement)
                    except ConnectionLost:  # it died with a crashed server
                        writer = Connection(f"{self.conninfo} options='-c client_min_messages=error -c search_path={self.schema}'")
                        writer.try_run(statement)
            query = generator.select(top=True)
            self.asked = None
            seed = rng.randrange(1000)
            # All random choices are made before the first answer: a timeout must not change the queries that follow.
            asked = []
            for name, settings in (("costs", planner_settings(rng)), ("force", force_settings(rng))):
                mode = rng.choices(("plain", "prepared", "cursor"), (6, 3, 1))[0]
                if mode == "cursor" and held:
                    mode = "plain"
                if self.look_ups:
                    settings += [setting for setting in LOOK_UPS if setting not in settings]
                if mode == "prepared":
                    settings.append(f"plan_cache_mode = force_{rng.choice(('generic', 'generic', 'custom'))}_plan")
                asked.append((name, settings, mode))
            for name, settings, mode in asked:
                what = self.differs(sessions, query, settings, mode, name, seed)
                stock = self.stock
                if stock.sqlstate == TIMEOUT:
                    self.counts["timed out in stock"] += 1
                    break
                if stock.sqlstate:
                    self.counts["error in stock " + stock.sqlstate] += 1
                    if stock.sqlstate.startswith("42") or stock.sqlstate == "0A000":
                        self.counts["wrong SQL"] += 1
                        if self.counts["wrong SQL"] < 4 and show_wrong:
                            print(f"wrong SQL: {stock.message}\n  {queries.with_literals(query.render())}", file=sys.stderr)
                        break
                if stock.rows:
                    self.counts[f"{name} with rows"] += 1
                self.counts[name] += 1
                if not what:
                    try:
                        plan = sessions.plan(name, query.render(), settings, number % 2 == 1)
                    except ConnectionLost as error:
                        sessions.open_after_crash()
                        self.findings.append((name, number, Finding(f"the server crashed in EXPLAIN: {error}", query, settings, mode)))
                        print_finding(self, sessions, name, number, query, self.findings[-1][2])
                        continue
                    nodes = set(re.findall(r"Custom Scan \((\w+)\)", plan))
                    for node in nodes:
                        self.counts[f"{name} {node}"] += 1
                    self.counts[f"{name} any"] += bool(nodes)
                    continue
                finding = self.shrink(sessions, Finding(what, query, settings, mode), name, seed)
                self.findings.append((name, number, finding))
                print_finding(self, sessions, name, number, query, finding)
                if len(self.findings) >= FINDINGS_AT_MOST:
                    break
            if len(self.findings) >= FINDINGS_AT_MOST:
                break
        sessions.close()
        try:
            writer.try_run("ROLLBACK")
            writer.try_run(f"DROP SCHEMA {self.schema} CASCADE")
        except ConnectionLost:
            pass
        writer.close()
        return self.findings


show_wrong = False
with_cache = False


def print_finding(round_, sessions, name: str, number: int, query, finding: Finding):
    print(f"\nDIFFERENCE in round {round_.number}, query {number}, session {name}, mode {finding.mode}"
          f"{', snapshot held' if sessions.snapshot else ''}")
    print(f"  {finding.what}")
    print("  settings: " + "; ".join(f"SET {setting}" for setting in finding.settings))
    print(f"  smallest: {queries.with_literals(finding.query.render())}")
    print(f"  found as: {queries.with_literals(query.render())}")
    try:
        plan = sessions.plan(name, finding.query.render(), finding.settings)
        print("  plan:\n    " + plan.replace("\n", "\n    "), flush=True)
    except (ConnectionLost, SqlError) as error:
        print(f"  no plan: {error}", flush=True)
        sessions.open_after_crash()


def check_cache(conninfo: str) -> list:
    """Prints what the cache did; it must have been hit, found pages that had changed, and evicted."""
    connection = Connection(conninfo)
    connection.run("CREATE EXTENSION IF NOT EXISTS ccopt")
    names = ("hits", "misses", "fills", "stale_chunks", "evicted_chunks", "limit_bytes", "used_bytes")
    values = [int(cell) for cell in connection.run(f"SELECT {', '.join(names)} FROM ccopt.ccopt_cache")[0]]
    connection.close()
    print("  column cache: " + ", ".join(f"{name} {value}" for name, value in zip(names, values)))
    found = dict(zip(names, values))
    missing = [f"the column cache has no {name}" for name in ("hits", "fills", "stale_chunks") if found[name] == 0]
    return missing + (["the column cache is above its limit"] if found["used_bytes"] > found["limit_bytes"] else [])


def main() -> int:
    global show_wrong, with_cache
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--conninfo", required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, help="rounds until this time is over")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--round", type=int, help="only this one")
    parser.add_argument("--queries", type=int, default=QUERIES_PER_ROUND, help="of a round")
    parser.add_argument("--timeout", type=int, default=300, help="ms after which stock is asked another query")
    parser.add_argument("--no-floor", action="store_true", help="do not fail if our nodes are rare")
    parser.add_argument("--cache", action="store_true", help="the server has a column cache")
    parser.add_argument("--show-wrong", action="store_true", help="print generated SQL that the parser refuses")
    arguments = parser.parse_args()
    show_wrong, with_cache = arguments.show_wrong, arguments.cache

    counts, findings, failed = Counter(), 0, []
    end = time.monotonic() + arguments.seconds if arguments.seconds else None
    number = arguments.round if arguments.round is not None else 0
    while True:
        findings += len(Round(arguments.conninfo, arguments.seed, number, counts, arguments.timeout).run(arguments.queries))
        number += 1
        if arguments.round is not None or findings >= FINDINGS_AT_MOST:
            break
        if (time.monotonic() > end) if end else number >= arguments.rounds:
            break

    total = max(counts["force"], 1)
    print(f"differential: seed {arguments.seed}, {number if arguments.round is None else 1} rounds, {counts['costs']} queries "
          f"with costs as they are, {counts['force']} with ccopt.force; {findings} differences")
    print("  " + ", ".join(f"{name}: {count}" for name, count in sorted(counts.items())
                           if name.startswith(("timed out", "error", "wrong")) or name.endswith("rows")))
    for name in ("costs", "force"):
        print(f"  nodes, {name}: " + (", ".join(f"{key.split(' ', 1)[1]} {count / max(counts[name], 1):.0%}" for key, count
              in sorted(counts.items()) if key.startswith(name + " ") and not key.endswith("rows")) or "none"))
    if with_cache:
        failed += check_cache(arguments.conninfo)
    for node, floor in FLOORS.items():
        share = counts[f"force {node}"] / total
        if share < floor:
            failed.append(f"{node} is in {share:.0%} of the forced plans, the floor is {floor:.0%}")
    if counts["wrong SQL"] > 0.05 * total:
        failed.append(f"{counts['wrong SQL']} generated queries were wrong SQL")
    if failed and not arguments.no_floor and arguments.round is None:
        print("\n".join("FAILED: " + line for line in failed))
        return 1
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
