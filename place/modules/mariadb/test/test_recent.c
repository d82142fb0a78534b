/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * What is known of a statement by an earlier one is what reading it would say; of a hundred thousand texts made of what is hard to tell
 * apart, too.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "recent.h"

/* Lexes a statement, as the plugin does with an unknown one. */
static void learn(const char *text, size_t length) {
  char key[HM_STATEMENT_LONGEST];
  struct known known;
  if (known_read(text, length, hm_statement_verb(HM_DIALECT_MARIADB, text, length), key, &known) ==
      0)
    recent_keep(text, length, &known);
}

/* Whether it is known; if so, checks its properties. */
static bool is_known(const char *text, size_t length) {
  /* In a block of its exact size, so that a read beyond it is detected. */
  char *exact = malloc(length ? length : 1);
  assert_non_null(exact);
  memcpy(exact, text, length);
  const struct known *known = recent_find(exact, length);
  if (known) {
    char key[HM_STATEMENT_LONGEST];
    const char *origin = NULL;
    size_t next, key_length = hm_statement_normalise(HM_DIALECT_MARIADB, exact, length, key, &next);
    size_t origin_length = sql_origin(exact, length, &origin);
    if (next != 0 || known->key_length != key_length || memcmp(known->key, key, key_length) != 0)
      fail_msg("%.*s\nis not %.*s", (int)length, exact, known->key_length, known->key);
    assert_int_equal(known->verb, hm_statement_verb(HM_DIALECT_MARIADB, exact, length));
    assert_int_equal(known->origin_length, origin_length);
    if (origin_length > 0) assert_memory_equal(known->origin, origin, origin_length);
  }
  free(exact);
  return known != NULL;
}

static bool knows(const char *text) { return is_known(text, strlen(text)); }

static void numbers_and_strings_may_differ(void **state) {
  (void)state;
  const char *first =
      "SELECT COUNT(*) AS number FROM bids WHERE item_id = 17 AND note = 'red' /*split_id='1.2b'*/";
  assert_false(knows(first));
  learn(first, strlen(first));
  assert_true(knows(first));
  assert_true(
      knows("SELECT COUNT(*) AS number FROM bids WHERE item_id = 4711 AND note = 'blue' "
            "/*split_id='1.2b'*/"));
  assert_true(knows(
      "SELECT COUNT(*) AS number FROM bids WHERE item_id = 0 AND note = '' /*split_id='1.2b'*/"));
  static const char *const others[] = {
      "SELECT COUNT(*) AS number FROM bids WHERE item_id = 17 AND note = 'red' /*split_id='1.2c'*/",
      "SELECT COUNT(*) AS number FROM bids WHERE item_id = 1.5 AND note = 'red' "
      "/*split_id='1.2b'*/",
      "SELECT COUNT(*) AS number FROM bids WHERE item_id = 0x5 AND note = 'red' "
      "/*split_id='1.2b'*/",
      "SELECT COUNT(*) AS number FROM bids WHERE item_id = -17 AND note = 'red' "
      "/*split_id='1.2b'*/",
      "SELECT COUNT(*) AS number FROM bids WHERE item_id = x AND note = 'red' /*split_id='1.2b'*/",
      "SELECT COUNT(*) AS number FROM bids WHERE item_id =  AND note = 'red' /*split_id='1.2b'*/",
      "SELECT COUNT(*) AS number FROM bids WHERE item_id = 17 AND note = 'it''s' "
      "/*split_id='1.2b'*/",
      "SELECT COUNT(*) AS number FROM bids WHERE item_id = 17 AND note = 'it\\'s' "
      "/*split_id='1.2b'*/",
      "SELECT COUNT(*) AS number FROM bids WHERE item_id = 17 AND note = 'red' "
      "/*split_id='1.2b'*/ ",
      "SELECT COUNT(*) AS number FROM bids WHERE item_id = 17 AND note = 'red",
  };
  for (size_t i = 0; i < sizeof others / sizeof *others; i++) assert_false(knows(others[i]));
}

static void what_might_be_read_otherwise_is_not_kept(void **state) {
  (void)state;
  static const char *const texts[] = {
      "SELECT name FROM items WHERE id = 5 -- the 6th one, of all of them",
      "SELECT name FROM items WHERE id = 5 # the 6th one, of all of them",
      "SELECT name FROM items WHERE id = 5 /*! AND price = 6 */ AND 1 = 1",
      "SELECT name FROM items WHERE id = 5 /*M! AND price = 6 */ AND 1 = 1",
      "SELECT name FROM items WHERE id = 5 AND note = 'it\\'s' AND a = 5",
      "SELECT name FROM items WHERE id = 5 AND note = 'it''s' AND a = 55",
      "SELECT name FROM items WHERE id = 5 AND note = \"its\" AND a = 555",
      "SELECT `name` FROM items WHERE id = 5 AND note = 'its' AND a = 55",
      "SELECT name FROM items WHERE id = 5; SELECT name FROM items WHERE id = 6",
      "SELECT name FROM items WHERE id = 5 AND note = N'its' AND a = 555",
      "SELECT name FROM items WHERE id = 5 AND note = 'its AND a = 55555",
      "SELECT name FROM items WHERE id = 5 AND note = 5 /* and so on, on",
      "SELECT 1",
  };
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    for (int again = 0; again < 16; again++) learn(texts[i], strlen(texts[i]));
    if (knows(texts[i])) fail_msg("%s", texts[i]);
  }
  char longest[RECENT_TEXT + 2];
  snprintf(longest, sizeof longest, "%-*d", RECENT_TEXT + 1, 5);
  memcpy(longest, "SELECT a FROM b WHERE c IN (", 28);
  learn(longest, RECENT_TEXT + 1);
  assert_false(is_known(longest, RECENT_TEXT + 1));
}

static uint64_t next_random(void) {
  static uint64_t x = 88172645463325252u;
  x ^= x << 13;
  x ^= x >> 7;
  return x ^= x << 17;
}

static size_t append(char *text, size_t length, const char *piece) {
  size_t more = strlen(piece);
  if (length + more > 300) return length;
  memcpy(text + length, piece, more);
  return length + more;
}

/* Texts of pieces that interact when adjacent, each followed by texts that differ in a few. */
static void whatever_the_text_it_is_read_alike(void **state) {
  (void)state;
  static const char *const pieces[] = {
      "1",        "23",
      "4.5",      ".6",
      "0x7f",     "8e9",
      "1e-5",     "'a'",
      "'b c'",    "''",
      "'d''e'",   "'f\\'g'",
      "\"h\"",    "`i`",
      "'",        "\\",
      "-",        "--",
      "-- ",      "#",
      "/*",       "*/",
      "/*!",      "/* j */",
      "*",        "/",
      "(",        ")",
      ",",        ";",
      "=",        "@k",
      "$1",       "a1",
      "N'l'",     "_m'n'",
      "?",        "\n",
      " ",        " ",
      " IN ",     "(1, 2,3)",
      ", (1,2)",  "or",
      "\xc3\xa9", "/*split_id='1.2b'*/",
  };
  const size_t kinds = sizeof pieces / sizeof *pieces;
  unsigned hits = 0;
  for (unsigned round = 0; round < 100000; round++) {
    const char *chosen[24];
    unsigned count = 4 + (unsigned)(next_random() % 20);
    /* Mostly texts that are kept, sometimes any text. */
    bool plain = next_random() % 4 != 0;
    for (unsigned i = 0; i < count; i++) {
      chosen[i] = pieces[next_random() % kinds];
      if (plain && strpbrk(chosen[i], "\\\"`#;-/'") && next_random() % 8 != 0)
        chosen[i] = i % 2 ? " " : "17";
    }
    for (unsigned variant = 0; variant < 4; variant++) {
      char text[RECENT_TEXT];
      size_t length = append(text, 0, "SELECT name, price FROM items WHERE id = ");
      for (unsigned i = 0; i < count; i++) length = append(text, length, chosen[i]);
      hits += is_known(text, length);
      learn(text, length);
      chosen[next_random() % count] = pieces[next_random() % kinds];
    }
  }
  assert_in_range(hits, 1000, 400000);
}

/* Three texts for two entries: equal in the part that selects the set. */
static void who_comes_all_the_time_stays(void **state) {
  (void)state;
  const char *const often[] = {"SELECT name, price FROM items WHERE the_colour = 1",
                               "SELECT name, price FROM items WHERE the_number = 1"};
  const char *rare = "SELECT name, price FROM items WHERE the_seller = 1";
  unsigned read = 0;
  for (unsigned round = 0; round < 1000; round++) {
    for (unsigned i = 0; i < 2; i++) {
      if (knows(often[i])) continue;
      read++;
      learn(often[i], strlen(often[i]));
    }
    if (round % 10 == 0 && !knows(rare)) learn(rare, strlen(rare));
  }
  /* Until the entries of earlier tests are replaced. */
  assert_in_range(read, 0, 40);
  assert_true(knows(often[0]) && knows(often[1]) && !knows(rare));
  for (unsigned round = 0; round < 10; round++) learn(rare, strlen(rare));
  assert_true(knows(rare));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(numbers_and_strings_may_differ),
      cmocka_unit_test(what_might_be_read_otherwise_is_not_kept),
      cmocka_unit_test(whatever_the_text_it_is_read_alike),
      cmocka_unit_test(who_comes_all_the_time_stays),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
