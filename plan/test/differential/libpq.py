"""A minimal libpq by ctypes: it needs no package beyond the server's own, and values arrive as the server prints
them, so that equal values have equal digits.
"""

import ctypes
import ctypes.util
from dataclasses import dataclass, field

_libpq = ctypes.CDLL(ctypes.util.find_library("pq") or "libpq.so.5")
_NOTICE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p)
for _name, _result, _arguments in (
    ("PQconnectdb", ctypes.c_void_p, [ctypes.c_char_p]),
    ("PQstatus", ctypes.c_int, [ctypes.c_void_p]),
    ("PQerrorMessage", ctypes.c_char_p, [ctypes.c_void_p]),
    ("PQfinish", None, [ctypes.c_void_p]),
    ("PQexec", ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_char_p]),
    ("PQresultStatus", ctypes.c_int, [ctypes.c_void_p]),
    ("PQresultErrorField", ctypes.c_char_p, [ctypes.c_void_p, ctypes.c_int]),
    ("PQntuples", ctypes.c_int, [ctypes.c_void_p]),
    ("PQnfields", ctypes.c_int, [ctypes.c_void_p]),
    ("PQgetvalue", ctypes.c_char_p, [ctypes.c_void_p, ctypes.c_int, ctypes.c_int]),
    ("PQgetisnull", ctypes.c_int, [ctypes.c_void_p, ctypes.c_int, ctypes.c_int]),
    ("PQclear", None, [ctypes.c_void_p]),
    ("PQbackendPID", ctypes.c_int, [ctypes.c_void_p]),
    ("PQsetNoticeProcessor", ctypes.c_void_p, [ctypes.c_void_p, _NOTICE, ctypes.c_void_p]),
):
    _function = getattr(_libpq, _name)
    _function.restype = _result
    _function.argtypes = _arguments

_COMMAND_OK, _TUPLES_OK = 1, 2
_SQLSTATE, _MESSAGE = ord("C"), ord("M")


class ConnectionLost(Exception):
    """The server is gone, or ended this session."""


class SqlError(Exception):
    """A statement that had to succeed did not."""


@dataclass
class Result:
    """The result of a statement: rows of texts (None is NULL), or an error."""

    rows: list = field(default_factory=list)
    sqlstate: str = ""
    message: str = ""


class Connection:
    def __init__(self, conninfo: str):
        self.conninfo = conninfo
        self.notices: list[str] = []
        self._handle = _libpq.PQconnectdb(conninfo.encode())
        if _libpq.PQstatus(self._handle) != 0:
            raise ConnectionLost(_libpq.PQerrorMessage(self._handle).decode(errors="replace"))
        # Kept in the object, because libpq keeps only a pointer to it.
        self._processor = _NOTICE(lambda _, text: self.notices.append(text.decode(errors="replace").strip()))
        _libpq.PQsetNoticeProcessor(self._handle, self._processor, None)
        self.pid = _libpq.PQbackendPID(self._handle)

    def try_run(self, sql: str) -> Result:
        """Runs statements; an error of SQL is a result."""
        answer = _libpq.PQexec(self._handle, sql.encode())
        try:
            status = _libpq.PQresultStatus(answer) if answer else 7
            if status in (_COMMAND_OK, _TUPLES_OK):
                columns = range(_libpq.PQnfields(answer))
                value, is_null = _libpq.PQgetvalue, _libpq.PQgetisnull
                rows = []
                for row in range(_libpq.PQntuples(answer)):
                    cells = []
                    for column in columns:
                        text = value(answer, row, column)
                        cells.append(None if text == b"" and is_null(answer, row, column) else text)
                    rows.append(tuple(cells))
                return Result(rows=rows)
            if _libpq.PQstatus(self._handle) != 0:
                raise ConnectionLost(_libpq.PQerrorMessage(self._handle).decode(errors="replace").strip())
            state = _libpq.PQresultErrorField(answer, _SQLSTATE) or b"?????"
            message = _libpq.PQresultErrorField(answer, _MESSAGE) or _libpq.PQerrorMessage(self._handle)
            return Result(sqlstate=state.decode(), message=message.decode(errors="replace").strip())
        finally:
            if answer:
                _libpq.PQclear(answer)

    def run(self, sql: str) -> list:
        """Runs statements that have to succeed; the rows of the last."""
        result = self.try_run(sql)
        if result.sqlstate:
            raise SqlError(f"{result.sqlstate} {result.message}\n{sql[:2000]}")
        return result.rows

    def close(self):
        if self._handle:
            _libpq.PQfinish(self._handle)
            self._handle = None
