"""The messages of PostgreSQL's protocol that a measuring client needs, over a unix socket.

A separate client instead of psql, for two reasons: no program start is included in the measured time, and the server
sends the process id of the backend as soon as it is connected.
"""

import socket
import struct

from processes import Trouble


class PostgresError(Trouble):
    """An error of the server, with its text."""


class Connection:
    """One connection, one backend."""

    def __init__(self, socket_path: str, user: str, database: str):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.backend = 0
        self._buffer = b""
        try:
            self.socket.connect(socket_path)
            words = b"".join(word.encode() + b"\0" for word in ("user", user, "database", database))
            body = struct.pack("!I", 3 << 16) + words + b"\0"
            self.socket.sendall(struct.pack("!I", len(body) + 4) + body)
            self._until_ready()
        except BaseException:
            self.socket.close()
            raise

    def query(self, sql: str) -> list:
        """Runs SQL by the simple protocol, as pgbench does; returns the rows as lists of texts."""
        body = sql.encode() + b"\0"
        self.socket.sendall(b"Q" + struct.pack("!I", len(body) + 4) + body)
        return self._until_ready()

    def close(self) -> None:
        try:
            self.socket.sendall(b"X" + struct.pack("!I", 4))
        except OSError:
            pass  # the server ended first
        self.socket.close()

    def _until_ready(self) -> list:
        rows: list = []
        error = None
        while True:
            kind, body = self._message()
            if kind == b"Z":
                if error:
                    raise PostgresError(error)
                return rows
            if kind == b"D":
                rows.append(_row(body))
            elif kind == b"K":
                self.backend = struct.unpack_from("!I", body)[0]
            elif kind == b"R" and struct.unpack_from("!I", body)[0] != 0:
                raise PostgresError("the server asks for a password: it is none that hardmeter made")
            elif kind == b"E":
                fields = dict((part[:1], part[1:]) for part in body.split(b"\0") if part)
                error = fields.get(b"M", b"an error without a message").decode(errors="replace")
                if fields.get(b"S") == b"FATAL":
                    raise PostgresError(error)

    def _message(self):
        head = self._exactly(5)
        return head[:1], self._exactly(struct.unpack_from("!I", head, 1)[0] - 4)

    def _exactly(self, count: int) -> bytes:
        while len(self._buffer) < count:
            received = self.socket.recv(1 << 16)
            if not received:
                raise PostgresError("the server closed the connection")
            self._buffer += received
        taken, self._buffer = self._buffer[:count], self._buffer[count:]
        return taken


def _row(body: bytes) -> list:
    """A DataRow: the number of columns, then each one's length (-1 is NULL) and text."""
    columns, at, row = struct.unpack_from("!H", body)[0], 2, []
    for _ in range(columns):
        length = struct.unpack_from("!i", body, at)[0]
        at += 4
        row.append(None if length < 0 else body[at : at + length].decode())
        at += max(length, 0)
    return row
