/*
 * The walk over heap tuples, column by column.
 */
#include "walk.h"

#include "access/tupdesc_details.h"
#include "utils/datum.h"

static uint8 alignment_of(char align) {
  switch (align) {
    case TYPALIGN_CHAR: return 1;
    case TYPALIGN_SHORT: return ALIGNOF_SHORT;
    case TYPALIGN_INT: return ALIGNOF_INT;
    default: return ALIGNOF_DOUBLE;
  }
}

/*
 * A row that is older than an attribute with a constant default has the default of pg_attribute.
 * The copy has eight bytes of room on either side, as a value in a page has: decoders load words
 * that end or begin with the value.
 */
static const char *missing_value(TupleDesc descriptor, int index) {
  Form_pg_attribute attribute = TupleDescAttr(descriptor, index);
  const AttrMissing *missing;
  char *copy;
  Size size;

  if (!attribute->atthasmissing || descriptor->constr == NULL ||
      descriptor->constr->missing == NULL)
    return NULL;
  missing = &descriptor->constr->missing[index];
  if (!missing->am_present) return NULL;
  size = attribute->attbyval
             ? sizeof(Datum)
             : datumGetSize(missing->am_value, attribute->attbyval, attribute->attlen);
  copy = (char *)palloc0(size + 16) + 8;
  if (attribute->attbyval)
    store_att_byval(copy, missing->am_value, attribute->attlen);
  else
    memcpy(copy, DatumGetPointer(missing->am_value), size);
  return copy;
}

Walk *walk_create(TupleDesc descriptor, const Batch *batch) {
  Walk *walk = palloc0(sizeof(*walk));
  int32 offset = 0; /* of the next attribute, while that is the same in every row; then -1 */

  for (int i = 0; i < batch->ncolumns; i++)
    walk->nattributes = Max(walk->nattributes, batch->columns[i].slot_attno);
  walk->attributes = palloc0(sizeof(*walk->attributes) * Max(walk->nattributes, 1));
  for (int i = 0; i < walk->nattributes; i++) {
    Form_pg_attribute from = TupleDescAttr(descriptor, i);
    WalkAttribute *to = &walk->attributes[i];

    to->length = from->attlen;
    to->alignment = alignment_of(from->attalign);
    to->column = -1;
    to->missing = missing_value(descriptor, i);
    to->offset = -1;
    if (offset < 0) continue;
    if (from->attlen > 0) {
      to->offset = TYPEALIGN(to->alignment, offset);
      offset = to->offset + from->attlen;
    } else {
      /* A varlena with a short header is not aligned: only one that stands right anyway has one
       * place. */
      if (from->attlen == -2 || TYPEALIGN(to->alignment, offset) == offset) to->offset = offset;
      offset = -1;
    }
  }
  for (int i = 0; i < batch->ncolumns; i++)
    walk->attributes[batch->columns[i].slot_attno - 1].column = i;
  return walk;
}

void walk_begin(Walk *walk, Batch *batch, int nrows) {
  uint16 infomask = 0;

  batch_select_all(batch, nrows);
  walk->next = 0;
  walk->irregular = false;
  if (walk->nattributes == 0) return;
  for (int row = 0; row < nrows; row++) {
    HeapTupleHeader header = walk->headers[row];
    infomask |= header->t_infomask;
    walk->irregular |= HeapTupleHeaderGetNatts(header) < walk->nattributes;
    walk->cursors[row] = (const char *)header + header->t_hoff;
  }
  walk->irregular |= (infomask & HEAP_HASNULL) != 0;
}

/* Pages are aligned, and so are rows on them: an address is aligned as its offset is. */
static inline const char *aligned(const char *address, uintptr_t alignment) {
  return (const char *)TYPEALIGN(alignment, (uintptr_t)address);
}

/* Where a varlena starts: padding bytes are zero, and no header's first byte is. */
static inline const char *varlena_start(const char *address, uintptr_t alignment) {
  return unlikely(*address == 0) ? aligned(address, alignment) : address;
}

static inline Size varlena_size(const char *address) {
  if (likely(VARATT_IS_1B(address) && !VARATT_IS_1B_E(address))) return VARSIZE_1B(address);
  return VARSIZE_ANY(address);
}

/* One loop for all rows and one for the selected ones: the first needs no list. */
#define FOR_SELECTED(batch, body)             \
  do {                                        \
    int n = (batch)->nselected;               \
    if (n == (batch)->nrows) {                \
      for (int row = 0; row < n; row++) body  \
    } else {                                  \
      const uint16 *list = (batch)->selected; \
      for (int i = 0; i < n; i++) {           \
        int row = list[i];                    \
        body                                  \
      }                                       \
    }                                         \
  } while (0)

/* The rows' attribute follows attributes of varying length; no row has NULLs. */
static void step_regular(Walk *walk, Batch *batch, const WalkAttribute *attribute) {
  const char **cursors = walk->cursors;
  const uintptr_t alignment = attribute->alignment;
  const int length = attribute->length;
  const char **where = attribute->column >= 0 ? batch->columns[attribute->column].where : NULL;

  if (length > 0) {
    if (where)
      FOR_SELECTED(batch, {
        const char *value = aligned(cursors[row], alignment);
        where[row] = value;
        cursors[row] = value + length;
      });
    else
      FOR_SELECTED(batch, { cursors[row] = aligned(cursors[row], alignment) + length; });
  } else if (length == -1) {
    if (where)
      FOR_SELECTED(batch, {
        const char *value = varlena_start(cursors[row], alignment);
        where[row] = value;
        cursors[row] = value + varlena_size(value);
      });
    else
      FOR_SELECTED(batch, {
        const char *value = varlena_start(cursors[row], alignment);
        cursors[row] = value + varlena_size(value);
      });
  } else
    FOR_SELECTED(batch, {
      const char *value = cursors[row];
      if (where) where[row] = value;
      cursors[row] = value + strlen(value) + 1;
    });
}

/* The same for rows that may have NULLs and may be older than the attribute. */
static void step_irregular(Walk *walk, Batch *batch, int index) {
  const WalkAttribute *attribute = &walk->attributes[index];
  BatchColumn *column = attribute->column >= 0 ? &batch->columns[attribute->column] : NULL;
  bool has_nulls = false;

  FOR_SELECTED(batch, {
    HeapTupleHeader header = walk->headers[row];
    const char *value;
    if (unlikely(index >= HeapTupleHeaderGetNatts(header)))
      value = attribute->missing;
    else if ((header->t_infomask & HEAP_HASNULL) && att_isnull(index, header->t_bits))
      value = NULL;
    else {
      const char *start = walk->cursors[row];
      value = attribute->length == -1 ? varlena_start(start, attribute->alignment)
              : attribute->length > 0 ? aligned(start, attribute->alignment)
                                      : start;
      walk->cursors[row] = value + (attribute->length == -1 ? varlena_size(value)
                                    : attribute->length > 0 ? (Size)attribute->length
                                                            : strlen(value) + 1);
    }
    if (column) column->where[row] = value;
    has_nulls |= value == NULL;
  });
  if (column) column->has_nulls = has_nulls;
}

/* Attributes of constant offset need no walk; the last of them leaves the cursors behind it. */
static void step_constant(Walk *walk, Batch *batch, int index) {
  const WalkAttribute *attribute = &walk->attributes[index];
  bool last = index + 1 == walk->nattributes || walk->attributes[index + 1].offset < 0;
  const int offset = attribute->offset;

  if (attribute->column >= 0) {
    const char **where = batch->columns[attribute->column].where;
    if (last && attribute->length == -1) {
      FOR_SELECTED(batch, {
        const char *value = walk->cursors[row] + offset;
        where[row] = value;
        walk->cursors[row] = value + varlena_size(value);
      });
      return;
    }
    FOR_SELECTED(batch, { where[row] = walk->cursors[row] + offset; });
  }
  if (!last) return;
  if (attribute->length > 0)
    FOR_SELECTED(batch, { walk->cursors[row] += offset + attribute->length; });
  else if (attribute->length == -1)
    FOR_SELECTED(batch, {
      const char *value = walk->cursors[row] + offset;
      walk->cursors[row] = value + varlena_size(value);
    });
  else
    FOR_SELECTED(batch, {
      const char *value = walk->cursors[row] + offset;
      walk->cursors[row] = value + strlen(value) + 1;
    });
}

void walk_to(Walk *walk, Batch *batch, int attno) {
  Assert(attno <= walk->nattributes);
  for (; walk->next < attno; walk->next++) {
    const WalkAttribute *attribute = &walk->attributes[walk->next];
    if (walk->irregular)
      step_irregular(walk, batch, walk->next);
    else if (attribute->offset >= 0)
      step_constant(walk, batch, walk->next);
    else
      step_regular(walk, batch, attribute);
  }
}
