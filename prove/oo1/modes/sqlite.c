/*
 * SQLite: tables, primary keys, and in layout oo1 an index for the reverse direction; statements
 * prepared once. A unit is a transaction. Write-ahead log, synced at each commit.
 */
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

#include "die.h"
#include "mode.h"
#include "null_proc.h"
#include "record.h"

static sqlite3 *database;
static sqlite3_stmt *begin, *commit, *part_by_id, *insert_part;
#ifndef OO1_PAPER
static sqlite3_stmt *out_of, *into, *insert_connection;
#endif

static void check(int code, const char *what) {
  if (code != SQLITE_OK && code != SQLITE_DONE && code != SQLITE_ROW)
    oo1_die("SQLite cannot %s: %s", what, sqlite3_errmsg(database));
}

static void execute(const char *statements) {
  check(sqlite3_exec(database, statements, NULL, NULL, NULL), statements);
}

static sqlite3_stmt *prepared(const char *text) {
  sqlite3_stmt *statement;
  check(sqlite3_prepare_v3(database, text, -1, SQLITE_PREPARE_PERSISTENT, &statement, NULL), text);
  return statement;
}

/* One without rows. */
static void run(sqlite3_stmt *statement) {
  check(sqlite3_step(statement), sqlite3_sql(statement));
  sqlite3_reset(statement);
}

static void open_database(const char *folder) {
  char *path = oo1_format("%s/parts.sqlite", folder);
  check(sqlite3_open(path, &database), "open its file");
  free(path);
  execute(
      "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA mmap_size = 17179869184;"
      "PRAGMA cache_size = -1048576;");
}

static void prepare_all(void) {
  begin = prepared("BEGIN");
  commit = prepared("COMMIT");
#ifdef OO1_PAPER
  part_by_id = prepared("SELECT x, y, type, to0, to1, to2 FROM part WHERE id = ?");
  insert_part = prepared("INSERT INTO part VALUES (?, ?, ?, ?, ?, ?, ?, ?)");
#else
  part_by_id = prepared("SELECT x, y, type FROM part WHERE id = ?");
  insert_part = prepared("INSERT INTO part VALUES (?, ?, ?, ?, ?)");
  out_of = prepared("SELECT target FROM connection WHERE source = ? ORDER BY k");
  into = prepared("SELECT source FROM connection WHERE target = ? ORDER BY source DESC, k DESC");
  insert_connection = prepared("INSERT INTO connection VALUES (?, ?, ?, ?, ?)");
#endif
}

static void put(const oo1_graph_part *part) {
  sqlite3_bind_int64(insert_part, 1, part->id);
  sqlite3_bind_text(insert_part, 2, part->type, OO1_TYPE_BYTES, SQLITE_STATIC);
  sqlite3_bind_int64(insert_part, 3, part->x);
  sqlite3_bind_int64(insert_part, 4, part->y);
  sqlite3_bind_int64(insert_part, 5, part->build);
#ifdef OO1_PAPER
  for (int k = 0; k < OO1_OUT; k++) sqlite3_bind_int64(insert_part, 6 + k, part->out[k].to);
#endif
  run(insert_part);
#ifndef OO1_PAPER
  for (int k = 0; k < OO1_OUT; k++) {
    sqlite3_bind_int64(insert_connection, 1, part->id);
    sqlite3_bind_int64(insert_connection, 2, k);
    sqlite3_bind_int64(insert_connection, 3, part->out[k].to);
    sqlite3_bind_text(insert_connection, 4, part->out[k].type, OO1_TYPE_BYTES, SQLITE_STATIC);
    sqlite3_bind_int64(insert_connection, 5, part->out[k].length);
    run(insert_connection);
  }
#endif
}

static void finish_all(void) {
  for (sqlite3_stmt *next; (next = sqlite3_next_stmt(database, NULL)) != NULL;)
    sqlite3_finalize(next);
  check(sqlite3_close(database), "close its file");
}

static void mode_load(const oo1_graph *graph, const char *folder) {
  open_database(folder);
#ifdef OO1_PAPER
  execute(
      "CREATE TABLE part (id INTEGER PRIMARY KEY, type TEXT, x INTEGER, y INTEGER, build INTEGER,"
      "  to0 INTEGER, to1 INTEGER, to2 INTEGER)");
#else
  execute(
      "CREATE TABLE part (id INTEGER PRIMARY KEY, type TEXT, x INTEGER, y INTEGER, build INTEGER);"
      "CREATE TABLE connection (source INTEGER, k INTEGER, target INTEGER, type TEXT,"
      "  length INTEGER, PRIMARY KEY (source, k)) WITHOUT ROWID");
#endif
  prepare_all();
  run(begin);
  for (uint32_t i = 0; i < graph->header.parts; i++) put(&graph->parts[i]);
#ifndef OO1_PAPER
  execute("CREATE INDEX incoming ON connection (target, source, k)");
#endif
  run(commit);
  execute("PRAGMA wal_checkpoint(TRUNCATE)");
  finish_all();
}

static void mode_open(const char *folder, const oo1_how *how, uint32_t count, uint32_t room) {
  (void)how, (void)count, (void)room;
  open_database(folder);
  prepare_all();
}

static void mode_close(void) { finish_all(); }
static void mode_enter(void) { run(begin); }
static void mode_leave(void) { run(commit); }

static void mode_fetch(uint32_t id, oo1_record *record, bool connections) {
  sqlite3_bind_int64(part_by_id, 1, id);
  if (sqlite3_step(part_by_id) != SQLITE_ROW)
    oo1_die("SQLite has no part %u: %s", id, sqlite3_errmsg(database));
  record->id = id;
  record->x = (uint32_t)sqlite3_column_int64(part_by_id, 0);
  record->y = (uint32_t)sqlite3_column_int64(part_by_id, 1);
  memcpy(record->type, sqlite3_column_text(part_by_id, 2), sizeof record->type);
#ifdef OO1_PAPER
  if (connections)
    for (int k = 0; k < OO1_OUT; k++)
      record->to[k] = (uint32_t)sqlite3_column_int64(part_by_id, 3 + k);
  sqlite3_reset(part_by_id);
#else
  sqlite3_reset(part_by_id);
  if (!connections) return;
  sqlite3_bind_int64(out_of, 1, id);
  for (int k = 0; k < OO1_OUT; k++) {
    if (sqlite3_step(out_of) != SQLITE_ROW)
      oo1_die("SQLite has %d connections of part %u: %s", k, id, sqlite3_errmsg(database));
    record->to[k] = (uint32_t)sqlite3_column_int64(out_of, 0);
  }
  sqlite3_reset(out_of);
#endif
}

#ifndef OO1_PAPER
/* The youngest first, as in the lists of other modes. */
static uint32_t mode_from(uint32_t id, uint32_t **from, uint32_t capacity) {
  uint32_t count = 0, *few = *from;
  sqlite3_bind_int64(into, 1, id);
  int code;
  while ((code = sqlite3_step(into)) == SQLITE_ROW) {
    if (count == capacity) {
      uint32_t *more = oo1_allocate(2 * capacity * sizeof *more);
      memcpy(more, *from, count * sizeof *more);
      if (*from != few) free(*from);
      *from = more, capacity *= 2;
    }
    (*from)[count++] = (uint32_t)sqlite3_column_int64(into, 0);
  }
  check(code, "find what leads to a part");
  sqlite3_reset(into);
  return count;
}
#endif

static void mode_insert(const oo1_graph_part *fresh, unsigned count) {
  run(begin);
  for (unsigned i = 0; i < count; i++) {
    put(&fresh[i]);
    oo1_null_proc(fresh[i].x, fresh[i].y, fresh[i].type);
  }
  run(commit);
}

static void mode_counts(oo1_counts *counts) { (void)counts; }

#include "records.h"
