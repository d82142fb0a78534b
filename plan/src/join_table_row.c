/*
 * Packed rows: their layout, and how a batch's rows are packed.
 *
 * After the header come the keys' numbers, then values of fixed length by falling alignment, then a
 * bit for each of those that can be NULL, then values of variable length. All offsets are from the
 * row's beginning, so that a row can be written to a file and read back anywhere.
 */
#include "join_table.h"

#include "access/detoast.h"

/* ---- layout ---- */

static bool key_column(int nkeys, const JoinKey *keys, int column, int *key) {
  for (*key = 0; *key < nkeys; (*key)++)
    if (keys[*key].column == column) return true;
  return false;
}

static int alignment_of(char align) {
  switch (align) {
    case TYPALIGN_DOUBLE: return ALIGNOF_DOUBLE;
    case TYPALIGN_INT: return ALIGNOF_INT;
    case TYPALIGN_SHORT: return ALIGNOF_SHORT;
    default: return 1;
  }
}

/* The position of an integer's own bytes within its eight bytes. */
static uint32 low_bytes(int16 length) {
#ifdef WORDS_BIGENDIAN
  return sizeof(int64) - length;
#else
  return 0;
#endif
}

static void place_fixed_part(RowLayout *layout, const Batch *batch) {
  uint32 at = layout->fixed;
  int nbits = 0;

  for (int alignment = MAXIMUM_ALIGNOF; alignment >= 1; alignment /= 2) {
    at = TYPEALIGN(alignment, at);
    for (int i = 0; i < layout->ncolumns; i++) {
      StoredColumn *column = &layout->columns[i];
      int wanted =
          column->storage == STORED_VARIABLE ? (int)sizeof(uint32) : alignment_of(column->align);
      if (column->storage == STORED_AS_NUMBER || wanted != alignment) continue;
      /* The length of a type need not be a multiple of its alignment. */
      at = TYPEALIGN(alignment, at);
      column->offset = at;
      at += column->storage == STORED_VARIABLE ? (int)sizeof(uint32) : column->length;
    }
  }
  layout->nulls = at;
  for (int i = 0; i < layout->ncolumns; i++)
    if (layout->columns[i].storage != STORED_VARIABLE) layout->columns[i].null_bit = nbits++;
  layout->fixed = at + (nbits + 7) / 8;
}

RowLayout *row_layout_create(const Batch *batch, const Bitmapset *columns, int nkeys,
                             const JoinKey *keys) {
  RowLayout *layout = palloc0(sizeof(*layout));
  Bitmapset *stored = bms_copy(columns);
  int member = -1;

  layout->nkeys = nkeys;
  layout->keys = keys;
  layout->key_offset = palloc0(sizeof(*layout->key_offset) * nkeys);
  layout->fixed = sizeof(JoinRow);
  for (int k = 0; k < nkeys; k++) {
    if (keys[k].is_text) {
      stored = bms_add_member(stored, keys[k].column);
      continue;
    }
    layout->key_offset[k] = layout->fixed;
    layout->fixed += sizeof(int64);
  }
  layout->nbatch_columns = batch->ncolumns;
  layout->stored_of = palloc(sizeof(*layout->stored_of) * Max(batch->ncolumns, 1));
  for (int i = 0; i < batch->ncolumns; i++) layout->stored_of[i] = -1;
  layout->columns = palloc0(sizeof(*layout->columns) * Max(bms_num_members(stored), 1));
  while ((member = bms_next_member(stored, member)) >= 0) {
    const BatchColumn *source = &batch->columns[member];
    StoredColumn *column = &layout->columns[layout->ncolumns];
    int key;
    bool is_key = key_column(nkeys, keys, member, &key);

    layout->stored_of[member] = layout->ncolumns++;
    column->column = member;
    column->length = source->length;
    column->align = source->align;
    column->plain = is_key && keys[key].is_text;
    if (is_key && source->kind == COLUMN_INTEGER) {
      column->storage = STORED_AS_NUMBER;
      column->offset = layout->key_offset[key] + low_bytes(source->length);
    } else if (source->length > 0) {
      column->storage = STORED_FIXED;
    } else {
      column->storage = STORED_VARIABLE;
      layout->has_variable = true;
    }
  }
  place_fixed_part(layout, batch);
  for (int k = 0; k < nkeys; k++)
    if (keys[k].is_text)
      layout->key_offset[k] = layout->columns[layout->stored_of[keys[k].column]].offset;
  bms_free(stored);
  return layout;
}

/* ---- packing ---- */

/* A value that can be stored: values in foreign memory, and values that must be plain, are
 * copied first.
 */
static const char *storable(const StoredColumn *column, const char *value) {
  if (column->length != -1) return value;
  if (VARATT_IS_EXTERNAL_ONDISK(value) || VARATT_IS_COMPRESSED(value))
    return column->plain ? (const char *)detoast_attr((struct varlena *)value) : value;
  if (VARATT_IS_EXTERNAL(value)) return (const char *)detoast_attr((struct varlena *)value);
  return value;
}

static uint32 variable_size(const StoredColumn *column, const char *value) {
  return column->length == -1 ? VARSIZE_ANY(value) : strlen(value) + 1;
}

/* A short header or a toast pointer needs no alignment. */
static uint32 variable_start(const StoredColumn *column, const char *value, uint32 at) {
  if (column->length == -1 && VARATT_IS_1B(value)) return at;
  return TYPEALIGN(alignment_of(column->align), at);
}

static uint32 size_of_row(const RowLayout *layout, const Batch *batch, int row,
                          const char **values) {
  Size at = layout->fixed;

  if (!layout->has_variable) return TYPEALIGN(8, layout->fixed);
  for (int i = 0; i < layout->ncolumns; i++) {
    const StoredColumn *column = &layout->columns[i];
    const char *value;

    if (column->storage != STORED_VARIABLE) continue;
    value = batch->columns[column->column].where[row];
    if (value != NULL) {
      value = storable(column, value);
      at = (Size)variable_start(column, value, at) + variable_size(column, value);
      /* At most two values of 1 GB fit; core's tuples cannot hold more either. */
      if (at >= MaxAllocSize)
        ereport(ERROR, (errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
                        errmsg("a row of a BatchHashJoin would take more than 1 GB"),
                        errhint("Set ccopt.enable_batch_join to off for this statement.")));
    }
    values[i] = value;
  }
  return TYPEALIGN(8, at);
}

static void pack_row(const RowLayout *layout, const Batch *batch, int row, const char **values,
                     JoinRow *packed) {
  char *base = (char *)packed;
  uint32 at = layout->fixed;

  memset(base + layout->nulls, 0, layout->fixed - layout->nulls);
  for (int i = 0; i < layout->ncolumns; i++) {
    const StoredColumn *column = &layout->columns[i];
    const char *value = batch->columns[column->column].where[row];

    switch (column->storage) {
      case STORED_AS_NUMBER:
      case STORED_FIXED:
        if (value == NULL)
          base[layout->nulls + (column->null_bit >> 3)] |= 1 << (column->null_bit & 7);
        else if (column->storage == STORED_FIXED) {
          if (column->length == 4)
            memcpy(base + column->offset, value, 4);
          else if (column->length == 8)
            memcpy(base + column->offset, value, 8);
          else
            memcpy(base + column->offset, value, column->length);
        }
        break;
      case STORED_VARIABLE: {
        uint32 *slot = (uint32 *)(base + column->offset);
        uint32 size;
        if (value == NULL) {
          *slot = 0;
          break;
        }
        value = values[i];
        size = variable_size(column, value);
        at = variable_start(column, value, at);
        memcpy(base + at, value, size);
        *slot = at;
        at += size;
      }
    }
  }
}

static void pack_numbers(const RowLayout *layout, const KeyVector *vector, int row,
                         JoinRow *packed) {
  for (int k = 0; k < layout->nkeys; k++)
    if (!layout->keys[k].is_text)
      *(int64 *)((char *)packed + layout->key_offset[k]) = vector->number[k][row];
}

void join_table_add(JoinTable *table, const Batch *batch, const KeyVector *vector,
                    bool with_nulls) {
  const RowLayout *layout = table->layout;
  /* Values detoasted here live until the next batch's keys. */
  MemoryContext caller = MemoryContextSwitchTo(vector->detoasted);
  const char **values = palloc(sizeof(*values) * Max(layout->ncolumns, 1));

  for (int i = 0; i < vector->n; i++) {
    int row = vector->rows[i];
    uint32 size = size_of_row(layout, batch, row, values);
    JoinRow *packed = join_table_room(table, size);

    packed->hash = vector->hash[row];
    packed->size = size;
    pack_numbers(layout, vector, row, packed);
    pack_row(layout, batch, row, values, packed);
    table->nlinked++;
  }
  for (int i = 0; with_nulls && i < vector->nnull; i++) {
    int row = vector->null_rows[i];
    uint32 size = size_of_row(layout, batch, row, values);
    JoinRow *packed = join_table_room(table, size);

    /* Any hash is valid; different ones distribute such rows over partitions. */
    packed->hash = (uint32)table->nrows * 0x9E3779B1u;
    packed->size = size | ROW_KEY_IS_NULL;
    for (int k = 0; k < layout->nkeys; k++) {
      const JoinKey *key = &layout->keys[k];
      if (key->is_text) continue;
      /* One of several keys may also be stored as a column's value. */
      *(int64 *)((char *)packed + layout->key_offset[k]) =
          batch->columns[key->column].where[row] ? batch->columns[key->column].number[row] : 0;
    }
    pack_row(layout, batch, row, values, packed);
  }
  MemoryContextSwitchTo(caller);
}
