/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 *     SELECT name FROM items WHERE id = 17 AND note = 'none' LIMIT 5
 *     |______________ piece ___________|  |___ piece __|    | piece |     holes between and behind: numbers, strings
 *
 * A hole begins after equal text, so that a lexer is in the same state there; a number's ends
 * before a byte that cannot be part of a number, a string's before its closing quote. So the
 * lexer's state after it is the same, too. Texts for which this could fail (backslashes, doubled
 * quotes, other quotes, comments that are executed or run to the end of a line, several statements)
 * are not kept.
 */
#include "recent.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "hm_hash.h"

#define SETS 16
#define WAYS 2
#define PIECES 16
/* A text whose set is full replaces an entry only after other texts were requested this often
 * since the entry's last use: otherwise three texts for two entries would replace each other in
 * turn, which costs more than lexing them, and rare texts would evict frequent ones. */
#define TAKES_AFTER 8
#define SHORTEST 40 /* maximum length that `set_of` examines */

enum hole { HOLE_NONE = 0, HOLE_NUMBER, HOLE_STRING };

struct place {
  uint8_t pieces; /* 0: empty */
  uint8_t asked;  /* misses of other texts since its last hit; at most TAKES_AFTER */
  struct piece {
    uint16_t length;
    uint8_t hole; /* what follows it */
  } piece[PIECES];
  uint16_t length;        /* of the pieces together */
  char text[RECENT_TEXT]; /* the pieces, without holes */
  char key[RECENT_KEY];
  char origin[SQL_ORIGIN_LENGTH];
  struct known known;
};
/* Thread-local pointer. The places themselves are allocated: with the library's initial-exec
 * model all thread-local data of the plugin are in the static block, of which a server that
 * loads it late has two kilobytes left. */
static _Thread_local struct place *places;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key_of_thread;
static bool has_key;

static void thread_ends(void *argument) {
  places = NULL;
  free(argument);
}

static void make_key(void) { has_key = pthread_key_create(&key_of_thread, thread_ends) == 0; }

static bool has_places(void) {
  if (places) return true;
  pthread_once(&once, make_key);
  if (!has_key) return false;
  struct place *made = calloc((size_t)SETS * WAYS, sizeof *made);
  if (made && pthread_setspecific(key_of_thread, made) != 0) {
    free(made);
    made = NULL;
  }
  places = made;
  return made != NULL;
}

static bool is_digit(char byte) { return byte >= '0' && byte <= '9'; }

/* Bytes of words, as in the lexer of ground/statement. */
static bool is_word(char byte) {
  return is_digit(byte) || (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
         byte == '_' || byte == '$' || byte == '@' || (unsigned char)byte >= 128;
}

static bool goes_on_a_number(char byte) { return is_word(byte) || byte == '.'; }

/* Statements of a program differ soon after their verb; if the id of a page comes last, it
 * distinguishes pages. */
static inline struct place *set_of(const char *text, size_t length) {
  const unsigned char *bytes = (const unsigned char *)text;
  uint64_t hash =
      hm_hash_fold(hm_hash_word(bytes + 8) ^ HM_HASH_1, hm_hash_word(bytes + 16) ^ HM_HASH_2);
  hash = hm_hash_fold(hm_hash_word(bytes + 24) ^ HM_HASH_3, hash);
  if (text[length - 1] == '/')
    hash = hm_hash_fold(hm_hash_word(bytes + length - 16) ^ HM_HASH_4,
                        hm_hash_word(bytes + length - 8) ^ hash);
  return &places[hash % SETS * WAYS];
}

static inline bool fits(const struct place *place, const char *text, size_t length) {
  const char *at = text, *const end = text + length, *expected = place->text;
  const struct piece *piece = place->piece, *const behind = piece + place->pieces;
  for (; piece < behind; piece++) {
    const size_t same = piece->length;
    if (same > 0) { /* the last one is often empty */
      if ((size_t)(end - at) < same || memcmp(at, expected, same) != 0) return false;
      at += same;
      expected += same;
    }
    if (piece->hole == HOLE_NUMBER) {
      if (at == end || !is_digit(*at)) return false;
      do at++;
      while (at < end && is_digit(*at));
    } else if (piece->hole == HOLE_STRING) {
      const char *quote = memchr(at, '\'', (size_t)(end - at));
      if (!quote || memchr(at, '\\', (size_t)(quote - at))) return false;
      at = quote;
    }
  }
  return at == end;
}

const struct known *recent_find(const char *text, size_t length) {
  if (length < SHORTEST || !places) return NULL;
  struct place *place = set_of(text, length);
  for (const struct place *const behind = place + WAYS; place < behind; place++)
    if (place->pieces > 0 && fits(place, text, length)) {
      place->asked = 0;
      return &place->known;
    }
  return NULL;
}

/* Cutting ----------------------------------------------------------------------------------- */

static bool add_piece(struct place *place, const char *text, size_t begin, size_t end,
                      enum hole hole) {
  if (place->pieces == PIECES) return false;
  place->piece[place->pieces++] = (struct piece){(uint16_t)(end - begin), (uint8_t)hole};
  memcpy(place->text + place->length, text + begin, end - begin);
  place->length = (uint16_t)(place->length + (end - begin));
  return true;
}

/* Offset after the end of a plain comment at its opening slash; 0 if it is another kind. */
static size_t skip_comment(const char *text, size_t length, size_t at) {
  if (at + 2 < length && (text[at + 2] == '!' || text[at + 2] == 'M')) return 0;
  const char *end = memmem(text + at + 2, length - at - 2, "*/", 2);
  return end ? (size_t)(end - text) + 2 : 0;
}

/* The closing quote of a plain string; 0 if it is not plain. */
static size_t closing_quote(const char *text, size_t length, size_t open) {
  const char *quote = memchr(text + open + 1, '\'', length - open - 1);
  if (!quote || (open > 0 && is_word(text[open - 1]))) return 0;
  size_t at = (size_t)(quote - text);
  if (memchr(text + open, '\\', at - open) || (at + 1 < length && text[at + 1] == '\'')) return 0;
  return at;
}

/* Cuts the text into pieces. */
static bool cut(struct place *place, const char *text, size_t length) {
  size_t begin = 0, at = 0;
  place->pieces = 0;
  place->length = 0;
  while (at < length) {
    char byte = text[at], next = at + 1 < length ? text[at + 1] : '\0';
    if (memchr("\\\"`#;", byte, 5) || (byte == '-' && next == '-') || (byte == '*' && next == '/'))
      return false;
    if (byte == '/' && next == '*') {
      at = skip_comment(text, length, at);
      if (at == 0) return false;
    } else if (byte == '\'') {
      size_t close = closing_quote(text, length, at);
      if (close == 0 || !add_piece(place, text, begin, at + 1, HOLE_STRING)) return false;
      begin = close;
      at = close + 1;
    } else if (is_digit(byte) && (at == 0 || !goes_on_a_number(text[at - 1]))) {
      size_t end = at;
      while (end < length && is_digit(text[end])) end++;
      if (end == length || !goes_on_a_number(text[end])) {
        if (!add_piece(place, text, begin, at, HOLE_NUMBER)) return false;
        begin = end;
      }
      at = end;
    } else {
      at++;
    }
  }
  return add_piece(place, text, begin, length, HOLE_NONE);
}

/* An empty or obsolete entry; NULL if all are in use. */
static struct place *room_in(struct place *set) {
  struct place *room = NULL;
  for (unsigned way = 0; way < WAYS && room == NULL; way++)
    if (set[way].pieces == 0) room = &set[way];
  for (unsigned way = 0; way < WAYS && room == NULL; way++)
    if (set[way].asked >= TAKES_AFTER)
      room = &set[way];
    else
      set[way].asked++;
  if (room != NULL) room->asked = 0;
  return room;
}

void recent_keep(const char *text, size_t length, const struct known *known) {
  if (length < SHORTEST || length > RECENT_TEXT || known->key_length == 0 ||
      known->key_length > RECENT_KEY || known->origin_length > SQL_ORIGIN_LENGTH || !has_places())
    return;
  struct place *place = room_in(set_of(text, length));
  if (!place) return;
  if (!cut(place, text, length)) {
    place->pieces = 0;
    return;
  }
  memcpy(place->key, known->key, known->key_length);
  if (known->origin_length > 0) memcpy(place->origin, known->origin, known->origin_length);
  place->known = *known;
  place->known.key = place->key;
  place->known.origin = place->origin;
}

size_t known_read(const char *text, size_t length, enum hm_verb verb,
                  char key[HM_STATEMENT_LONGEST], struct known *known) {
  size_t next;
  *known = (struct known){.verb = verb, .key = key};
  known->key_length =
      (uint16_t)hm_statement_normalise(HM_DIALECT_MARIADB, text, length, key, &next);
  known->statement = hm_statement_id(key, known->key_length);
  known->origin_length = (uint16_t)sql_origin(text, length, &known->origin);
  return next;
}
