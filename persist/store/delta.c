/* Writes and reads changes of pages. delta.h has their form. */
#include "delta.h"

#include <string.h>

enum {
  WORD = sizeof(uint64_t),
  /* Equal bytes between two runs: with fewer it is shorter to make one run of both. */
  GAP = 2,
  /* Zeros are left out of a page if a quarter of its words are zero. */
  WORTH_WORDS = P3L_PAGE_SIZE / sizeof(uint64_t) / 4
};

static uint64_t word_at(const p3l_page *page, unsigned byte) {
  uint64_t value;
  memcpy(&value, (const uint8_t *)page + byte, sizeof(value));
  return value;
}

bool p3l_delta_is_worth(const p3l_page *page) {
  unsigned zeros = 0;
  for (unsigned at = 0; at < P3L_PAGE_SIZE; at += WORD) zeros += word_at(page, at) == 0;
  return zeros >= WORTH_WORDS;
}

/* ---- what differs ---- */

/* Bit i of word n: byte n * P3L_UNIT + i of the page differs. A run is found by bits: in a bulk build each
 * node's slots are 18 runs, and comparing their bytes for each of them was a quarter of its instructions. */
typedef struct comparison {
  uint64_t differs[P3L_PAGE_SIZE / P3L_UNIT];
  uint64_t units; /* those in which some byte does */
} comparison;
_Static_assert(P3L_UNIT == 64, "a unit has as many bytes as a word has bits");

/* Bit i: byte i of the word is not zero. */
static uint64_t bytes_set(uint64_t word) {
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
  word = __builtin_bswap64(word);
#endif
  const uint64_t low = UINT64_C(0x7f7f7f7f7f7f7f7f);
  uint64_t set = (((word & low) + low) | word) & ~low; /* bit 7 of each byte that is not zero */
  return (set >> 7) * UINT64_C(0x0102040810204080) >> 56;
}

static uint64_t unit_differs(const p3l_page *now, const p3l_page *before, unsigned unit) {
  uint64_t differs = 0;
  for (unsigned at = 0; at < P3L_UNIT; at += WORD)
    differs |= bytes_set(word_at(now, unit * P3L_UNIT + at) ^ word_at(before, unit * P3L_UNIT + at))
               << at;
  return differs;
}

/* Whole words. */
static uint64_t unit_not_zero(const p3l_page *now, unsigned unit) {
  uint64_t differs = 0;
  for (unsigned at = 0; at < P3L_UNIT; at += WORD)
    if (word_at(now, unit * P3L_UNIT + at) != 0) differs |= UINT64_C(0xff) << at;
  return differs;
}

/* `before` NULL: zeros, and then all units count. */
static void compare(comparison *of, const p3l_page *now, const p3l_page *before, uint64_t units) {
  of->units = 0;
  for (uint64_t left = before == NULL ? ~UINT64_C(0) : units; left != 0; left &= left - 1) {
    unsigned unit = (unsigned)__builtin_ctzll(left);
    uint64_t differs = before == NULL ? unit_not_zero(now, unit) : unit_differs(now, before, unit);
    of->differs[unit] = differs;
    if (differs != 0) of->units |= UINT64_C(1) << unit;
  }
}

/* The unit's bytes from `byte` on that differ; bit 0: `byte`. */
static uint64_t bits_from(const comparison *of, unsigned byte) {
  unsigned unit = byte / P3L_UNIT;
  return (of->units >> unit & 1) == 0 ? 0 : of->differs[unit] >> byte % P3L_UNIT;
}

/* Where the next run begins, at or after `byte`; P3L_PAGE_SIZE: there is none. */
static unsigned run_begin(const comparison *of, unsigned byte) {
  if (byte == P3L_PAGE_SIZE) return byte;
  uint64_t bits = bits_from(of, byte);
  if (bits != 0) return byte + (unsigned)__builtin_ctzll(bits);
  unsigned unit = byte / P3L_UNIT;
  uint64_t units = unit == 63 ? 0 : of->units & ~UINT64_C(0) << (unit + 1);
  if (units == 0) return P3L_PAGE_SIZE;
  unit = (unsigned)__builtin_ctzll(units);
  return unit * P3L_UNIT + (unsigned)__builtin_ctzll(of->differs[unit]);
}

/* The first byte from `byte` on that is equal. */
static unsigned equal_byte(const comparison *of, unsigned byte) {
  while (byte < P3L_PAGE_SIZE) {
    uint64_t equal = ~bits_from(of, byte);
    unsigned count = equal == 0 ? P3L_UNIT : (unsigned)__builtin_ctzll(equal);
    byte += count;
    if (byte % P3L_UNIT != 0 || count == 0) break;
  }
  return byte;
}

/* Where a run ends that begins at `byte`. *next: where the one behind it begins. */
static unsigned run_end(const comparison *of, unsigned byte, unsigned *next) {
  for (;;) {
    unsigned end = equal_byte(of, byte);
    *next = run_begin(of, end);
    if (*next == P3L_PAGE_SIZE || *next - end > GAP) return end;
    byte = *next;
  }
}

/* ---- writing ---- */

typedef struct writer {
  uint8_t *at, *end;
  bool full;
} writer;

static void put_number(writer *to, uint64_t number) {
  for (; to->at < to->end; number >>= 7) {
    *to->at++ = (uint8_t)(number & 127) | (number > 127 ? 128 : 0);
    if (number <= 127) return;
  }
  to->full = true;
}

static void put_bytes(writer *to, const uint8_t *bytes, size_t length) {
  if ((size_t)(to->end - to->at) < length) {
    to->full = true;
    return;
  }
  memcpy(to->at, bytes, length);
  to->at += length;
}

/* Small differences, of either sign, become small numbers. */
static uint64_t zigzag(uint64_t difference) {
  return difference << 1 ^ (uint64_t)((int64_t)difference >> 63);
}

static uint64_t unzigzag(uint64_t code) { return code >> 1 ^ (0 - (code & 1)); }

bool p3l_delta_add(p3l_delta *delta, p3l_page_number number, const p3l_page *now,
                   const p3l_page *before, uint64_t units) {
  comparison of;
  compare(&of, now, before, units);
  writer to = {delta->bytes + delta->used, delta->bytes + sizeof(delta->bytes), false};
  uint64_t previous = delta->used == 0 ? number.n : delta->last;
  uint8_t *length = NULL;
  unsigned end = 0;
  put_number(&to, zigzag(number.n - previous) << 1 | (before == NULL));
  for (unsigned next, begin = run_begin(&of, 0); begin < P3L_PAGE_SIZE && !to.full; begin = next) {
    if (length != NULL) *length |= 1;
    put_number(&to, begin - end);
    end = run_end(&of, begin, &next);
    length = to.at;
    put_number(&to, (uint64_t)(end - begin) << 1);
    put_bytes(&to, (const uint8_t *)now + begin, end - begin);
  }
  if (to.full || length == NULL) return false;
  if (delta->used == 0) delta->first = number.n;
  delta->last = number.n;
  delta->used = (size_t)(to.at - delta->bytes);
  return true;
}

/* ---- reading ---- */

p3l_delta_reader p3l_delta_read(p3l_address address, const uint8_t *bytes, size_t length) {
  return (p3l_delta_reader){bytes, bytes + length, address.byte / P3L_PAGE_SIZE, false};
}

/* A number of at most 63 bits. */
static bool get_number(p3l_delta_reader *from, uint64_t *number) {
  *number = 0;
  for (unsigned shift = 0; shift < 63 && from->at < from->end; shift += 7) {
    uint8_t byte = *from->at++;
    *number |= (uint64_t)(byte & 127) << shift;
    if (byte < 128) return true;
  }
  return false;
}

bool p3l_delta_next(p3l_delta_reader *reader) {
  uint64_t code;
  if (!get_number(reader, &code)) return false;
  reader->zeros = code & 1;
  reader->number += unzigzag(code >> 1);
  return true;
}

/* The next run of the page that was begun: *at is where the one before ended, and then where this one does. */
static bool next_run(p3l_delta_reader *reader, uint64_t *at, uint64_t *bytes, bool *more) {
  uint64_t skip, length;
  if (!get_number(reader, &skip) || !get_number(reader, &length)) return false;
  *bytes = length >> 1;
  *more = length & 1;
  if (skip > P3L_PAGE_SIZE - *at || *bytes == 0 || *bytes > P3L_PAGE_SIZE - *at - skip ||
      *bytes > (uint64_t)(reader->end - reader->at))
    return false;
  reader->at += *bytes;
  *at += skip + *bytes;
  return true;
}

bool p3l_delta_apply(p3l_delta_reader *reader, p3l_page *page) {
  uint64_t at = 0, bytes;
  bool more;
  do {
    if (!next_run(reader, &at, &bytes, &more)) return false;
    memcpy((uint8_t *)page + at - bytes, reader->at - bytes, bytes);
  } while (more);
  return true;
}

bool p3l_delta_pass(p3l_delta_reader *reader, uint64_t *units) {
  uint64_t at = 0, bytes;
  bool more;
  do {
    if (!next_run(reader, &at, &bytes, &more)) return false;
    *units |= p3l_units((uint32_t)(at - bytes), (uint32_t)bytes);
  } while (more);
  return true;
}
