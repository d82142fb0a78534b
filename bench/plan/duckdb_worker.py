"""DuckDB's process for duckdb_peer.py: loads a table, prints the query's answer, then the CPU time of each requested
run.
"""

import json
import sys
import time

import duckdb


def main(path: str, columns: str, query: str) -> None:
    database = duckdb.connect(":memory:", config={"threads": 1})
    database.execute(f"CREATE TABLE lineitem ({columns})")
    database.execute(f"COPY lineitem FROM '{path}' (FORMAT csv, DELIMITER '|', HEADER false)")
    answer = database.execute(query).fetchall()
    print(json.dumps([[str(value) for value in row] for row in answer]), flush=True)
    for _ in sys.stdin:
        before = time.process_time()  # of all threads
        database.execute(query).fetchall()
        print(json.dumps(time.process_time() - before), flush=True)


main(*sys.argv[1:])
