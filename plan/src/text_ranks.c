/*
 * Different values of a text column: a hash table of the values, which are sorted once by their collation.
 *
 * Most text that rows are grouped or partitioned by has few values: comparing two of them by a collation
 * takes as long as reading some ten rows, and is done once for each pair here.
 *
 * Invariants:
 *  1. slots[] has a power of two of entries, at most half of them in use; each is a number + 1, or 0.
 *  2. Values are equal if their bytes are (those of bpchar without trailing blanks): collations are
 *     deterministic (batch.h).
 */
#include "text_ranks.h"

#include "common/hashfn.h"
#include "miscadmin.h"
#include "port/pg_bswap.h"
#include "utils/pg_locale.h"
#include "utils/sortsupport.h"

#include "bump.h"

#define FIRST_SLOTS 64

typedef struct Text {
  const char *value; /* with its header */
  const char *bytes;
  int length; /* of bytes */
  uint32 hash;
} Text;

struct TextRanks {
  ColumnKind kind;
  bool by_bytes; /* the collation compares bytes */
  MemoryContext context;
  Bump *copies;
  SortSupportData support;
  uint32 ntexts;
  uint32 room;
  Text *texts;
  uint32 nslots;
  uint32 *slots;
  uint32 *order;
};

TextRanks *text_ranks_create(ColumnKind kind, Oid operator, Oid collation, MemoryContext context,
                             Bump *copies) {
  TextRanks *ranks = MemoryContextAllocZero(context, sizeof(*ranks));

  ranks->kind = kind;
  ranks->by_bytes = COLLATION_IS_C(collation);
  ranks->context = context;
  ranks->copies = copies;
  ranks->support.ssup_cxt = context;
  ranks->support.ssup_collation = collation;
  PrepareSortSupportFromOrderingOp(operator, & ranks->support);
  ranks->room = FIRST_SLOTS / 2;
  ranks->texts = MemoryContextAlloc(context, sizeof(*ranks->texts) * ranks->room);
  ranks->nslots = FIRST_SLOTS;
  ranks->slots = MemoryContextAllocZero(context, sizeof(*ranks->slots) * ranks->nslots);
  return ranks;
}

static void grow(TextRanks *ranks) {
  ranks->room *= 2;
  ranks->texts = repalloc_huge(ranks->texts, sizeof(*ranks->texts) * ranks->room);
  pfree(ranks->slots);
  ranks->nslots *= 2;
  ranks->slots = MemoryContextAllocExtended(ranks->context, sizeof(*ranks->slots) * ranks->nslots,
                                            MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
  for (uint32 i = 0; i < ranks->ntexts; i++) {
    uint32 slot = ranks->texts[i].hash & (ranks->nslots - 1);
    while (ranks->slots[slot]) slot = (slot + 1) & (ranks->nslots - 1);
    ranks->slots[slot] = i + 1;
  }
}

static Text text_of(const TextRanks *ranks, const char *value) {
  Text text = {.value = value, .bytes = VARDATA_ANY(value), .length = VARSIZE_ANY_EXHDR(value)};

  if (ranks->kind == COLUMN_BPCHAR)
    while (text.length > 0 && text.bytes[text.length - 1] == ' ') text.length--;
  text.hash = hash_bytes((const unsigned char *)text.bytes, text.length);
  return text;
}

static uint32 add(TextRanks *ranks, Text text, uint32 slot) {
  Size size = VARSIZE_ANY(text.value);
  char *copy = bump_alloc(ranks->copies, size);
  uint32 number = ranks->ntexts++;

  memcpy(copy, text.value, size);
  text.bytes = copy + (text.bytes - text.value);
  text.value = copy;
  ranks->texts[number] = text;
  ranks->slots[slot] = number + 1;
  if (ranks->ntexts == ranks->room) grow(ranks);
  return number;
}

uint32 text_ranks_number(TextRanks *ranks, const char *value) {
  struct varlena *plain = NULL;
  Text text;
  uint32 slot, number;

  if (VARATT_IS_EXTERNAL(value) || VARATT_IS_COMPRESSED(value))
    value = (char *)(plain = pg_detoast_datum_packed((struct varlena *)value));
  text = text_of(ranks, value);
  for (slot = text.hash & (ranks->nslots - 1); ranks->slots[slot];
       slot = (slot + 1) & (ranks->nslots - 1)) {
    const Text *other = &ranks->texts[ranks->slots[slot] - 1];
    if (other->hash == text.hash && other->length == text.length &&
        memcmp(other->bytes, text.bytes, text.length) == 0)
      break;
  }
  number = ranks->slots[slot] ? ranks->slots[slot] - 1 : add(ranks, text, slot);
  if (plain) pfree(plain);
  return number;
}

const char *text_ranks_value(const TextRanks *ranks, uint32 number) {
  return ranks->texts[number].value;
}

/* ---- the order ---- */

/* `prefix`: the first bytes, if the collation compares bytes; otherwise 0. */
typedef struct Entry {
  uint64 prefix;
  uint32 number;
} Entry;

static uint64 prefix_of(const TextRanks *ranks, const Text *text) {
  uint64 prefix = 0;

  if (!ranks->by_bytes) return 0;
  memcpy(&prefix, text->bytes, Min(text->length, (int)sizeof(prefix)));
  prefix = pg_ntoh64(prefix);
  return ranks->support.ssup_reverse ? ~prefix : prefix;
}

static int compare(const Entry *a, const Entry *b, TextRanks *ranks) {
  if (a->prefix != b->prefix) return a->prefix < b->prefix ? -1 : 1;
  return ApplySortComparator(PointerGetDatum(ranks->texts[a->number].value), false,
                             PointerGetDatum(ranks->texts[b->number].value), false,
                             &ranks->support);
}

#define ST_SORT sort_entries
#define ST_ELEMENT_TYPE Entry
#define ST_COMPARE(a, b, ranks) compare(a, b, ranks)
#define ST_COMPARE_ARG_TYPE TextRanks
#define ST_SCOPE static
#define ST_CHECK_FOR_INTERRUPTS
#define ST_DEFINE
#include "lib/sort_template.h"

const uint32 *text_ranks_order(TextRanks *ranks) {
  const Size ntexts = Max(ranks->ntexts, 1);
  Entry *sorted = MemoryContextAllocHuge(ranks->context, sizeof(*sorted) * ntexts);

  ranks->order = MemoryContextAllocHuge(ranks->context, sizeof(*ranks->order) * ntexts);
  for (uint32 i = 0; i < ranks->ntexts; i++)
    sorted[i] = (Entry){prefix_of(ranks, &ranks->texts[i]), i};
  sort_entries(sorted, ranks->ntexts, ranks);
  for (uint32 i = 0; i < ranks->ntexts; i++) ranks->order[sorted[i].number] = i;
  pfree(sorted);
  return ranks->order;
}

Size text_ranks_memory(const TextRanks *ranks) {
  return sizeof(*ranks->texts) * ranks->room + sizeof(*ranks->slots) * ranks->nslots +
         (sizeof(Entry) + sizeof(*ranks->order)) * ranks->ntexts;
}
