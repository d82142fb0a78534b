/*
 * Chunks of the column cache.
 *
 * A value keeps the form that it has in a tuple, so that whatever reads it from a page reads it from
 * a chunk. Only what numbers suffice for is kept as int64, or int32 if all of them fit.
 */
#include "column_chunk.h"

/* Decoders load words that begin before a value or end after it. */
#define CHUNK_TAIL 8

/* ---- gathering ---- */

static uint8 alignment_of(char align) {
  switch (align) {
    case TYPALIGN_CHAR: return 1;
    case TYPALIGN_SHORT: return ALIGNOF_SHORT;
    case TYPALIGN_INT: return ALIGNOF_INT;
    default: return ALIGNOF_DOUBLE;
  }
}

void chunk_builder_init(ChunkBuilder *builder, const BatchColumn *column, CacheForm form) {
  memset(builder, 0, sizeof(*builder));
  builder->form = form;
  if (form == CACHE_ROWS) return;
  builder->length = form == CACHE_NUMBERS ? sizeof(int64) : column->length;
  builder->alignment = form == CACHE_NUMBERS ? ALIGNOF_DOUBLE : alignment_of(column->align);
}

void chunk_builder_reset(ChunkBuilder *builder) {
  builder->unfit = false;
  builder->has_nulls = false;
  builder->same_size = true;
  builder->stride = builder->length > 0 ? TYPEALIGN(builder->alignment, builder->length) : 0;
  builder->nrows = 0;
  builder->used = 0;
  builder->magnitude = 0;
}

/* Room for `more` bytes; grows by doubling up to what a chunk may have. */
static bool make_room(ChunkBuilder *builder, uint32 more) {
  uint32 needed = builder->used + more;

  if (needed > column_cache_largest_chunk()) return false;
  if (needed <= builder->capacity) return true;
  builder->capacity = Max(Max(needed, builder->capacity * 2), 8192);
  builder->bytes =
      builder->bytes ? repalloc(builder->bytes, builder->capacity) : palloc(builder->capacity);
  return true;
}

static void add_numbers(ChunkBuilder *builder, const BatchColumn *column, int nrows) {
  memcpy(builder->bytes + builder->used, column->number, sizeof(int64) * nrows);
  builder->used += sizeof(int64) * nrows;
  builder->magnitude |= column->magnitude;
  if (!column->has_nulls) return;
  for (int row = 0; row < nrows; row++) {
    builder->places[builder->nrows + row] = column->where[row] != NULL;
    builder->has_nulls |= column->where[row] == NULL;
  }
}

#define ADD_FIXED(ctype) \
  for (int row = 0; row < nrows; row++) ((ctype *)to)[row] = *(const ctype *)column->where[row]

/* Without NULLs; the values of a page are aligned, and so are those of a builder. */
static void add_fixed(ChunkBuilder *builder, const BatchColumn *column, int nrows) {
  char *to = builder->bytes + builder->used;

  if (column->by_value && builder->length == sizeof(int64))
    ADD_FIXED(int64);
  else if (column->by_value && builder->length == sizeof(int32))
    ADD_FIXED(int32);
  else
    for (int row = 0; row < nrows; row++)
      memcpy(to + row * builder->stride, column->where[row], builder->length);
  builder->used += builder->stride * nrows;
}

static void add_fixed_with_nulls(ChunkBuilder *builder, const BatchColumn *column, int nrows) {
  memset(builder->bytes + builder->used, 0, builder->stride * nrows);
  for (int row = 0; row < nrows; row++) {
    const char *value = column->where[row];
    builder->places[builder->nrows + row] = value != NULL;
    builder->has_nulls |= value == NULL;
    if (value) memcpy(builder->bytes + builder->used, value, builder->length);
    builder->used += builder->stride;
  }
}

/*
 * Copies a value to where COPIED bytes more can be written. A short one takes two words: like the
 * decoders' loads, these may end behind the value. Memcheck would object (decode.c).
 */
#define COPIED 16
static inline void copy_value(char *to, const char *value, uint32 size) {
#ifndef USE_VALGRIND
  if (likely(size <= COPIED)) {
    memcpy(to, value, COPIED);
    return;
  }
#endif
  memcpy(to, value, size);
}

static void add_varlena(ChunkBuilder *builder, const BatchColumn *column, int nrows) {
  for (int row = 0; row < nrows; row++) {
    const char *value = column->where[row];
    uint32 size;

    if (column->has_nulls && value == NULL) {
      builder->places[builder->nrows + row] = 0;
      builder->has_nulls = true;
      continue;
    }
    /* A toasted value is elsewhere. */
    if (VARATT_IS_EXTERNAL(value)) {
      builder->unfit = true;
      return;
    }
    size = VARSIZE_ANY(value);
    if (!VARATT_IS_1B(value)) {
      builder->used = TYPEALIGN(ALIGNOF_DOUBLE, builder->used);
      builder->same_size = false;
    }
    if (unlikely(builder->used + size + COPIED > builder->capacity) &&
        !make_room(builder, size + COPIED)) {
      builder->unfit = true;
      return;
    }
    if (builder->stride == 0) builder->stride = size;
    builder->same_size &= size == builder->stride;
    copy_value(builder->bytes + builder->used, value, size);
    builder->places[builder->nrows + row] = builder->used + 1;
    builder->used += size;
  }
}

void chunk_builder_add(ChunkBuilder *builder, const BatchColumn *column, int nrows) {
  if (builder->unfit) return;
  if (builder->form != CACHE_ROWS) {
    if (builder->places == NULL)
      builder->places = palloc(sizeof(*builder->places) * CHUNK_MOST_ROWS);
    /* All before have a value, if nothing else was noted. */
    if (builder->length > 0 && column->has_nulls && !builder->has_nulls)
      for (uint32 row = 0; row < builder->nrows; row++) builder->places[row] = 1;
    if (builder->length > 0 && !column->has_nulls && builder->has_nulls)
      for (int row = 0; row < nrows; row++) builder->places[builder->nrows + row] = 1;
    if (builder->length == -2 ||
        (builder->length > 0 && !make_room(builder, builder->stride * nrows))) {
      builder->unfit = true;
      return;
    }
    if (builder->form == CACHE_NUMBERS)
      add_numbers(builder, column, nrows);
    else if (builder->length < 0)
      add_varlena(builder, column, nrows);
    else if (column->has_nulls)
      add_fixed_with_nulls(builder, column, nrows);
    else
      add_fixed(builder, column, nrows);
  }
  builder->nrows += nrows;
}

/* ---- writing ---- */

static bool is_narrow(const ChunkBuilder *builder) { return builder->magnitude <= PG_INT32_MAX; }

static ChunkLayout layout_of(const ChunkBuilder *builder) {
  if (builder->form == CACHE_NUMBERS) return is_narrow(builder) ? CHUNK_INT32 : CHUNK_INT64;
  if (builder->length > 0 || builder->form == CACHE_ROWS) return CHUNK_STRIDE;
  return builder->same_size && !builder->has_nulls ? CHUNK_STRIDE : CHUNK_OFFSETS;
}

static Size bytes_of_values(const ChunkBuilder *builder) {
  if (layout_of(builder) == CHUNK_INT32) return sizeof(int32) * builder->nrows;
  return builder->used;
}

static Size bytes_of_nulls(const ChunkBuilder *builder) {
  if (!builder->has_nulls || layout_of(builder) == CHUNK_OFFSETS) return 0;
  return MAXALIGN((builder->nrows + 7) / 8);
}

static Size bytes_of_offsets(const ChunkBuilder *builder) {
  if (layout_of(builder) != CHUNK_OFFSETS) return 0;
  return MAXALIGN(sizeof(uint32) * builder->nrows);
}

Size chunk_builder_size(const ChunkBuilder *builder) {
  return MAXALIGN(MAXALIGN(sizeof(ColumnChunk)) + bytes_of_offsets(builder) +
                  bytes_of_nulls(builder) + bytes_of_values(builder) + CHUNK_TAIL);
}

static void write_nulls(const ChunkBuilder *builder, uint8 *bits) {
  memset(bits, 0, bytes_of_nulls(builder));
  for (uint32 row = 0; row < builder->nrows; row++)
    if (builder->places[row] == 0) bits[row / 8] |= 1 << row % 8;
}

static void write_values(const ChunkBuilder *builder, ColumnChunk *chunk) {
  char *values = (char *)chunk + chunk->values_at;

  if (chunk->layout == CHUNK_INT32) {
    const int64 *numbers = (const int64 *)builder->bytes;
    for (uint32 row = 0; row < builder->nrows; row++) ((int32 *)values)[row] = (int32)numbers[row];
  } else if (builder->used > 0) {
    memcpy(values, builder->bytes, builder->used);
  }
}

void chunk_builder_write(const ChunkBuilder *builder, ColumnChunk *chunk, Size size) {
  Size at = MAXALIGN(sizeof(*chunk));

  pg_atomic_init_u64(&chunk->map_lsn, 0);
  chunk->heap_lsns = 0;
  chunk->magnitude = builder->magnitude;
  chunk->size = (uint32)size;
  chunk->nrows = builder->nrows;
  chunk->layout = layout_of(builder);
  chunk->has_nulls = builder->has_nulls;
  chunk->stride = (uint16)(chunk->layout == CHUNK_INT32 ? sizeof(int32) : builder->stride);
  chunk->nulls_at = 0;
  if (bytes_of_nulls(builder) > 0) {
    chunk->nulls_at = (uint32)at;
    write_nulls(builder, (uint8 *)chunk + at);
    at += bytes_of_nulls(builder);
  }
  chunk->values_at = (uint32)(at + bytes_of_offsets(builder));
  if (chunk->layout == CHUNK_OFFSETS) {
    uint32 *offsets = (uint32 *)((char *)chunk + at);
    for (uint32 row = 0; row < builder->nrows; row++)
      offsets[row] = builder->places[row] ? chunk->values_at + builder->places[row] - 1 : 0;
  }
  write_values(builder, chunk);
  Assert(chunk->values_at + bytes_of_values(builder) + CHUNK_TAIL <= size);
}

/* ---- loading ---- */

static inline bool is_null(const uint8 *nulls, uint32 row) {
  return (nulls[row / 8] >> row % 8 & 1) != 0;
}

/* `stride` is a constant where this is inlined for the usual ones. */
static pg_attribute_always_inline void load_places(const char *values, uint32 stride,
                                                   const char **where, const uint16 *selected,
                                                   int n) {
  if (selected == NULL)
    for (int row = 0; row < n; row++) where[row] = values + (Size)row * stride;
  else
    for (int i = 0; i < n; i++) where[selected[i]] = values + (Size)selected[i] * stride;
}

static void load_stride(const char *values, uint32 stride, const char **where,
                        const uint16 *selected, int n) {
  switch (stride) {
    case 4: load_places(values, 4, where, selected, n); break;
    case 8: load_places(values, 8, where, selected, n); break;
    default: load_places(values, stride, where, selected, n); break;
  }
}

static void load_offsets(const ColumnChunk *chunk, uint32 first, const char **where,
                         const uint16 *selected, int n) {
  const uint32 *offsets = (const uint32 *)((const char *)chunk + chunk->values_at -
                                           MAXALIGN(sizeof(uint32) * chunk->nrows)) +
                          first;

  for (int i = 0; i < n; i++) {
    int row = selected ? selected[i] : i;
    const char *value = (const char *)chunk + offsets[row];
    where[row] = chunk->has_nulls && offsets[row] == 0 ? NULL : value;
  }
}

void chunk_load(const ColumnChunk *chunk, uint32 first, BatchColumn *column, const uint16 *selected,
                int nselected, int nrows) {
  const char *values = (const char *)chunk + chunk->values_at + (Size)first * chunk->stride;
  const uint16 *list = nselected == nrows ? NULL : selected;

  Assert(first + nrows <= chunk->nrows);
  column->has_nulls = chunk->has_nulls;
  if (chunk->layout == CHUNK_OFFSETS) {
    load_offsets(chunk, first, column->where, list, nselected);
    return;
  }
  load_stride(values, chunk->stride, column->where, list, nselected);
  if (chunk->nulls_at) {
    const uint8 *nulls = (const uint8 *)chunk + chunk->nulls_at;
    for (int i = 0; i < nselected; i++)
      if (is_null(nulls, first + selected[i])) column->where[selected[i]] = NULL;
  }
  if (chunk->layout == CHUNK_INT32 || chunk->layout == CHUNK_INT64) {
    column->lane = values;
    column->lane_kind = chunk->layout == CHUNK_INT32 ? LANE_INT32 : LANE_INT64;
    column->lane_magnitude = chunk->magnitude;
    column->numbers_only = true;
  } else if (column->kind == COLUMN_INTEGER) {
    column->lane = values;
    column->lane_kind = LANE_VALUES;
  }
}
