"""Makes random queries whose answer does not depend on the plan.

What a correct plan may change is kept out of the answers: an ORDER BY before a LIMIT has every column; sums of floats are
of values that add up exactly; where a window function depends on the order of peers, its ORDER BY has every column shown; and where one of several equal values is chosen (grouping, DISTINCT, min) those that print
in different forms (1.0 and 1.00, or 'a' and 'A' where a collation folds case) are brought to one form by shown().
"""

import re
from dataclasses import dataclass, field, replace
from random import Random

from tables import MANY_FORMS, quoted

NUMBERS = ("int", "numeric", "float")
_CONSTANT = re.compile("\x01([^\x02]*)\x02([^\x03]*)\x03")


def constant(type_name: str, literal: str) -> str:
    """A constant of a query: printed in place, or a parameter of a prepared statement."""
    return f"\x01{type_name}\x02{literal}\x03"


def with_literals(sql: str) -> str:
    return _CONSTANT.sub(lambda match: f"{match[2]}::{match[1]}", sql)


def with_parameters(sql: str) -> tuple:
    """The statement with $1, $2 ..., and the types and literals of those."""
    found = {}  # equal constants are one parameter, because GROUP BY must recognise the expression of the target list
    text = _CONSTANT.sub(lambda match: f"${found.setdefault((match[1], match[2]), len(found) + 1)}", sql)
    return text, [key[0] for key in found], [key[1] for key in found]


@dataclass
class Expr:
    sql: str
    family: str
    type: str = ""
    forms: str = ""
    collation: str = ""
    sums_exactly: bool = True
    pool: tuple = ()


@dataclass
class Source:
    text: str  # a table or (SELECT ...) with its alias; {0} is the subquery
    subquery: "Select" = None
    join: str = ""  # '' for the first
    on: list = field(default_factory=list)

    def render(self) -> str:
        return self.text.format(self.subquery.render()) if self.subquery else self.text


@dataclass
class Select:
    items: list
    sources: list
    where: list = field(default_factory=list)
    group: list = None
    grouping: str = ""  # ROLLUP, CUBE, GROUPING SETS
    sets: list = field(default_factory=list)  # of GROUPING SETS: positions in group
    having: list = field(default_factory=list)
    distinct: bool = False
    ctes: list = field(default_factory=list)  # (name, MATERIALIZED or nothing, Select)
    union: tuple = None  # (UNION ALL ..., Select)
    order: str = ""  # '' or a suffix of each key
    first: int = 0  # the item that is the first key; the others follow
    limit: str = ""

    def render(self) -> str:
        parts = []
        if self.ctes:
            parts.append("WITH " + ", ".join(f"{name} AS {how} ({body.render()})" for name, how, body in self.ctes))
        names = ", ".join(f"{item.sql} AS o{number}" for number, item in enumerate(self.items))
        parts.append(f"SELECT {'DISTINCT ' if self.distinct else ''}{names}")
        for number, source in enumerate(self.sources):
            if number == 0:
                parts.append(f"FROM {source.render()}")
            elif source.join in ("CROSS JOIN", "CROSS JOIN LATERAL"):
                parts.append(f"{source.join} {source.render()}")
            else:
                parts.append(f"{source.join} {source.render()} ON {' AND '.join(source.on) or 'true'}")
        if self.where:
            parts.append("WHERE " + " AND ".join(f"({clause})" for clause in self.where))
        if self.group:
            keys = ", ".join(self.group)
            if self.grouping == "GROUPING SETS":
                keys = ", ".join(f"({', '.join(self.group[key] for key in keys)})" for keys in self.sets)
            parts.append(f"GROUP BY {self.grouping}({keys})" if self.grouping else f"GROUP BY {keys}")
        if self.having:
            parts.append("HAVING " + " AND ".join(f"({clause})" for clause in self.having))
        if self.union:
            parts.append(f"{self.union[0]} {self.union[1].render()}")
        if self.order:
            items = len(self.items)
            keys = ((self.first + number) % items + 1 for number in range(items))
            parts.append("ORDER BY " + ", ".join(f"{key}{self.order}" for key in keys))
        if self.limit:
            parts.append(self.limit)
        return " ".join(parts)

    def smaller(self):
        """Yields queries with one part less, the largest parts first. Some are not valid SQL, which their error
        shows.
        """
        for name in ("union", "limit", "order", "grouping", "distinct", "group"):
            if getattr(self, name):
                yield replace(self, **{name: type(self.__dict__[name])() if name not in ("union", "group") else None})
        for number in reversed(range(1, len(self.sources))):
            yield replace(self, sources=self.sources[:number] + self.sources[number + 1:])
        for name in ("ctes", "where", "having", "items"):
            parts = getattr(self, name)
            for number in range(len(parts)):
                if name != "items" or len(parts) > 1:
                    yield replace(self, **{name: parts[:number] + parts[number + 1:]})
        for number, source in enumerate(self.sources):
            for part in range(len(source.on)):
                changed = replace(source, on=source.on[:part] + source.on[part + 1:])
                yield replace(self, sources=self.sources[:number] + [changed] + self.sources[number + 1:])
            if source.subquery:
                for subquery in source.subquery.smaller():
                    changed = replace(source, subquery=subquery)
                    yield replace(self, sources=self.sources[:number] + [changed] + self.sources[number + 1:])
        for number, (name, how, body) in enumerate(self.ctes):
            for subquery in body.smaller():
                yield replace(self, ctes=self.ctes[:number] + [(name, how, subquery)] + self.ctes[number + 1:])


def shown(expr: Expr) -> Expr:
    """The expression in one form for all equal values."""
    if expr.forms != MANY_FORMS:
        return expr
    if expr.family == "numeric":
        return replace(expr, sql=f"trim_scale({expr.sql})", forms="")
    return Expr(f"({expr.sql} IS NULL)", "bool", "bool")


class Generator:
    def __init__(self, rng: Random, tables: list):
        self.rng = rng
        self.tables = tables
        self.aliases = 0

    # ---- scalars ----

    def chance(self, share: float) -> bool:
        return self.rng.random() < share

    def pick(self, scope: list, *families) -> Expr:
        """A column in scope, of one of the families if there is one."""
        fitting = [expr for expr in scope if not families or expr.family in families]
        return self.rng.choice(fitting) if fitting else None

    def constant_for(self, expr: Expr) -> str:
        rng = self.rng
        if self.chance(0.02):
            return constant(self.constant_type(expr), "NULL")
        if not expr.pool:
            return constant("int4", "'3'") if expr.family in NUMBERS else "NULL"
        literal = rng.choice(expr.pool)
        special = not re.fullmatch(r"'-?\d+(\.\d+)?'", literal)
        if expr.family == "int" and expr.type != "oid" and self.chance(0.3):  # of another type of number
            return constant("numeric" if self.chance(0.5) else "int8", literal)
        if expr.family == "numeric" and not special and self.chance(0.2):
            return constant(*rng.choice((("int4", quoted(str(rng.randint(-9, 99)))), ("float8", literal))))
        if expr.family == "date" and self.chance(0.3):
            return rng.choice((f"({constant('date', quoted('1995-03-01'))} + interval '1 year')",
                               constant("timestamp", quoted("1995-06-17 12:00:00"))))
        if expr.family == "text" and len(literal) < 60 and self.chance(0.1):  # the types of current_user, of literals of char
            return constant(rng.choice(("name", "bpchar")), literal)
        return constant(self.constant_type(expr), literal)

    @staticmethod
    def constant_type(expr: Expr) -> str:
        return {"bpchar": "bpchar", "text": "text", "numeric": "numeric", "bool": "bool", "date": "date"}.get(
            expr.family, expr.type)

    def number(self, scope: list, depth: int = 2) -> Expr:
        """Returns a numeric expression."""
        rng = self.rng
        column = self.pick(scope, "int", "numeric") or Expr(constant("int4", "'7'"), "int", "int4")
        if column.type == "oid":  # it has no operators with other numbers
            column = replace(column, sql=f"({column.sql}::int8)", type="int8", pool=())
        if depth == 0 or self.chance(0.45):
            return column
        other = self.number(scope, depth - 1)
        family = "numeric" if "numeric" in (column.family, other.family) else "int"
        forms = column.forms or other.forms
        # These expressions must not fail: the plan decides for which rows an expression is computed.
        left = column.sql
        if family == "int" and not (left.endswith(".k") and other.sql.endswith(".k") and self.chance(0.5)):
            if {column.type, other.type} <= {"int2", "int4"} and not other.sql.startswith("("):
                left = f"{left}::int8"
            else:
                left, family = f"{left}::numeric", "numeric"
        kind = rng.randrange(9)
        if kind <= 4:
            operator = rng.choice("+-*")
            if operator == "*" and family == "int":
                left, family = f"{column.sql}::numeric", "numeric"
            return Expr(f"({left} {operator} {other.sql})", family, "numeric" if family == "numeric" else "int8", forms)
        if kind == 5:
            return Expr(f"({left} * ({constant('int4', quoted('1'))} - {other.sql}::numeric))", "numeric", "numeric", forms)
        if kind == 6:
            return Expr(f"coalesce({left}, {other.sql})", family, "numeric" if family == "numeric" else "int8",
                        MANY_FORMS if family == "numeric" else "")
        if kind == 7:
            condition = self.predicate(scope, 1, [])
            return Expr(f"CASE WHEN {condition} THEN {left} ELSE {constant('int4', quoted('0'))} END", family,
                        "numeric" if family == "numeric" else "int8", MANY_FORMS if family == "numeric" else "")
        return Expr(f"-({left})::numeric", "numeric", "numeric", forms)

    # ---- predicates ----

    def compared(self, scope: list, column: Expr) -> str:
        """Returns a value or a column of the same scope that a column can be compared with."""
        same = [other for other in scope if other.family == column.family and other.sql != column.sql
                and other.collation == column.collation and (column.family != "opaque" or other.type == column.type)
                and "oid" not in (other.type, column.type)]
        return self.rng.choice(same).sql if same else None

    def predicate(self, scope: list, depth: int, outer: list) -> str:
        rng = self.rng
        if depth and self.chance(0.25):
            parts = [self.predicate(scope, depth - 1, outer) for _ in range(rng.randint(2, 3))]
            text = rng.choice((" AND ", " OR ", " OR ")).join(f"({part})" for part in parts)
            return f"NOT ({text})" if self.chance(0.2) else text
        if depth and self.chance(0.15):
            return self.subquery_predicate(scope)
        column = self.pick(scope)
        operator = rng.choice(("=", "<>", "<", "<=", ">", ">="))
        kind = rng.random()
        if column.family == "bool" and kind < 0.7:
            return rng.choice(("{0}", "NOT {0}", "{0} IS TRUE", "{0} IS NOT FALSE", "{0} = true")).format(column.sql)
        if column.family == "opaque" and column.type not in ("uuid", "name", '"char"', "bytea") or kind < 0.1:
            return f"{column.sql} IS {rng.choice(('', 'NOT '))}NULL"
        if kind < 0.2 and column.family in ("text", "bpchar") and not column.forms:
            word = rng.choice(column.pool)[1:-1][:6] if column.pool else "a"
            pattern = rng.choice((word + "%", "%" + word, "%" + word + "%", word, "%" + word[:2] + "%" + word[-1:] + "%",
                                  "_" + word[1:], word[:2] + "\\\\%"))
            return f"{column.sql} {rng.choice(('', 'NOT '))}LIKE {constant('text', quoted(pattern))}"
        if kind < 0.3:
            other = self.compared(scope, column)
            if other:
                return f"{column.sql} {operator} {other}"
        if kind < 0.35 and outer:
            other = self.compared(outer, column)
            if other:
                return f"{column.sql} {operator} {other}"
        if kind < 0.5:
            low, high = self.constant_for(column), self.constant_for(column)
            return f"{column.sql} {rng.choice(('', '', 'NOT '))}BETWEEN {low} AND {high}"
        if kind < 0.62:
            kind_of = self.constant_type(column)
            values = [constant(kind_of, rng.choice(column.pool)) if column.pool else "NULL" for _ in range(rng.randint(1, 6))]
            if self.chance(0.05):
                values.append(f"NULL::{kind_of}")
            return f"{column.sql} {rng.choice(('', '', 'NOT '))}IN ({', '.join(values)})"
        if kind < 0.68 and column.family in ("int", "numeric"):
            number = self.number(scope, 1)
            return f"{number.sql} {operator} {constant('numeric', quoted(str(rng.randint(-50, 500))))}"
        if kind < 0.72:
            return f"{column.sql} IS {rng.choice(('', 'NOT '))}DISTINCT FROM {self.constant_for(column)}"
        if kind < 0.76:  # the constant to the left
            return f"{self.constant_for(column)} {operator} {column.sql}"
        return f"{column.sql} {operator} {self.constant_for(column)}"

    def subquery_predicate(self, scope: list) -> str:
        rng = self.rng
        table = rng.choice(self.tables)
        alias, inner = self.use(table)
        where = [self.predicate(inner, 0, scope) for _ in range(rng.randrange(2))]
        kind = rng.random()
        keys = [expr for expr in scope if expr.sql.endswith(".k")]
        key = rng.choice(keys).sql if keys else constant("int4", "'3'")
        text = f"{table.name} AS {alias}"
        if kind < 0.5 or not inner:
            clauses = " AND ".join(f"({clause})" for clause in [f"{alias}.k = {key}", *where])
            return f"{rng.choice(('', 'NOT '))}EXISTS (SELECT 1 FROM {text} WHERE {clauses})"
        clauses = "WHERE " + " AND ".join(f"({clause})" for clause in where) if where else ""
        if kind < 0.85:
            return f"{key} {rng.choice(('', 'NOT '))}IN (SELECT {alias}.k FROM {text} {clauses})"
        return (f"{key} {rng.choice(('<', '=', '>'))} (SELECT {rng.choice(('max', 'min'))}({alias}.k) FROM {text} "
                f"WHERE {alias}.k {rng.choice(('=', '<='))} {key})")

    # ---- sources ----

    def use(self, table) -> tuple:
        """Returns an alias of a table, and its columns."""
        self.aliases += 1
        alias = f"t{self.aliases}"
        scope = [Expr(f"{alias}.{column.name}", column.family, column.type.split("(")[0], column.forms, column.collation,
                      column.sums_exactly, tuple(column.pool[:40])) for column in table.columns]
        return alias, scope

    def source(self, depth: int, lateral_scope: list, ctes: list) -> tuple:
        rng = self.rng
        if ctes and self.chance(0.7):
            name, _, body = rng.choice(ctes)
            self.aliases += 1
            alias = f"t{self.aliases}"
            return Source(f"{name} AS {alias}"), self.outputs(alias, body)
        if depth and self.chance(0.2):
            body = self.select(depth - 1, lateral_scope)
            self.aliases += 1
            alias = f"t{self.aliases}"
            return Source(f"({{0}}) AS {alias}", body), self.outputs(alias, body)
        table = rng.choice(self.tables)
        alias, scope = self.use(table)
        name = f"ONLY {table.name}" if table.kind == "inherited" and self.chance(0.2) else table.name
        return Source(f"{name} AS {alias}"), scope

    @staticmethod
    def outputs(alias: str, body: Select) -> list:
        # Equal averages have different display scales, and where they are grouped again any one of them is shown.
        return [replace(item, sql=f"{alias}.o{number}", forms=MANY_FORMS if "avg(" in item.sql else item.forms)
                for number, item in enumerate(body.items)]

    def join_condition(self, left: list, right: list) -> list:
        rng = self.rng
        keys = [(a, b) for a in left for b in right if a.sql.endswith(".k") and b.sql.endswith(".k")]
        if keys and self.chance(0.75):
            a, b = rng.choice(keys)
            conditions = [f"{a.sql} = {b.sql}"]
        else:
            pairs = [(a, b) for a in left for b in right if a.family == b.family and a.collation == b.collation
                     and a.family not in ("opaque", "bool") and "oid" not in (a.type, b.type)
                     and min(len(a.pool), len(b.pool)) >= 30]  # else the product is large
            if not pairs:
                return []
            a, b = rng.choice(pairs)
            conditions = [f"{a.sql} = {b.sql}"]
        if self.chance(0.2):
            pairs = [(a, b) for a in left for b in right if a.family == b.family and a.family in NUMBERS
                     and "oid" not in (a.type, b.type)]
            if pairs:
                a, b = rng.choice(pairs)
                conditions.append(f"{a.sql} {rng.choice(('=', '<', '<>', '>='))} {b.sql}")
        return conditions

    # ---- statements ----

    def aggregate(self, scope: list) -> Expr:
        rng = self.rng
        kind = rng.random()
        if kind < 0.2:
            result = Expr("count(*)", "int", "int8")
        elif kind < 0.3:
            result = Expr(f"count({self.pick(scope).sql})", "int", "int8")
        elif kind < 0.65 and self.pick(scope, "int", "numeric"):
            number = self.number(scope)
            result = Expr(f"{rng.choice(('sum', 'sum', 'avg'))}({number.sql})", "numeric", "numeric")
        elif kind < 0.7 and (column := self.pick(scope, "float")) and column.sums_exactly:
            result = Expr(f"sum({column.sql})", "float", "float8")
        elif kind < 0.75 and (column := self.pick(scope, "int", "date", "bool", "numeric")):
            result = Expr(f"count(DISTINCT {column.sql})", "int", "int8")
        elif kind < 0.8 and (column := self.pick(scope, "bool")):
            result = Expr(f"{rng.choice(('bool_and', 'bool_or'))}({column.sql})", "bool", "bool")
        elif kind < 0.84 and (column := self.pick(scope, "int")) and column.type != "oid":
            result = Expr(f"{rng.choice(('bit_and', 'bit_or', 'var_pop', 'stddev'))}({column.sql})", "numeric", "numeric")
        else:
            column = self.pick(scope, "int", "numeric", "date", "timestamp", "text", "bpchar", "float")
            if column is None or column.type in ("varchar", "name"):
                result = Expr("count(*)", "int", "int8")
            else:
                if column.family == "numeric" and self.chance(0.3):
                    column = self.number(scope)
                    column = replace(column, sql=f"({column.sql})::numeric", family="numeric", type="numeric", pool=())
                result = replace(column, sql=f"{rng.choice(('min', 'max'))}({column.sql})")
                result = shown(result)
        if self.chance(0.2) and result.sql.endswith(")") and "trim_scale" not in result.sql and "IS NULL" not in result.sql[-12:]:
            result = replace(result, sql=f"{result.sql} FILTER (WHERE {self.predicate(scope, 0, [])})")
        return replace(result, pool=())

    # ---- windows ----

    def window_aggregate(self, columns: list) -> Expr:
        """An aggregate of one of the columns, to be followed by OVER."""
        rng = self.rng
        column = self.pick([column for column in columns if column.type != "oid" and column.sums_exactly], "int", "numeric", "float")
        kind = rng.random()
        if column is None or kind < 0.2:
            return Expr("count(*)" if self.chance(0.5) else f"count({rng.choice(columns).sql})", "int", "int8")
        if kind < 0.7 or column.family == "float":
            return Expr(f"{'sum' if column.family == 'float' else rng.choice(('sum', 'sum', 'avg'))}({column.sql})",
                        "float" if column.family == "float" else "numeric", "float8" if column.family == "float" else "numeric")
        extreme = self.pick(columns, "int", "numeric", "date", "timestamp")
        return replace(extreme, sql=f"{rng.choice(('min', 'max'))}({extreme.sql})", pool=())

    def window_function(self, columns: list, ordered: bool) -> Expr:
        """A window function without OVER. Unless ordered, one that does not depend on the order of peers."""
        rng = self.rng
        rank = rng.choice(("rank()", "dense_rank()", "percent_rank()", "cume_dist()", "row_number()", "ntile(4)")[:6 if ordered else 4])
        family = "float" if rank[0] in "pc" else "int"
        if self.chance(0.4):
            return Expr(rank, family, "float8" if family == "float" else "int4" if rank[0] == "n" else "int8")
        if not ordered or self.chance(0.6):
            return self.window_aggregate(columns)
        column = rng.choice(columns)
        name = rng.choice(("lag({0})", "lead({0})", "lag({0}, 2)", "lead({0}, 3)", "lead({0}, -1)", "lag({0}, 0)", "first_value({0})",
                           "last_value({0})", "nth_value({0}, 2)"))
        if column.type in ("int4", "int8") and self.chance(0.2):
            name = "lag({0}, 1, 7)"
        return replace(column, sql=name.format(column.sql), pool=())

    def window(self, partition: list, order: list, ordered: bool) -> str:
        rng = self.rng
        text = f"PARTITION BY {', '.join(column.sql for column in partition)} " if partition else ""
        keys = [f"{column.sql}{rng.choice(('', '', ' DESC', ' NULLS FIRST', ' DESC NULLS LAST'))}" for column in order]
        if keys:
            text += f"ORDER BY {', '.join(keys)} "
        frames = ["", "", "", "RANGE UNBOUNDED PRECEDING", "RANGE BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING",
                  "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING"]
        if ordered:
            frames += ["ROWS UNBOUNDED PRECEDING", "ROWS UNBOUNDED PRECEDING", "ROWS BETWEEN 2 PRECEDING AND CURRENT ROW"]
        return (text + rng.choice(frames)).strip()

    def windows(self, query: Select, scope: list):
        """Makes the items window functions over rows of some of the columns; false if these do not suffice."""
        rng = self.rng
        columns = [column for column in scope if column.family != "opaque" and not column.forms]
        if not columns:
            return False
        columns = rng.sample(columns, rng.randint(1, min(5, len(columns))))
        query.items = list(columns)
        for number in range(rng.choices((1, 2), (3, 1))[0]):
            # Two windows may number equal rows in two orders: the plan decides which pairs result.
            ordered = number == 0 and self.chance(0.6)
            shuffled = rng.sample(columns, len(columns))
            split = rng.choices((0, 1, 2), (2, 4, 1))[0]
            partition, order = shuffled[:split], shuffled[split:]
            if not ordered:
                order = order[:rng.randint(0, 2)]
            over = self.window(partition, order, ordered)
            for _ in range(rng.randint(1, 3)):
                function = self.window_function(columns, ordered)
                query.items.append(replace(function, sql=f"{function.sql} OVER ({over})"))
        return True

    def ranked(self, body: Select) -> Select:
        """The first rows of each partition: a condition on a rank."""
        self.aliases += 1
        alias = f"t{self.aliases}"
        ranks = [number for number, item in enumerate(body.items) if item.sql.startswith(("row_number", "rank", "dense", "count"))
                 and " OVER " in item.sql]
        if not ranks:
            return body
        outer = Select([replace(item, pool=()) for item in self.outputs(alias, body)], [Source(f"({{0}}) AS {alias}", body)])
        outer.where = [f"{alias}.o{self.rng.choice(ranks)} {self.rng.choice(('<=', '<', '=', '>='))} {self.rng.choice((1, 2, 5, 20))}"]
        return outer

    def select(self, depth: int = 2, outer: list = (), top: bool = False) -> Select:
        rng = self.rng
        ctes = []
        if top and self.chance(0.12):
            for number in range(rng.randint(1, 2)):
                ctes.append((f"w{number}", rng.choice(("", "MATERIALIZED", "NOT MATERIALIZED")), self.select(1)))
        first, scope = self.source(depth, [], ctes)
        sources = [first]
        for _ in range(rng.choices((0, 1, 2, 3), (50, 32, 14, 4))[0]):
            lateral = self.chance(0.08)
            source, right = self.source(max(1, depth) if lateral else depth, scope if lateral else [], ctes)
            source.on = self.join_condition(scope, right)
            source.join = rng.choices(("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"), (10, 4, 2, 2))[0]
            if not source.on:
                source.join = "JOIN"
                source.on = [self.predicate(right, 0, [])]
            if lateral and source.subquery:
                source.text = "LATERAL " + source.text
                if source.join in ("RIGHT JOIN", "FULL JOIN"):
                    source.join = "JOIN"
            sources.append(source)
            scope = scope + right
        query = Select([], sources, ctes=ctes)
        query.where = [self.predicate(scope, 2 if depth else 1, list(outer)) for _ in range(rng.choices((0, 1, 2, 3), (4, 6, 2, 1))[0])]

        ambiguous = False
        kind = rng.random()
        if kind < (0.5 if len(sources) == 1 else 0.75):  # aggregates
            ambiguous = True
            keys = []
            for _ in range(rng.choices((0, 1, 2, 3), (4, 5, 3, 1))[0]):
                keys.append(self.number(scope, 1) if self.chance(0.15) else self.pick(scope))
            keys = [key for key in keys if key.family != "opaque" or key.type in ("uuid", '"char"', "name")]
            if any("\x01" in key.sql and "." not in key.sql for key in keys):
                keys = []
            query.group = [key.sql for key in keys] or None
            # Up to 17 a subquery is another one in trim_scale(key) than in the key: evaluated above the sets, it gives
            # what the row at hand has there, and stock's answer depends on its plan.
            if keys and self.chance(0.2) and not any("SELECT" in key.sql for key in keys):
                query.grouping = rng.choice(("ROLLUP", "CUBE", "GROUPING SETS"))
                positions = range(len(keys))
                query.sets = [rng.sample(positions, rng.randint(0, len(keys))) for _ in range(rng.randint(1, 4))]
                query.sets.append(list(positions))  # each key must be in one of them
            query.items = [shown(key) for key in keys] + [self.aggregate(scope) for _ in range(rng.randint(1, 4))]
            if query.grouping and self.chance(0.5):
                query.items.append(Expr(f"GROUPING({rng.choice(query.group)})", "int", "int4"))
            if self.chance(0.15):
                query.having = [rng.choice(("count(*) > 1", "count(*) < 5", f"{self.aggregate(scope).sql} IS NOT NULL"))]
            if self.chance(0.1):
                query.items.append(Expr(rng.choice(("rank() OVER (ORDER BY count(*) DESC)", "sum(count(*)) OVER ()",
                                                    "max(count(*)) OVER (ORDER BY count(*))")), "numeric", "numeric"))
        elif self.chance(0.3) and self.windows(query, scope):
            ambiguous = True
            if not outer and not ctes and self.chance(0.3):
                query = self.ranked(query)
        else:
            count = rng.randint(1, 5)
            query.items = [self.number(scope) if self.chance(0.2) else self.pick(scope) for _ in range(count)]
            if self.chance(0.05) and " AS " in first.text and not first.subquery:
                alias = first.text.split()[-1]
                extra = rng.choice((f"{alias}.ctid", f"{alias}.tableoid::regclass", f"{alias}::text"))
                if not first.text.startswith("w"):
                    query.items.append(Expr(extra, "opaque", "other"))
            if self.chance(0.12) and all(item.type not in ("jsonb", "int4[]", "other") for item in query.items):
                query.distinct = ambiguous = True
        if top and self.chance(0.25):
            query.order = rng.choice(("", " DESC", " NULLS FIRST", " DESC NULLS LAST")) or " ASC"
            query.first = rng.randrange(8)
            query.limit = rng.choice(("", "LIMIT 1", "LIMIT 10", "LIMIT 100 OFFSET 5", "LIMIT 0"))
            ambiguous = True
        if ambiguous:
            query.items = [shown(item) for item in query.items]
        if top and not query.order and not query.grouping and self.chance(0.05):
            query.union = (rng.choice(("UNION ALL", "UNION ALL", "EXCEPT ALL", "INTERSECT")), replace(query, where=[], ctes=[]))
            query.items = query.union[1].items = [shown(item) for item in query.items]
        return query
