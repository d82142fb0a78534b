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

typedef struct comparison {
  const p3l_page *now, *before; /* before NULL: zeros */
  uint64_t units;
} comparison;

/* The first byte of the word at `byte` that differs from there on; past the word: none does. */
static unsigned in_word(const comparison *of, unsigned byte) {
  unsigned word = byte / WORD * WORD;
  uint64_t differs = word_at(of->now, word) ^ word_at(of->before, word);
  for (; byte < word + WORD; byte++)
    if (((const uint8_t *)&differs)[byte - word] != 0) return byte;
  return byte;
}

/* Where the next run begins; P3L_PAGE_SIZE: there is none. */
static unsigned run_begin(const comparison *of, unsigned byte) {
  if (of->before == NULL) {
    while (byte < P3L_PAGE_SIZE && word_at(of->now, byte) == 0) byte += WORD;
    return byte;
  }
  while (byte < P3L_PAGE_SIZE) {
    uint64_t units = of->units >> byte / P3L_UNIT;
    if (units == 0) return P3L_PAGE_SIZE;
    unsigned skipped = (unsigned)__builtin_ctzll(units);
    if (skipped > 0) {
      byte = (byte / P3L_UNIT + skipped) * P3L_UNIT;
      continue;
    }
    unsigned found = in_word(of, byte);
    if (found / WORD == byte / WORD) return found;
    byte = found;
  }
  return byte;
}

/* Where a run ends that begins at `byte`. */
static unsigned run_end(const comparison *of, unsigned byte) {
  if (of->before == NULL) {
    while (byte < P3L_PAGE_SIZE && word_at(of->now, byte) != 0) byte += WORD;
    return byte;
  }
  const uint8_t *now = (const uint8_t *)of->now, *before = (const uint8_t *)of->before;
  for (;;) {
    while (byte < P3L_PAGE_SIZE && now[byte] != before[byte]) byte++;
    unsigned next = run_begin(of, byte);
    if (next == P3L_PAGE_SIZE || next - byte > GAP) return byte;
    byte = next;
  }
}

/* ---- writing ---- */

typedef struct writer {
  uint8_t *at, *end;
  bool full;
} writer;

static void put_number(writer *to, uint64_t number) {
  do {
    if (to->at == to->end) {
      to->full = true;
      return;
    }
    *to->at++ = (uint8_t)(number & 127) | (number > 127 ? 128 : 0);
    number >>= 7;
  } while (number != 0);
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
  comparison of = {now, before, units};
  writer to = {delta->bytes + delta->used, delta->bytes + sizeof(delta->bytes), false};
  uint64_t previous = delta->used == 0 ? number.n : delta->last;
  uint8_t *length = NULL;
  unsigned end = 0;
  put_number(&to, zigzag(number.n - previous) << 1 | (before == NULL));
  for (unsigned begin = run_begin(&of, 0); begin < P3L_PAGE_SIZE && !to.full;
       begin = run_begin(&of, end)) {
    if (length != NULL) *length |= 1;
    put_number(&to, begin - end);
    end = run_end(&of, begin);
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
