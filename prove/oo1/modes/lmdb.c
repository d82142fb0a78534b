/*
 * LMDB: a part with its three connections is one record under its id; in layout oo1, a second
 * database has the keys of the incoming connections under each id. A read transaction lasts a
 * unit (renewed, without an allocation).
 */
#include <lmdb.h>
#include <stdlib.h>
#include <string.h>

#include "die.h"
#include "mode.h"
#include "record.h"

/* Address space; the file is as long as its data. */
#define MAP_BYTES (UINT64_C(16) << 30)

static MDB_env *environment;
static MDB_txn *reader;
static MDB_dbi parts;
#ifndef OO1_PAPER
static MDB_dbi incoming;
static MDB_cursor *cursor;
#endif

static void check(int code, const char *what) {
  if (code != 0) oo1_die("LMDB cannot %s: %s", what, mdb_strerror(code));
}

static void open_environment(const char *folder, bool writable) {
  check(mdb_env_create(&environment), "begin");
  check(mdb_env_set_mapsize(environment, MAP_BYTES), "set the size of its map");
  check(mdb_env_set_maxdbs(environment, 2), "have two databases");
  check(mdb_env_open(environment, folder, writable ? 0 : MDB_RDONLY, 0666), "open its folder");
  MDB_txn *transaction;
  unsigned create = writable ? MDB_CREATE : 0;
  check(mdb_txn_begin(environment, NULL, writable ? 0 : MDB_RDONLY, &transaction), "begin");
  check(mdb_dbi_open(transaction, "parts", MDB_INTEGERKEY | create, &parts), "open parts");
#ifndef OO1_PAPER
  check(mdb_dbi_open(transaction, "incoming",
                     MDB_INTEGERKEY | MDB_DUPSORT | MDB_DUPFIXED | MDB_INTEGERDUP | create,
                     &incoming),
        "open incoming");
#endif
  check(mdb_txn_commit(transaction), "commit");
}

/* A connection's key: larger for connections of a later part, or later ones of the same part. */
#ifndef OO1_PAPER
static uint64_t connection_key(uint32_t from, uint32_t k) { return (uint64_t)from * OO1_OUT + k; }
#endif

static void put(MDB_txn *transaction, const oo1_graph_part *part, bool append) {
  size_t id = part->id;
  MDB_val key = {sizeof id, &id}, value = {sizeof *part, (void *)part};
  check(mdb_put(transaction, parts, &key, &value, append ? MDB_APPEND : 0), "put a part");
#ifndef OO1_PAPER
  for (uint32_t k = 0; k < OO1_OUT; k++) {
    size_t to = part->out[k].to;
    uint64_t from = connection_key(part->id, k);
    MDB_val to_key = {sizeof to, &to}, from_value = {sizeof from, &from};
    check(mdb_put(transaction, incoming, &to_key, &from_value, 0), "put a connection");
  }
#endif
}

static void mode_load(const oo1_graph *graph, const char *folder) {
  open_environment(folder, true);
  for (uint32_t i = 0; i < graph->header.parts;) {
    MDB_txn *transaction;
    check(mdb_txn_begin(environment, NULL, 0, &transaction), "begin");
    for (uint32_t end = i + 100000; i < end && i < graph->header.parts; i++)
      put(transaction, &graph->parts[i], true);
    check(mdb_txn_commit(transaction), "commit");
  }
  mdb_env_close(environment);
}

static void mode_open(const char *folder, const oo1_how *how, uint32_t count, uint32_t room) {
  (void)count, (void)room;
  open_environment(folder, how->writable);
  check(mdb_txn_begin(environment, NULL, MDB_RDONLY, &reader), "begin to read");
#ifndef OO1_PAPER
  check(mdb_cursor_open(reader, incoming, &cursor), "open a cursor");
#endif
  mdb_txn_reset(reader);
}

static void mode_close(void) {
#ifndef OO1_PAPER
  mdb_cursor_close(cursor);
#endif
  mdb_txn_abort(reader);
  mdb_env_close(environment);
}

static void mode_enter(void) {
  check(mdb_txn_renew(reader), "begin to read");
#ifndef OO1_PAPER
  check(mdb_cursor_renew(reader, cursor), "renew a cursor");
#endif
}

static void mode_leave(void) { mdb_txn_reset(reader); }

static void mode_fetch(uint32_t id, oo1_record *record, bool connections) {
  size_t number = id;
  MDB_val key = {sizeof number, &number}, value;
  check(mdb_get(reader, parts, &key, &value), "find a part");
  const oo1_graph_part *part = value.mv_data;
  record->id = part->id, record->x = part->x, record->y = part->y;
  memcpy(record->type, part->type, sizeof record->type);
  if (connections)
    for (int k = 0; k < OO1_OUT; k++) record->to[k] = part->out[k].to;
}

#ifndef OO1_PAPER
/* The youngest first, as in the lists of other modes. */
static uint32_t mode_from(uint32_t id, uint32_t **from, uint32_t capacity) {
  size_t number = id;
  MDB_val key = {sizeof number, &number}, value;
  uint32_t count = 0, *few = *from;
  if (mdb_cursor_get(cursor, &key, &value, MDB_SET) != 0) return 0;
  for (int code = mdb_cursor_get(cursor, &key, &value, MDB_LAST_DUP); code == 0;
       code = mdb_cursor_get(cursor, &key, &value, MDB_PREV_DUP)) {
    if (count == capacity) {
      uint32_t *more = oo1_allocate(2 * capacity * sizeof *more);
      memcpy(more, *from, count * sizeof *more);
      if (*from != few) free(*from);
      *from = more, capacity *= 2;
    }
    uint64_t connection;
    memcpy(&connection, value.mv_data, sizeof connection);
    (*from)[count++] = (uint32_t)(connection / OO1_OUT);
  }
  return count;
}
#endif

#include "null_proc.h"

static void mode_insert(const oo1_graph_part *fresh, unsigned count) {
  MDB_txn *transaction;
  check(mdb_txn_begin(environment, NULL, 0, &transaction), "begin");
  for (unsigned i = 0; i < count; i++) {
    put(transaction, &fresh[i], false);
    oo1_null_proc(fresh[i].x, fresh[i].y, fresh[i].type);
  }
  check(mdb_txn_commit(transaction), "commit");
}

static void mode_counts(oo1_counts *counts) { (void)counts; }

#include "records.h"
