/*
 * Groups: creating, adding and reading them.
 */
#include "group_table.h"

#include "utils/typcache.h"

#include "decimal.h"
#include "group_table_internal.h"

/* Least number of slots at the start; a power of two. */
#define MIN_SLOTS 256
/* Least number of groups for any limit: each pass over the input must make progress. */
#define MIN_GROUPS 64

Size group_size(int ncells, Size state) {
  return MAXALIGN(offsetof(GroupRecord, cells) + ncells * sizeof(Datum)) + MAXALIGN(state);
}

bool group_key_init(GroupKey *key, const BatchColumn *column, int index) {
  TypeCacheEntry *entry =
      lookup_type_cache(column->type, TYPECACHE_HASH_PROC_FINFO | TYPECACHE_EQ_OPR_FINFO);

  memset(key, 0, sizeof(*key));
  if (!OidIsValid(entry->hash_proc_finfo.fn_oid) || !OidIsValid(entry->eq_opr_finfo.fn_oid))
    return false;
  fmgr_info_copy(&key->hash, &entry->hash_proc_finfo, CurrentMemoryContext);
  fmgr_info_copy(&key->equal, &entry->eq_opr_finfo, CurrentMemoryContext);
  key->column = index;
  key->type = column->type;
  key->length = column->length;
  key->by_value = column->by_value;
  key->collation = column->collation;
  key->scale = column->scale;
  switch (column->kind) {
    case COLUMN_INTEGER:
      key->kind = KEY_NUMBER;
      key->direct = column->length == 1;
      break;
    case COLUMN_DECIMAL:
      key->kind = KEY_NUMBER;
      key->is_decimal = true;
      break;
    case COLUMN_TEXT:
    case COLUMN_BPCHAR:
      key->kind = KEY_BYTES;
      key->trims = column->kind == COLUMN_BPCHAR;
      key->direct = column->typmod == (int32)VARHDRSZ + 1;
      break;
    default: key->kind = KEY_GENERIC;
  }
  return true;
}

static void make_slots(GroupTable *table, uint32 nslots) {
  table->nslots = nslots;
  table->slots = MemoryContextAllocExtended(table->context, sizeof(GroupSlot) * (Size)nslots,
                                            MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
}

static void start_empty(GroupTable *table) {
  table->ngroups = 0;
  table->full = table->lifted = false;
  table->nchunks = 0;
  table->chunks_capacity = 0;
  table->chunks = NULL;
  bump_init(&table->copies, table->context, table->limit < 1024 * 1024 ? 1024 : 32 * 1024);
  make_slots(table, table->first_slots);
}

GroupTable *group_table_create(const Batch *batch, GroupKey *keys, int nkeys, const int *carried,
                               int ncarried, Size state, double expected, Size limit) {
  GroupTable *table = palloc0(sizeof(*table));
  uint32 slots = MIN_SLOTS;

  table->batch = batch;
  table->keys = keys;
  table->nkeys = nkeys;
  table->ncells = nkeys + ncarried;
  Assert(table->ncells <= GROUP_MAX_CELLS);
  for (int i = 0; i < ncarried; i++) table->carried[i] = carried[i];
  table->state_offset = group_size(table->ncells, 0);
  table->size = group_size(table->ncells, state);
  table->limit = limit;
  table->context =
      AllocSetContextCreate(CurrentMemoryContext, "ccopt groups", ALLOCSET_DEFAULT_SIZES);

  /* A chunk is at most a sixteenth of the limit, so that no large part of it is unused, and not
   * much more than the expected groups need. */
  table->chunk_bits = 4;
  while (table->chunk_bits < 12 && ((table->size << (table->chunk_bits + 1)) * 16 <= limit) &&
         (table->chunk_bits < 6 || (1 << table->chunk_bits) < expected))
    table->chunk_bits++;
  while (slots < expected * 8 / 5 && slots < (UINT32_C(1) << 30) &&
         (Size)slots * 2 * sizeof(GroupSlot) <= limit / 8)
    slots *= 2;
  table->first_slots = nkeys > 0 ? slots : 1;

  table->hashes = palloc(sizeof(*table->hashes) * BATCH_ROWS);
  table->direct = nkeys == 1 || nkeys == 2;
  for (int i = 0; i < nkeys; i++) {
    if (!keys[i].direct) table->direct = false;
    if (keys[i].kind == KEY_BYTES) {
      keys[i].data = palloc(sizeof(*keys[i].data) * BATCH_ROWS);
      keys[i].size = palloc(sizeof(*keys[i].size) * BATCH_ROWS);
    }
  }
  if (table->direct)
    table->direct_groups = palloc0(sizeof(GroupRecord *) *
                                   (nkeys == 1 ? DIRECT_VALUES : DIRECT_VALUES * DIRECT_VALUES));
  table->simple = nkeys == 1 && keys[0].kind == KEY_NUMBER && ncarried == 0;
  start_empty(table);
  return table;
}

void group_table_reset(GroupTable *table) {
  if (table->direct && table->ngroups > 0)
    memset(table->direct_groups, 0,
           sizeof(GroupRecord *) *
               (table->nkeys == 1 ? DIRECT_VALUES : DIRECT_VALUES * DIRECT_VALUES));
  MemoryContextReset(table->context);
  start_empty(table);
}

void group_table_lift_limit(GroupTable *table) { table->lifted = true; }

uint64 group_table_count(const GroupTable *table) { return table->ngroups; }

GroupRecord *group_table_get(const GroupTable *table, uint64 index) {
  return group_at(table, (uint32)index);
}

Size group_table_state_offset(const GroupTable *table) { return table->state_offset; }

MemoryContext group_table_context(const GroupTable *table) { return table->context; }

Size group_table_memory(const GroupTable *table) {
  return MemoryContextMemAllocated(table->context, true);
}

uint32 group_table_hash_of_row(const GroupTable *table, int row) { return table->hashes[row]; }

/* ---- making groups ---- */

static void grow_slots(GroupTable *table) {
  GroupSlot *old = table->slots;
  uint32 nold = table->nslots;
  uint32 mask;

  make_slots(table, nold * 2);
  mask = table->nslots - 1;
  for (uint32 i = 0; i < nold; i++) {
    uint32 at;
    if (old[i].number == 0) continue;
    for (at = old[i].hash & mask; table->slots[at].number != 0; at = (at + 1) & mask)
      ;
    table->slots[at] = old[i];
  }
  pfree(old);
}

/* True if another group, possibly with more slots, would exceed the limit. */
static bool is_full(GroupTable *table) {
  Size more = 0;

  if (table->ngroups < MIN_GROUPS) return false;
  if (table->ngroups >= UINT32_MAX - 1) return true;
  if (table->ngroups >= table->nslots / 8 * 5) {
    if (table->nslots >= UINT32_C(1) << 31) return true;
    more += (Size)table->nslots * 2 * sizeof(GroupSlot);
  }
  if ((table->ngroups & ((UINT32_C(1) << table->chunk_bits) - 1)) == 0)
    more += table->size << table->chunk_bits;
  /* Checked when memory grows, and for every group that copies values. */
  if (more == 0 && table->copies.left > 256) return table->full;
  table->full =
      !table->lifted && MemoryContextMemAllocated(table->context, true) + more > table->limit;
  return table->full;
}

static GroupRecord *add_record(GroupTable *table) {
  uint32 chunk = table->ngroups >> table->chunk_bits;

  if (chunk == table->nchunks) {
    if (table->nchunks == table->chunks_capacity) {
      table->chunks_capacity = Max(64, table->chunks_capacity * 2);
      table->chunks =
          table->chunks
              ? repalloc_huge(table->chunks, sizeof(char *) * table->chunks_capacity)
              : MemoryContextAlloc(table->context, sizeof(char *) * table->chunks_capacity);
    }
    table->chunks[table->nchunks++] = MemoryContextAllocExtended(
        table->context, table->size << table->chunk_bits, MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
  }
  return group_at(table, table->ngroups++);
}

/* Copies any value in plain form: external and compressed values are detoasted. */
static Datum copy_value(GroupTable *table, const BatchColumn *column, int row) {
  const char *from = column->where[row];
  char *to;
  Size size;

  if (column->by_value) return batch_datum(column, row);
  if (column->length == -1) {
    struct varlena *plain = (struct varlena *)from;
    if (VARATT_IS_EXTERNAL(from) || VARATT_IS_COMPRESSED(from))
      plain = pg_detoast_datum_packed(plain);
    size = VARSIZE_ANY(plain);
    to = bump_alloc(&table->copies, size);
    memcpy(to, plain, size);
    if ((const char *)plain != from) pfree(plain);
    return PointerGetDatum(to);
  }
  size = column->length == -2 ? strlen(from) + 1 : (Size)column->length;
  to = bump_alloc(&table->copies, size);
  memcpy(to, from, size);
  return PointerGetDatum(to);
}

static Datum copy_bytes(GroupTable *table, const GroupKey *key, const char *value, int row) {
  Size size;
  StoredBytes *stored;

  /* `data` is detoasted; the value may not be. Trailing blanks belong to the value. */
  if (VARATT_IS_EXTERNAL(value) || VARATT_IS_COMPRESSED(value)) {
    struct varlena *plain = pg_detoast_datum_packed((struct varlena *)value);
    Datum result = copy_bytes(table, key, (const char *)plain, row);
    pfree(plain);
    return result;
  }
  size = VARSIZE_ANY(value);
  stored = (StoredBytes *)bump_alloc(&table->copies, offsetof(StoredBytes, value) + size);
  stored->size = key->size[row];
  memcpy(stored->value, value, size);
  return PointerGetDatum(stored);
}

/* A number represents the original value only if the display scale is the column's. */
static bool number_of_cell(const GroupKey *key, const Batch *batch, int row, int64 *number) {
  int scale;

  if (likely(!batch->odd[row]) || !key->is_decimal)
    return group_key_number(key, batch, row, number);
  return decimal_of_numeric(DatumGetNumeric(batch_datum(&batch->columns[key->column], row)), number,
                            &scale) &&
         scale == key->scale;
}

static void fill_record(GroupTable *table, GroupRecord *group, const Batch *batch, int row,
                        uint32 hash) {
  group->hash = hash;
  for (int i = 0; i < table->ncells; i++) {
    const GroupKey *key = i < table->nkeys ? &table->keys[i] : NULL;
    const BatchColumn *column =
        &batch->columns[key ? key->column : table->carried[i - table->nkeys]];

    if (column->where[row] == NULL) {
      group->nulls |= UINT32_C(1) << i;
    } else if (key == NULL || key->kind == KEY_GENERIC) {
      group->cells[i] = copy_value(table, column, row);
    } else if (key->kind == KEY_BYTES) {
      group->cells[i] = copy_bytes(table, key, column->where[row], row);
    } else if (!number_of_cell(key, batch, row, (int64 *)&group->cells[i])) {
      group->odd |= UINT32_C(1) << i;
      group->cells[i] = copy_value(table, column, row);
    }
  }
}

GroupRecord *group_table_insert(GroupTable *table, const Batch *batch, int row, uint32 hash) {
  uint32 mask, at;
  GroupRecord *group;

  if (is_full(table)) return NULL;
  if (table->ngroups >= table->nslots / 8 * 5) grow_slots(table);
  mask = table->nslots - 1;
  for (at = hash & mask; table->slots[at].number != 0; at = (at + 1) & mask)
    ;
  group = add_record(table);
  table->slots[at].hash = hash;
  table->slots[at].number = table->ngroups;
  fill_record(table, group, batch, row, hash);
  return group;
}

GroupRecord *group_table_only(GroupTable *table) {
  return table->ngroups > 0 ? group_at(table, 0) : add_record(table);
}

/* ---- reading groups ---- */

Datum group_table_value(const GroupTable *table, const GroupRecord *group, int cell,
                        bool *is_null) {
  const GroupKey *key;
  uint32 bit = UINT32_C(1) << cell;

  *is_null = (group->nulls & bit) != 0;
  if (*is_null) return (Datum)0;
  if (cell >= table->nkeys) return group->cells[cell];
  key = &table->keys[cell];
  if (key->kind == KEY_BYTES)
    return PointerGetDatum(((StoredBytes *)DatumGetPointer(group->cells[cell]))->value);
  if (key->kind == KEY_GENERIC || (group->odd & bit)) return group->cells[cell];
  return datum_of_number(key->type, key->scale, (int64)group->cells[cell]);
}
