/*
 * Groups: looking up a batch.
 */
#include "group_table.h"

#include "common/hashfn.h"
#include "utils/fmgrprotos.h"

#include "decimal.h"
#include "group_table_internal.h"

/* A table of this size does not fit a usual L2: its lines are prefetched. */
#define PREFETCH_BYTES (512 * 1024)
#define CACHE_LINE 64

/* Any constant for NULL, which is its own group. */
#define NULL_NUMBER UINT64CONST(0x6E756C6C)

static inline uint64 mix(uint64 hash, uint64 number) {
  hash = (hash ^ number) * UINT64CONST(0x9E3779B97F4A7C15);
  hash ^= hash >> 32;
  hash *= UINT64CONST(0xD6E8FEB86659FD93);
  return hash ^ (hash >> 32);
}

/* ---- single values ---- */

bool group_key_number(const GroupKey *key, const Batch *batch, int row, int64 *number) {
  const BatchColumn *column = &batch->columns[key->column];

  if (likely(!batch->odd[row])) {
    *number = column->number[row];
    return true;
  }
  if (!key->is_decimal) {
    *number = number_of_datum(key->type, batch_datum(column, row));
    return true;
  }
  return decimal_at_scale(DatumGetNumeric(batch_datum(column, row)), key->scale, number);
}

static uint64 generic_hash(const GroupKey *key, Datum value) {
  return DatumGetUInt32(FunctionCall1Coll((FmgrInfo *)&key->hash, key->collation, value));
}

static bool generic_equal(const GroupKey *key, Datum a, Datum b) {
  return DatumGetBool(FunctionCall2Coll((FmgrInfo *)&key->equal, key->collation, a, b));
}

/* ---- hashing ---- */

static void hash_numbers(const GroupKey *key, const Batch *batch, const uint16 *rows, int n,
                         bool first, uint64 *hash) {
  const BatchColumn *column = &batch->columns[key->column];

  if (!column->has_nulls && batch->nodd == 0) {
    for (int i = 0; i < n; i++) {
      int row = rows[i];
      hash[i] = mix(first ? 0 : hash[i], (uint64)column->number[row]);
    }
    return;
  }
  for (int i = 0; i < n; i++) {
    int row = rows[i];
    int64 number;
    uint64 part;
    if (column->where[row] == NULL)
      part = NULL_NUMBER;
    else if (group_key_number(key, batch, row, &number))
      part = (uint64)number;
    else
      part = generic_hash(key, batch_datum(column, row));
    hash[i] = mix(first ? 0 : hash[i], part);
  }
}

/* Hashes short strings, as most keys are, by two overlapping words. */
static inline uint64 hash_string(const char *data, uint32 size) {
  uint64 a, b;
  uint32 c, d;

  if (size >= 8 && size <= 16) {
    memcpy(&a, data, 8);
    memcpy(&b, data + size - 8, 8);
    return mix(mix(size, a), b);
  }
  if (size >= 4 && size < 8) {
    memcpy(&c, data, 4);
    memcpy(&d, data + size - 4, 4);
    return mix(size, (uint64)c << 32 | d);
  }
  if (size > 16) return hash_bytes_extended((const unsigned char *)data, (int)size, 0);
  a = size;
  for (uint32 i = 0; i < size; i++) a = a << 8 | (uint8)data[i];
  return mix(size, a);
}

static void hash_strings(GroupKey *key, const Batch *batch, const uint16 *rows, int n, bool first,
                         uint64 *hash) {
  const BatchColumn *column = &batch->columns[key->column];

  for (int i = 0; i < n; i++) {
    int row = rows[i];
    const char *value = column->where[row];
    uint32 size;

    if (value == NULL) {
      hash[i] = mix(first ? 0 : hash[i], NULL_NUMBER);
      continue;
    }
    if (VARATT_IS_EXTERNAL(value) || VARATT_IS_COMPRESSED(value))
      value = (const char *)pg_detoast_datum_packed((struct varlena *)value);
    size = VARSIZE_ANY_EXHDR(value);
    value = VARDATA_ANY(value);
    if (key->trims)
      while (size > 0 && value[size - 1] == ' ') size--;
    key->data[row] = value;
    key->size[row] = size;
    hash[i] = mix(first ? 0 : hash[i], hash_string(value, size));
  }
}

static void hash_generic(const GroupKey *key, const Batch *batch, const uint16 *rows, int n,
                         bool first, uint64 *hash) {
  const BatchColumn *column = &batch->columns[key->column];

  for (int i = 0; i < n; i++) {
    int row = rows[i];
    uint64 part = column->where[row] ? generic_hash(key, batch_datum(column, row)) : NULL_NUMBER;
    hash[i] = mix(first ? 0 : hash[i], part);
  }
}

static void hash_rows(GroupTable *table, const Batch *batch, const uint16 *rows, int n) {
  uint64 hash[BATCH_ROWS];

  for (int k = 0; k < table->nkeys; k++) {
    switch (table->keys[k].kind) {
      case KEY_NUMBER: hash_numbers(&table->keys[k], batch, rows, n, k == 0, hash); break;
      case KEY_BYTES: hash_strings(&table->keys[k], batch, rows, n, k == 0, hash); break;
      case KEY_GENERIC: hash_generic(&table->keys[k], batch, rows, n, k == 0, hash); break;
    }
  }
  for (int i = 0; i < n; i++) table->hashes[rows[i]] = (uint32)hash[i];
}

/* ---- comparing ---- */

static bool number_equal(const GroupKey *key, const GroupRecord *group, int cell,
                         const Batch *batch, int row) {
  int64 number, stored;
  bool has_number = group_key_number(key, batch, row, &number);

  if (likely(!(group->odd & (UINT32_C(1) << cell))))
    return has_number && number == (int64)group->cells[cell];
  if (has_number)
    return decimal_at_scale(DatumGetNumeric(group->cells[cell]), key->scale, &stored) &&
           stored == number;
  return generic_equal(key, group->cells[cell], batch_datum(&batch->columns[key->column], row));
}

static bool group_has_keys(const GroupTable *table, const GroupRecord *group, const Batch *batch,
                           int row) {
  for (int i = 0; i < table->nkeys; i++) {
    const GroupKey *key = &table->keys[i];
    const BatchColumn *column = &batch->columns[key->column];
    bool is_null = column->where[row] == NULL;

    if (is_null != ((group->nulls & (UINT32_C(1) << i)) != 0)) return false;
    if (is_null) continue;
    switch (key->kind) {
      case KEY_NUMBER:
        if (!number_equal(key, group, i, batch, row)) return false;
        break;
      case KEY_BYTES: {
        const StoredBytes *stored = (const StoredBytes *)DatumGetPointer(group->cells[i]);
        if (stored->size != key->size[row] ||
            memcmp(VARDATA_ANY(stored->value), key->data[row], stored->size) != 0)
          return false;
        break;
      }
      case KEY_GENERIC:
        if (!generic_equal(key, group->cells[i], batch_datum(column, row))) return false;
        break;
    }
  }
  return true;
}

/*
 * `number`: the values of the table's only key, if each row of the batch has one; otherwise NULL.
 * Inlined, so that the loops of the callers do not test which of both it is.
 */
static pg_attribute_always_inline GroupRecord *find_or_insert(GroupTable *table, const Batch *batch,
                                                              const int64 *number, int row) {
  const uint32 hash = table->hashes[row];
  const uint32 mask = table->nslots - 1;

  for (uint32 at = hash & mask;; at = (at + 1) & mask) {
    const GroupSlot slot = table->slots[at];
    GroupRecord *group;
    if (slot.number == 0) return group_table_insert(table, batch, row, hash);
    if (slot.hash != hash) continue;
    group = group_at(table, slot.number - 1);
    if (number && likely((int64)group->cells[0] == number[row] && (group->nulls | group->odd) == 0))
      return group;
    if (group_has_keys(table, group, batch, row)) return group;
  }
}

/* ---- a batch ---- */

static void fetch_ahead(const GroupTable *table, const uint16 *rows, int n) {
  const uint32 mask = table->nslots - 1;

  for (int i = 0; i < n; i++) __builtin_prefetch(&table->slots[table->hashes[rows[i]] & mask]);
  for (int i = 0; i < n; i++) {
    const GroupSlot slot = table->slots[table->hashes[rows[i]] & mask];
    const char *group;
    if (slot.number == 0) continue;
    group = (const char *)group_at(table, slot.number - 1);
    __builtin_prefetch(group, 1);
    __builtin_prefetch(group + CACHE_LINE, 1);
  }
}

static void prepare(GroupTable *table, const Batch *batch, const uint16 *rows, int n) {
  hash_rows(table, batch, rows, n);
  if ((Size)table->nslots * sizeof(GroupSlot) + (Size)table->ngroups * table->size > PREFETCH_BYTES)
    fetch_ahead(table, rows, n);
}

/*
 * A single key, with a number in every row: adjacent rows with the same key are looked up once.
 * Tables are often stored in the order of some key.
 */
static int find_runs(GroupTable *table, const Batch *batch, GroupRecord **groups) {
  const int64 *number = batch->columns[table->keys[0].column].number;
  const uint16 *rows = batch->selected;
  const int n = batch->nselected;
  uint16 one[BATCH_ROWS]; /* one row of each run */
  uint16 run[BATCH_ROWS]; /* the number of the run that each row is in */
  GroupRecord *found[BATCH_ROWS];
  int last = 0, nruns, without = 0;

  one[0] = rows[0];
  run[0] = 0;
  for (int i = 1; i < n; i++) {
    last += number[rows[i]] != number[rows[i - 1]];
    /* Overwritten until the run ends: any of its rows can represent it. */
    one[last] = rows[i];
    run[i] = (uint16)last;
  }
  nruns = last + 1;
  prepare(table, batch, one, nruns);
  for (int i = 0; i < nruns; i++) {
    found[i] = find_or_insert(table, batch, number, one[i]);
    without += found[i] == NULL;
  }
  for (int i = 0; i < n; i++) groups[rows[i]] = found[run[i]];
  if (likely(without == 0)) return 0;
  without = 0;
  for (int i = 0; i < n; i++) {
    table->hashes[rows[i]] = table->hashes[one[run[i]]];
    without += groups[rows[i]] == NULL;
  }
  return without;
}

static int find_by_hash(GroupTable *table, const Batch *batch, GroupRecord **groups) {
  int without = 0;

  if (table->simple && !batch->columns[table->keys[0].column].has_nulls && batch->nodd == 0)
    return find_runs(table, batch, groups);
  prepare(table, batch, batch->selected, batch->nselected);
  for (int i = 0; i < batch->nselected; i++) {
    int row = batch->selected[i];
    groups[row] = find_or_insert(table, batch, NULL, row);
    without += groups[row] == NULL;
  }
  return without;
}

/* ---- keys of one byte ---- */

/*
 * The byte of a key, or a byte that is not ASCII unless the value is exactly one ASCII character.
 */
static inline unsigned direct_value(bool is_varlena, const char *value) {
  if (!is_varlena) return *(const uint8 *)value;
    /* A one-byte header for a value of one byte. */
#ifdef WORDS_BIGENDIAN
  return VARATT_IS_SHORT(value) && VARSIZE_SHORT(value) == 2 ? (uint8)value[1] : DIRECT_VALUES;
#else
  return (uint8)value[0] == (2 << 1 | 1) ? (uint8)value[1] : DIRECT_VALUES;
#endif
}

/* The arguments after `missed` are constants at the usual calls, so that each gets its own loop. */
static pg_attribute_always_inline int direct_rows(const GroupTable *table, const Batch *batch,
                                                  GroupRecord **groups, uint16 *missed, int nkeys,
                                                  bool is_varlena, bool is_varlena2,
                                                  bool has_nulls) {
  GroupRecord **direct = table->direct_groups;
  const char **where = batch->columns[table->keys[0].column].where;
  const char **where2 = batch->columns[table->keys[nkeys - 1].column].where;
  const uint16 *rows = batch->selected;
  const int n = batch->nselected;
  int nmissed = 0;

  for (int i = 0; i < n; i++) {
    int row = rows[i];
    unsigned first, second = 0;
    GroupRecord *group = NULL;

    if (!has_nulls || (where[row] && where2[row])) {
      first = direct_value(is_varlena, where[row]);
      if (nkeys == 2) second = direct_value(is_varlena2, where2[row]);
      if (likely((first | second) < DIRECT_VALUES)) group = direct[second * DIRECT_VALUES + first];
    }
    groups[row] = group;
    if (unlikely(group == NULL)) missed[nmissed++] = (uint16)row;
  }
  return nmissed;
}

static int direct_batch(const GroupTable *table, const Batch *batch, GroupRecord **groups,
                        uint16 *missed) {
  const int nkeys = table->nkeys;
  const bool varlena = table->keys[0].kind == KEY_BYTES;
  const bool varlena2 = table->keys[nkeys - 1].kind == KEY_BYTES;
  const bool has_nulls = batch->columns[table->keys[0].column].has_nulls ||
                         batch->columns[table->keys[nkeys - 1].column].has_nulls;

  if (nkeys == 2 && varlena && varlena2 && !has_nulls)
    return direct_rows(table, batch, groups, missed, 2, true, true, false);
  if (nkeys == 1 && varlena && !has_nulls)
    return direct_rows(table, batch, groups, missed, 1, true, true, false);
  return direct_rows(table, batch, groups, missed, nkeys, varlena, varlena2, has_nulls);
}

static void remember_direct(GroupTable *table, const Batch *batch, int row, GroupRecord *group) {
  unsigned index = 0;

  for (int k = table->nkeys - 1; k >= 0; k--) {
    const char *value = batch->columns[table->keys[k].column].where[row];
    unsigned byte = value ? direct_value(table->keys[k].kind == KEY_BYTES, value) : DIRECT_VALUES;
    if (byte >= DIRECT_VALUES) return;
    index = index * DIRECT_VALUES + byte;
  }
  table->direct_groups[index] = group;
}

/* Called before the selection shrinks: all rows need numbers. */
static void decode_keys(const GroupTable *table, Batch *batch) {
  for (int k = 0; k < table->nkeys; k++)
    if (table->keys[k].kind == KEY_NUMBER) batch_decode(batch, table->keys[k].column);
}

static int find_directly(GroupTable *table, Batch *batch, GroupRecord **groups) {
  uint16 missed[BATCH_ROWS];
  uint16 *selected = batch->selected;
  int nselected = batch->nselected;
  int nmissed = direct_batch(table, batch, groups, missed);
  int without;

  if (nmissed == 0) return 0;
  /* The other rows are found by hash; numbers of keys were not needed until now. */
  decode_keys(table, batch);
  batch->selected = missed;
  batch->nselected = nmissed;
  without = find_by_hash(table, batch, groups);
  batch->selected = selected;
  batch->nselected = nselected;
  for (int i = 0; i < nmissed; i++)
    if (groups[missed[i]]) remember_direct(table, batch, missed[i], groups[missed[i]]);
  return without;
}

int group_table_find(GroupTable *table, Batch *batch, GroupRecord **groups) {
  MemoryContext old;
  int without;

  /* Memory that core's functions allocate is freed with the next batch. */
  if (table->scratch == NULL)
    table->scratch = AllocSetContextCreate(GetMemoryChunkContext(table), "ccopt keys of a batch",
                                           ALLOCSET_SMALL_SIZES);
  else
    MemoryContextReset(table->scratch);
  old = MemoryContextSwitchTo(table->scratch);
  if (table->direct) {
    without = find_directly(table, batch, groups);
  } else {
    decode_keys(table, batch);
    without = find_by_hash(table, batch, groups);
  }
  MemoryContextSwitchTo(old);
  return without;
}
