/*
 * The walk over heap tuples, column by column.
 */
#include "walk.h"

#include "access/tupdesc_details.h"
#include "port/pg_bitutils.h"
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
 * A row older than an attribute with a constant default has the default of pg_attribute. The copy
 * has eight spare bytes on either side, like a value in a page: decoders load words that end or
 * begin with the value.
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

/* Sizes of values with a one-byte header, by the first byte; 0: another header. */
static uint8 short_sizes[256];

static void make_short_sizes(void) {
  for (int first = 0; first < (int)lengthof(short_sizes); first++) {
    char byte = (char)first;
    short_sizes[first] = VARATT_IS_1B(&byte) && !VARATT_IS_1B_E(&byte) ? VARSIZE_1B(&byte) : 0;
  }
}

/* ---- steps ---- */

/*
 * Adds the step of attribute `index` and of the following ones that share it; returns the next
 * attribute.
 */
static int add_variable_step(Walk *walk, const Batch *batch, int index, int start, int stop) {
  WalkStep *step = &walk->steps[walk->nsteps++];
  int length = walk->attributes[index].length;
  int first_alignment = walk->attributes[index].alignment;
  int offset = 0;

  *step = (WalkStep){.kind = length > 0     ? STEP_FIXED
                             : length == -1 ? STEP_VARLENA
                                            : STEP_CSTRING,
                     .start = start};
  for (; index < walk->nattributes && step->n < WALK_STEP_ATTRIBUTES; index++) {
    const WalkAttribute *attribute = &walk->attributes[index];
    const char **where = attribute->column >= 0 ? batch->columns[attribute->column].where : NULL;

    if (index == stop && step->last > 0) break;
    if (step->last > 0 && (step->kind == STEP_CSTRING || (attribute->length > 0) != (length > 0) ||
                           attribute->length == -2 || attribute->alignment > first_alignment))
      break;
    step->last = index + 1;
    if (step->kind == STEP_FIXED) {
      offset = TYPEALIGN(attribute->alignment, offset);
      step->alignment[0] = first_alignment;
      if (where) {
        step->where[step->n] = where;
        step->offset[step->n++] = offset;
      }
      offset += attribute->length;
    } else {
      step->where[step->n] = where ? where : walk->unwanted;
      step->alignment[step->n++] = attribute->alignment;
    }
  }
  step->length = offset;
  return index;
}

/* Fixed attributes before all others need no cursor. */
static void make_steps(Walk *walk, const Batch *batch, int stop) {
  int offset = 0, index = 0;

  walk->steps = palloc0(sizeof(*walk->steps) * Max(walk->nattributes, 1));
  for (; index < walk->nattributes; index++) {
    const WalkAttribute *attribute = &walk->attributes[index];
    /* A varlena with a short header is not aligned: only one that happens to be aligned has a
     * constant place, and then only if nothing follows it. */
    bool constant = attribute->length > 0 || (index + 1 == walk->nattributes &&
                                              TYPEALIGN(attribute->alignment, offset) == offset);
    if (!constant) break;
    if (attribute->length > 0) offset = TYPEALIGN(attribute->alignment, offset);
    if (attribute->column >= 0) {
      WalkStep *step = &walk->steps[walk->nsteps++];
      *step = (WalkStep){.kind = STEP_CONSTANT, .last = index + 1, .start = offset, .n = 1};
      step->where[0] = batch->columns[attribute->column].where;
    }
    offset += attribute->length;
  }
  while (index < walk->nattributes) {
    index = add_variable_step(walk, batch, index, offset, stop);
    offset = 0;
  }
}

Walk *walk_create(TupleDesc descriptor, const Batch *batch, int stop) {
  Walk *walk = palloc0(sizeof(*walk));

  for (int i = 0; i < batch->ncolumns; i++)
    walk->nattributes = Max(walk->nattributes, batch->columns[i].slot_attno);
  walk->attributes = palloc0(sizeof(*walk->attributes) * Max(walk->nattributes, 1));
  for (int i = 0; i < walk->nattributes; i++) {
    Form_pg_attribute attribute = TupleDescAttr(descriptor, i);
    walk->attributes[i] = (WalkAttribute){.length = attribute->attlen,
                                          .alignment = alignment_of(attribute->attalign),
                                          .column = -1,
                                          .missing = missing_value(descriptor, i)};
  }
  for (int i = 0; i < batch->ncolumns; i++)
    walk->attributes[batch->columns[i].slot_attno - 1].column = i;
  make_steps(walk, batch, stop);
  for (int row = 0; row < BATCH_ROWS; row++) walk->all_rows[row] = (uint16)row;
  if (short_sizes[3] == 0) make_short_sizes();
  return walk;
}

/*
 * The first attribute that is NULL in some row, if that is among the first 64 (otherwise 64: later
 * ones are checked row by row). A row's bitmap has a one where there is a value.
 */
static int first_null(const Walk *walk, int nrows) {
#ifdef WORDS_BIGENDIAN
  return 0;
#else
  uint64 values = ~UINT64CONST(0);
  for (int row = 0; row < nrows; row++) {
    HeapTupleHeader header = walk->headers[row];
    uint64 bits;
    if (!(header->t_infomask & HEAP_HASNULL)) continue;
    /* Bits after the row's last attribute are not used: the row ends there. */
    memcpy(&bits, header->t_bits, sizeof(bits));
    values &= bits;
  }
  return ~values == 0 ? 64 : pg_rightmost_one_pos64(~values);
#endif
}

void walk_begin(Walk *walk, Batch *batch, int nrows) {
  uint16 infomask = 0;
  int fewest = walk->nattributes;

  /* batch_select_all(), by copying a list. */
  memcpy(batch->selected, walk->all_rows, sizeof(*walk->all_rows) * nrows);
  batch->nrows = batch->nselected = nrows;
  walk->next_step = 0;
  walk->next_attribute = -1;
  walk->irregular_from = walk->fewest_attributes = walk->nattributes;
  if (walk->nattributes == 0) return;
  for (int row = 0; row < nrows; row++) {
    HeapTupleHeader header = walk->headers[row];
    int natts = HeapTupleHeaderGetNatts(header);
    infomask |= header->t_infomask;
    fewest = Min(fewest, natts);
    walk->cursors[row] = (const char *)header + header->t_hoff;
  }
  walk->irregular_from = walk->fewest_attributes = fewest;
  if (infomask & HEAP_HASNULL) walk->irregular_from = Min(fewest, first_null(walk, nrows));
}

/* ---- walking ---- */

/* Pages are aligned, and so are rows on them: an address is aligned if its offset is. */
static inline const char *aligned(const char *address, uintptr_t alignment) {
  return (const char *)TYPEALIGN(alignment, (uintptr_t)address);
}

/* Start of a varlena: padding bytes are zero, and a header's first byte never is. */
static inline const char *varlena_start(const char *address, uintptr_t alignment) {
  return unlikely(*address == 0) ? aligned(address, alignment) : address;
}

/* The start of the varlena at a cursor; moves the cursor to its end. */
static pg_attribute_always_inline const char *take_varlena(const char **cursor,
                                                           uintptr_t alignment) {
  const char *value = *cursor;
  Size size = short_sizes[*(const uint8 *)value];
  if (unlikely(size == 0)) {
    value = varlena_start(value, alignment);
    size = VARSIZE_ANY(value);
  }
  *cursor = value + size;
  return value;
}

/* One loop for all rows and one for the selected ones: the first needs no list. */
#define FOR_SELECTED(batch, body)                    \
  do {                                               \
    int nselected = (batch)->nselected;              \
    if (nselected == (batch)->nrows) {               \
      for (int row = 0; row < nselected; row++) body \
    } else {                                         \
      const uint16 *list = (batch)->selected;        \
      for (int i = 0; i < nselected; i++) {          \
        int row = list[i];                           \
        body                                         \
      }                                              \
    }                                                \
  } while (0)

static void step_constant(Walk *walk, const Batch *batch, const WalkStep *step) {
  const char **cursors = walk->cursors;
  const char **where = step->where[0];
  const int offset = step->start;
  FOR_SELECTED(batch, { where[row] = cursors[row] + offset; });
}

/* `n` is a constant where this is inlined. */
static pg_attribute_always_inline void step_fixed(Walk *walk, const Batch *batch,
                                                  const WalkStep *step, int n) {
  const char **cursors = walk->cursors;
  const char **where0 = step->where[0], **where1 = step->where[1];
  const char **where2 = step->where[2], **where3 = step->where[3];
  const int offset0 = step->offset[0], offset1 = step->offset[1];
  const int offset2 = step->offset[2], offset3 = step->offset[3];
  const uintptr_t alignment = step->alignment[0];
  const int start = step->start, length = step->length;

  FOR_SELECTED(batch, {
    const char *first = aligned(cursors[row] + start, alignment);
    if (n > 0) where0[row] = first + offset0;
    if (n > 1) where1[row] = first + offset1;
    if (n > 2) where2[row] = first + offset2;
    if (n > 3) where3[row] = first + offset3;
    cursors[row] = first + length;
  });
}

static pg_attribute_always_inline void step_varlena(Walk *walk, const Batch *batch,
                                                    const WalkStep *step, int n) {
  const char **cursors = walk->cursors;
  const char **where0 = step->where[0], **where1 = step->where[1];
  const char **where2 = step->where[2], **where3 = step->where[3];
  const uintptr_t alignment0 = step->alignment[0], alignment1 = step->alignment[1];
  const uintptr_t alignment2 = step->alignment[2], alignment3 = step->alignment[3];
  const int start = step->start;

  FOR_SELECTED(batch, {
    const char *cursor = cursors[row] + start;
    where0[row] = take_varlena(&cursor, alignment0);
    if (n > 1) where1[row] = take_varlena(&cursor, alignment1);
    if (n > 2) where2[row] = take_varlena(&cursor, alignment2);
    if (n > 3) where3[row] = take_varlena(&cursor, alignment3);
    cursors[row] = cursor;
  });
}

/* The last attribute: its end need not be computed. */
static void step_last_varlena(Walk *walk, const Batch *batch, const WalkStep *step) {
  const char **cursors = walk->cursors;
  const char **where = step->where[0];
  const uintptr_t alignment = step->alignment[0];
  const int start = step->start;
  FOR_SELECTED(batch, { where[row] = varlena_start(cursors[row] + start, alignment); });
}

static void step_cstring(Walk *walk, const Batch *batch, const WalkStep *step) {
  const char **cursors = walk->cursors;
  const char **where = step->where[0];
  const int start = step->start;
  FOR_SELECTED(batch, {
    const char *value = cursors[row] + start;
    where[row] = value;
    cursors[row] = value + strlen(value) + 1;
  });
}

static void take_step(Walk *walk, const Batch *batch, const WalkStep *step) {
  switch (step->kind) {
    case STEP_CONSTANT: step_constant(walk, batch, step); break;
    case STEP_FIXED:
      switch (step->n) {
        case 0: step_fixed(walk, batch, step, 0); break;
        case 1: step_fixed(walk, batch, step, 1); break;
        case 2: step_fixed(walk, batch, step, 2); break;
        case 3: step_fixed(walk, batch, step, 3); break;
        default: step_fixed(walk, batch, step, 4); break;
      }
      break;
    case STEP_VARLENA:
      switch (step->n) {
        case 1:
          if (step->last == walk->nattributes)
            step_last_varlena(walk, batch, step);
          else
            step_varlena(walk, batch, step, 1);
          break;
        case 2: step_varlena(walk, batch, step, 2); break;
        case 3: step_varlena(walk, batch, step, 3); break;
        default: step_varlena(walk, batch, step, 4); break;
      }
      break;
    case STEP_CSTRING: step_cstring(walk, batch, step); break;
  }
}

/* One attribute of rows that may have NULLs and may be older than the attribute. */
static void step_irregular(Walk *walk, Batch *batch, int index) {
  const WalkAttribute *attribute = &walk->attributes[index];
  BatchColumn *column = attribute->column >= 0 ? &batch->columns[attribute->column] : NULL;
  const char **where = column ? column->where : walk->unwanted;
  const uintptr_t alignment = attribute->alignment;
  const int length = attribute->length;
  bool has_nulls = false;

  FOR_SELECTED(batch, {
    HeapTupleHeader header = walk->headers[row];
    const char *value;
    if (unlikely(index >= HeapTupleHeaderGetNatts(header)))
      value = attribute->missing;
    else if ((header->t_infomask & HEAP_HASNULL) && att_isnull(index, header->t_bits))
      value = NULL;
    else if (length == -1)
      value = take_varlena(&walk->cursors[row], alignment);
    else if (length > 0) {
      value = aligned(walk->cursors[row], alignment);
      walk->cursors[row] = value + length;
    } else {
      value = walk->cursors[row];
      walk->cursors[row] = value + strlen(value) + 1;
    }
    where[row] = value;
    has_nulls |= value == NULL;
  });
  if (column) column->has_nulls = has_nulls;
}

/* Runs the steps up to `attno` that end before the first NULL. True if those were all. */
static bool take_regular_steps(Walk *walk, Batch *batch, int attno) {
  int last = walk->next_step > 0 ? walk->steps[walk->next_step - 1].last : 0;
  while (last < attno && walk->next_step < walk->nsteps) {
    const WalkStep *step = &walk->steps[walk->next_step];
    if (step->last > walk->irregular_from) return false;
    take_step(walk, batch, step);
    walk->next_step++;
    last = step->last;
  }
  /* The step that finds `attno` may have found some after it, too. */
  return true;
}

void walk_to(Walk *walk, Batch *batch, int attno) {
  Assert(attno <= walk->nattributes);
  if (walk->next_attribute < 0) {
    if (take_regular_steps(walk, batch, attno)) return;
    /* The cursors are at the end of the last step that moved them. */
    walk->next_attribute = 0;
    if (walk->next_step > 0 && walk->steps[walk->next_step - 1].kind != STEP_CONSTANT)
      walk->next_attribute = walk->steps[walk->next_step - 1].last;
  }
  while (walk->next_attribute < attno) step_irregular(walk, batch, walk->next_attribute++);
}
