"""Makes random tables with a history: types, NULLs, toasted values, dropped and added columns, updates in place, dead
rows.
"""

from dataclasses import dataclass, field
from random import Random

MANY_FORMS = "many forms"  # equal values can print differently (1.0 and 1.00): see queries.py


@dataclass
class Column:
    name: str
    type: str  # as SQL spells it, with modifier
    family: str  # int, numeric, float, date, timestamp, text, bpchar, bool, opaque
    pool: list  # literals (quoted) from which rows draw
    null_share: float
    collation: str = ""
    forms: str = ""  # MANY_FORMS or nothing
    sums_exactly: bool = True  # floats whose sums do not depend on the order

    def literal(self, rng: Random) -> str:
        if rng.random() < self.null_share:
            return "NULL"
        return rng.choice(self.pool)

    def definition(self) -> str:
        return f"{self.name} {self.type}" + (f' COLLATE "{self.collation}"' if self.collation else "")


@dataclass
class Table:
    name: str
    kind: str
    columns: list = field(default_factory=list)
    rows: int = 0


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _decimal(rng: Random, precision: int, scale: int) -> str:
    digits = rng.randint(0, precision)
    value = str(rng.randrange(10**digits)) if digits else "0"
    if scale < 0:
        value += "0" * -scale
    elif scale > 0:
        value = value.rjust(scale + 1, "0")
        value = value[:-scale] + "." + value[-scale:]
    return rng.choice(("", "", "-")) + value


_WORDS = ["", " ", "a", "A", "ab", "abc", "abc ", "Abc", "abd", "b", "BUILDING", "AUTOMOBILE", "special requests", "a%b",
          "a_b", "a\\b", "%", "_", "é", "É", "ß", "ss", "日本", "日本語", "forest green", "green", "x" * 126, "x" * 127, "x" * 128]


def _text(rng: Random) -> str:
    kind = rng.random()
    if kind < 0.7:
        return rng.choice(_WORDS)
    if kind < 0.9:
        return rng.choice(("Customer#", "MED ", "")) + str(rng.randrange(1000))
    if kind < 0.95:  # compressed, in line
        return rng.choice("xyz") * rng.choice((2100, 4000))
    if kind < 0.98:  # toasted
        return "".join(rng.choice("0123456789abcdefghijklmnopqrstuvwxyz") for _ in range(rng.choice((2500, 9000))))
    return rng.choice(_WORDS) + " " * rng.randrange(4)


def random_column(rng: Random, name: str) -> Column:
    null_share = rng.choice((0, 0, 0, 0.05, 0.4, 1 if rng.random() < 0.15 else 0.1))
    size = rng.choice((2, 5, 30, 300))
    family = rng.choices(
        ("int", "numeric", "float", "date", "timestamp", "text", "bpchar", "bool", "opaque"), (8, 8, 2, 4, 3, 5, 4, 2, 2))[0]
    column = Column(name, "", family, [], null_share)
    if family == "int":
        column.type = rng.choice(("int2", "int4", "int4", "int8", "oid" if rng.random() < 0.3 else "int8"))
        top = {"int2": 2**15, "int4": 2**31, "int8": 2**63, "oid": 2**32}[column.type]
        low = 0 if column.type == "oid" else -top
        reach = rng.choice((5, 1000, top))
        column.pool = [str(rng.randint(max(low, -reach), min(top - 1, reach))) for _ in range(size)]
        if rng.random() < 0.2:
            column.pool += [str(low), str(top - 1)]
        column.pool = [quoted(value) for value in column.pool]
    elif family == "numeric":
        precision, scale = rng.choice(
            ((5, 2), (12, 2), (15, 2), (15, 2), (18, 4), (18, 0), (19, 0), (30, 10), (4, -2), (3, 5), (9, 9), (None, 0)))
        column.type = "numeric" if precision is None else f"numeric({precision},{scale})"
        if precision is None:
            column.forms = MANY_FORMS
            column.pool = [_decimal(rng, rng.choice((2, 9, 25)), rng.randrange(6)) for _ in range(size)]
        else:
            column.pool = [_decimal(rng, rng.choice((precision, min(precision, 3))), scale) for _ in range(size)]
        if rng.random() < 0.25:
            column.pool.append("NaN")
            if precision is None:
                column.pool += ["Infinity", "-Infinity"]
        column.pool = [quoted(value) for value in column.pool]
    elif family == "float":
        column.type = rng.choice(("float4", "float8"))
        column.pool = [quoted(str(rng.randint(-400, 400) / 4)) for _ in range(size)]
        if rng.random() < 0.3:
            column.sums_exactly = False
            column.pool += ["'NaN'", "'Infinity'", "'-Infinity'", "'1e-30'", "'1e30'", "'0.1'"]
    elif family == "date":
        column.type = "date"
        column.pool = [quoted(f"{rng.randint(1992, 1998)}-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}") for _ in range(size)]
        if rng.random() < 0.2:
            column.pool += ["'infinity'", "'-infinity'", "'4713-01-01 BC'", "'5874897-12-31'"]
    elif family == "timestamp":
        column.type = rng.choice(("timestamp", "timestamptz"))
        column.pool = [
            quoted(f"{rng.randint(1992, 1998)}-{rng.randint(1, 12):02}-{rng.randint(1, 28):02} {rng.randrange(24):02}:00:00"
                   + rng.choice(("", ".5", ".000001"))) for _ in range(size)]
        if rng.random() < 0.2:
            column.pool += ["'infinity'", "'-infinity'", "'4713-01-01 00:00:00 BC'"]
    elif family == "text":
        column.type = rng.choice(("text", "varchar", "varchar(9000)", "text"))
        column.pool = [quoted(_text(rng)) for _ in range(size)]
        if rng.random() < 0.4:
            column.collation = rng.choice(("C", "en-x-icu", "fold_case"))
            if column.collation == "fold_case":
                column.forms = MANY_FORMS
    elif family == "bpchar":
        width = rng.choice((1, 1, 3, 10, 25))
        column.type = f"char({width})"
        column.pool = [quoted(_text(rng)[:width]) for _ in range(size)]
        if rng.random() < 0.2:
            column.collation = rng.choice(("C", "en-x-icu"))
    elif family == "bool":
        column.type = "bool"
        column.pool = ["true", "false"]
    else:
        column.type, make = rng.choice((
            ("uuid", lambda: f"'{rng.getrandbits(128):032x}'"),
            ("int4[]", lambda: quoted("{" + ",".join(str(rng.randrange(9)) for _ in range(rng.randrange(4))) + "}")),
            ("jsonb", lambda: quoted('{"a": ' + str(rng.randrange(9)) + "}")),
            ("bytea", lambda: quoted("\\x" + f"{rng.getrandbits(64):016x}")),
            ('"char"', lambda: quoted(rng.choice("ANRxyz "))),
            ("name", lambda: quoted(rng.choice(_WORDS[:25]))),
        ))
        column.pool = [make() for _ in range(size)]
    return column


def _insert(rng: Random, table: Table, count: int) -> str:
    names = ", ".join(column.name for column in table.columns)
    rows = ", ".join("(" + ", ".join(column.literal(rng) for column in table.columns) + ")" for _ in range(count))
    return f"INSERT INTO {table.name} ({names}) VALUES {rows}"


def create(rng: Random, name: str) -> tuple:
    """Returns a table and the statements that make it; each must be sent alone, because VACUUM is among them."""
    table = Table(name, rng.choices(("plain", "unlogged", "partitioned", "inherited"), (12, 1, 3, 2))[0])
    table.rows = rng.choices((0, 1, 40, 1100, 2500, 5000), (1, 1, 3, 5, 4, 1))[0]
    key = Column("k", rng.choice(("int4", "int4", "int8", "int2")), "int",
                 [quoted(str(value)) for value in range(max(2, table.rows // rng.choice((1, 3, 30))))],
                 rng.choice((0, 0, 0.1)))
    table.columns = [random_column(rng, f"c{number}") for number in range(rng.randint(2, 9))]
    table.columns.insert(rng.randrange(len(table.columns) + 1), key)
    definitions = ", ".join(column.definition() for column in table.columns)
    options = rng.choice(("", "", " WITH (fillfactor = 60)"))

    statements = []
    if table.kind == "partitioned":
        statements.append(f"CREATE TABLE {name} ({definitions}) PARTITION BY HASH (k)")
        for part in range(3):
            statements.append(f"CREATE TABLE {name}_{part} PARTITION OF {name} FOR VALUES WITH (MODULUS 3, REMAINDER {part})")
    else:
        unlogged = "UNLOGGED " if table.kind == "unlogged" else ""
        statements.append(f"CREATE {unlogged}TABLE {name} ({definitions}){options}")
    if table.kind == "inherited":  # other order of columns in the child
        shuffled = ", ".join(column.definition() for column in rng.sample(table.columns, len(table.columns)))
        statements += [f"CREATE TABLE {name}_0 (own int, {shuffled})", f"ALTER TABLE {name}_0 INHERIT {name}"]
    left = table.rows
    while left > 0:
        count = min(left, rng.choice((100, 700, 2000)))
        statements.append(_insert(rng, table, count))
        if table.kind == "inherited" and rng.random() < 0.5:
            statements.append(_insert(rng, table, count // 2 + 1).replace(f"INTO {name} ", f"INTO {name}_0 ", 1))
        left -= count
        if rng.random() < 0.5:
            statements += _history(rng, table)
    for _ in range(rng.randrange(3)):
        statements += _history(rng, table)
    if rng.random() < 0.4:
        statements.append(f"CREATE INDEX ON {name} (k)")
    if rng.random() < 0.8:
        statements.append(f"ANALYZE {name}")
    return table, statements


def index(rng: Random, table: Table) -> str:
    """Makes an index for look-ups by the key: of all rows, or of some."""
    column = rng.choice(table.columns).name
    second = f", {column}" if rng.random() < 0.1 else ""
    condition = rng.choice(("", "", f" WHERE {column} IS NOT NULL", f" WHERE k >= {rng.randrange(50)}"))
    return f"CREATE INDEX ON {table.name} (k{second}){condition}"


def _some_rows(rng: Random, table: Table) -> str:
    modulus = rng.choice((2, 5, 50))
    return f"k % {modulus} = {rng.randrange(modulus)}"


def _history(rng: Random, table: Table) -> list:
    """Applies a random change to a table."""
    name = table.name
    kind = rng.randrange(13)
    other = [column for column in table.columns if column.name != "k"]
    column = rng.choice(other)
    if kind == 0:
        return [f"DELETE FROM {name} WHERE {_some_rows(rng, table)}"]
    if kind <= 2:
        return [f"UPDATE {name} SET {column.name} = {column.literal(rng)} WHERE {_some_rows(rng, table)}"]
    if kind == 3:  # chains of several versions on a page
        return [f"UPDATE {name} SET {column.name} = {column.literal(rng)} WHERE k % 20 = 3" for _ in range(4)]
    if kind == 4:
        return [f"VACUUM {name}"]
    if kind == 5:
        return [f"VACUUM (FREEZE, ANALYZE) {name}"]
    if kind == 6 and len(other) > 2:
        table.columns.remove(column)
        return [f"ALTER TABLE {name} DROP COLUMN {column.name}"]
    if kind <= 8:  # earlier rows lack it: a missing value, or NULL
        added = random_column(rng, f"{column.name}x" if len(column.name) < 12 else f"n{rng.randrange(10**6)}")
        if any(present.name == added.name for present in table.columns):
            return []
        table.columns.append(added)
        default = rng.choice(added.pool)
        if len(default) > 200 or rng.random() < 0.3:
            return [f"ALTER TABLE {name} ADD COLUMN {added.definition()}"]
        return [f"ALTER TABLE {name} ADD COLUMN {added.definition()} DEFAULT {default}"]
    if kind == 9:  # rolled back: dead from the beginning
        return ["BEGIN", _insert(rng, table, rng.choice((1, 200))), "ROLLBACK"]
    if kind == 10:
        return ["BEGIN", "SAVEPOINT s", f"UPDATE {name} SET {column.name} = NULL WHERE {_some_rows(rng, table)}",
                "ROLLBACK TO s", f"DELETE FROM {name} WHERE k = 7", "COMMIT"]
    if kind == 11:  # xmax of a locker
        return [f"SELECT count(*) FROM (SELECT FROM {name} WHERE {_some_rows(rng, table)} FOR SHARE) s"]
    if column.family in ("int", "date", "bpchar", "timestamp") or rng.random() < 0.5:
        return [f"CREATE INDEX ON {name} (k)"]
    return []


def enlarge(rng: Random, table: Table) -> list:
    """Runs of pages for the column cache: more rows, all-visible."""
    copies = {0: 0, 1: 0, 40: 5, 1100: 2, 2500: 1, 5000: 0}[table.rows]
    statements = [f"INSERT INTO {table.name} SELECT * FROM {table.name}"] * copies
    return statements + ([f"VACUUM {table.name}"] if rng.random() < 0.8 else [])


def disturb(rng: Random, table: Table) -> list:
    """Applies another session's change to a table while snapshots are held; its columns stay."""
    column = rng.choice(table.columns)
    value = column.literal(rng) if column.name != "k" else "k"
    return rng.choice((
        [f"UPDATE {table.name} SET {column.name} = {value} WHERE {_some_rows(rng, table)}"],
        [f"DELETE FROM {table.name} WHERE {_some_rows(rng, table)}"],
        [_insert(rng, table, rng.choice((1, 300)))],
        [f"DELETE FROM {table.name} WHERE {_some_rows(rng, table)}", f"VACUUM {table.name}"],
        [f"VACUUM {table.name}"],
    ))
