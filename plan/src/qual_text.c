/*
 * Predicates on strings: equality with one or many, and LIKE with % only. Strings are bytes: in
 * deterministic collations equal means equal bytes, and in the encodings that qual_parse.c accepts
 * a piece of a pattern is found only where characters begin.
 */
#include "qual_internal.h"

#include "common/hashfn.h"
#include "fmgr.h"
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

/* Up to this number, strings are compared one by one; more are stored in a table. */
#define FEW_STRINGS 4

/* ---- constants ---- */

static int without_blanks(const char *data, int length) {
  while (length > 0 && data[length - 1] == ' ') length--;
  return length;
}

/* Copies constants detoasted; a bpchar's trailing blanks do not count. */
static QualString constant_string(const QualNode *node, Datum value) {
  struct varlena *flat = PG_DETOAST_DATUM_COPY(value);
  QualString string = {VARDATA(flat), VARSIZE(flat) - VARHDRSZ};
  if (node->column_kind == COLUMN_BPCHAR)
    string.length = without_blanks(string.data, string.length);
  return string;
}

static bool same(QualString a, QualString b) {
  return a.length == b.length && memcmp(a.data, b.data, a.length) == 0;
}

static uint32 hash_of(QualString string) {
  return hash_bytes((const unsigned char *)string.data, string.length);
}

static bool is_listed(const QualNode *node, QualString string) {
  if (node->buckets) {
    for (uint32 place = hash_of(string);; place++) {
      uint32 index = node->buckets[place & node->bucket_mask];
      if (index == 0) return false;
      if (same(node->strings[index - 1], string)) return true;
    }
  }
  for (int i = 0; i < node->nvalues; i++)
    if (same(node->strings[i], string)) return true;
  return false;
}

void qual_set_strings(QualNode *node, Datum *values, bool *nulls, int nvalues) {
  node->run = QUAL_TEXT_IN;
  node->negated_run = node->negated;
  node->strings = palloc(sizeof(*node->strings) * Max(nvalues, 1));
  node->nvalues = 0;
  node->buckets = NULL;
  if (nvalues > FEW_STRINGS) {
    uint32 size = 16;
    while (size < (uint32)nvalues * 2) size *= 2;
    node->buckets = palloc0(sizeof(*node->buckets) * size);
    node->bucket_mask = size - 1;
  }
  for (int i = 0; i < nvalues; i++) {
    QualString string = constant_string(node, values[i]);
    uint32 place;
    if (is_listed(node, string)) continue;
    node->strings[node->nvalues++] = string;
    if (node->buckets == NULL) continue;
    place = hash_of(string);
    while (node->buckets[place & node->bucket_mask] != 0) place++;
    node->buckets[place & node->bucket_mask] = node->nvalues;
  }
}

/* 'a%b%' is the pieces a, b, anchored at the start and not at the end. */
void qual_set_pattern(QualNode *node, Datum value) {
  struct varlena *flat = PG_DETOAST_DATUM_COPY(value);
  const char *pattern = VARDATA(flat);
  int length = VARSIZE(flat) - VARHDRSZ;

  node->run = QUAL_LIKE;
  node->negated_run = node->negated;
  node->strings = palloc(sizeof(*node->strings) * (length / 2 + 1));
  node->nvalues = 0;
  node->anchored_start = length == 0 || pattern[0] != '%';
  node->anchored_end = length == 0 || pattern[length - 1] != '%';
  for (int start = 0; start < length;) {
    int end = start;
    while (end < length && pattern[end] != '%') end++;
    if (end > start) {
      node->strings[node->nvalues].data = pattern + start;
      node->strings[node->nvalues++].length = end - start;
    }
    start = end + 1;
  }
}

/* ---- kernels ---- */

/* A stored value's bytes; compressed and external values are fetched. */
static inline QualString string_at(const char *value) {
  QualString string;
  if (likely(VARATT_IS_1B(value) && !VARATT_IS_1B_E(value))) {
    string.data = VARDATA_1B(value);
    string.length = VARSIZE_1B(value) - VARHDRSZ_SHORT;
    return string;
  }
  if (!VARATT_IS_4B_U(value)) value = (const char *)PG_DETOAST_DATUM(PointerGetDatum(value));
  string.data = VARDATA_ANY(value);
  string.length = VARSIZE_ANY_EXHDR(value);
  return string;
}

#if defined(__SSE2__)

/*
 * Checks 16 places at a time for the piece's first and last byte; places where both match are
 * compared whole. The last 16 places may overlap those before.
 */
static const char *find_wide(const char *text, int places, const char *piece, int length) {
  const __m128i first = _mm_set1_epi8(piece[0]);
  const __m128i last = _mm_set1_epi8(piece[length - 1]);

  for (int at = 0;;) {
    __m128i starts = _mm_loadu_si128((const __m128i *)(text + at));
    __m128i ends = _mm_loadu_si128((const __m128i *)(text + at + length - 1));
    unsigned found =
        _mm_movemask_epi8(_mm_and_si128(_mm_cmpeq_epi8(starts, first), _mm_cmpeq_epi8(ends, last)));
    while (found != 0) {
      const char *candidate = text + at + __builtin_ctz(found);
      if (memcmp(candidate, piece, length) == 0) return candidate;
      found &= found - 1;
    }
    if (at + 16 >= places) return NULL;
    at = Min(at + 16, places - 16);
  }
}

#endif

/* The first place of the piece in the text, or NULL. */
static const char *find(const char *text, const char *end, const char *piece, int length) {
  int places = (int)(end - text) - length + 1;

  if (places <= 0) return NULL;
#if defined(__SSE2__)
  if (places >= 16) return find_wide(text, places, piece, length);
#endif
  for (int at = 0; at < places; at++)
    if (text[at] == piece[0] && memcmp(text + at, piece, length) == 0) return text + at;
  return NULL;
}

/* Each piece is matched at its first place: a match of later pieces remains possible. */
static bool is_like(const QualNode *node, QualString string) {
  const char *start = string.data, *end = string.data + string.length;
  int first = 0, last = node->nvalues;

  if (node->nvalues == 0) return !node->anchored_start || string.length == 0;
  if (node->nvalues == 1 && node->anchored_start && node->anchored_end)
    return same(node->strings[0], string);
  if (node->anchored_start) {
    QualString piece = node->strings[first++];
    if (end - start < piece.length || memcmp(start, piece.data, piece.length) != 0) return false;
    start += piece.length;
  }
  if (node->anchored_end) {
    QualString piece = node->strings[--last];
    if (end - start < piece.length || memcmp(end - piece.length, piece.data, piece.length) != 0)
      return false;
    end -= piece.length;
  }
  for (int i = first; i < last; i++) {
    const char *found = find(start, end, node->strings[i].data, node->strings[i].length);
    if (found == NULL) return false;
    start = found + node->strings[i].length;
  }
  return true;
}

#define FILTER(passes)                                             \
  for (int i = 0; i < n; i++) {                                    \
    int row = in[i];                                               \
    QualString string;                                             \
    if (column->has_nulls && column->where[row] == NULL) continue; \
    string = string_at(column->where[row]);                        \
    out[kept] = (uint16)row;                                       \
    kept += (passes) != negated;                                   \
  }

static int run_list(const QualNode *node, const BatchColumn *column, const uint16 *in, int n,
                    uint16 *out) {
  const bool negated = node->negated_run;
  int kept = 0;

  if (column->kind == COLUMN_BPCHAR) {
    FILTER((string.length = without_blanks(string.data, string.length), is_listed(node, string)))
  } else
    FILTER(is_listed(node, string))
  return kept;
}

static int run_like(const QualNode *node, const BatchColumn *column, const uint16 *in, int n,
                    uint16 *out) {
  const bool negated = node->negated_run;
  int kept = 0;

  FILTER(is_like(node, string))
  return kept;
}

static int run_columns(const QualNode *node, const BatchColumn *left, const BatchColumn *right,
                       const uint16 *in, int n, uint16 *out) {
  const bool bpchar = left->kind == COLUMN_BPCHAR;
  int kept = 0;

  for (int i = 0; i < n; i++) {
    int row = in[i];
    QualString a, b;
    if (left->has_nulls && left->where[row] == NULL) continue;
    if (right->has_nulls && right->where[row] == NULL) continue;
    a = string_at(left->where[row]);
    b = string_at(right->where[row]);
    if (bpchar) {
      a.length = without_blanks(a.data, a.length);
      b.length = without_blanks(b.data, b.length);
    }
    out[kept] = (uint16)row;
    kept += same(a, b) == (node->comparison == EQUAL);
  }
  return kept;
}

int qual_run_strings(const QualNode *node, const Batch *batch, const uint16 *in, int n,
                     uint16 *out) {
  const BatchColumn *column = &batch->columns[node->column];
  switch (node->run) {
    case QUAL_TEXT_IN: return run_list(node, column, in, n, out);
    case QUAL_LIKE: return run_like(node, column, in, n, out);
    case QUAL_COLUMNS:
      return run_columns(node, column, &batch->columns[node->other_column], in, n, out);
    default: elog(ERROR, "predicate %d is not of strings", (int)node->run);
  }
}
