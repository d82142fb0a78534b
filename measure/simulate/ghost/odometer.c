/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Finds a word in the followed processes' own memory that counts their work: PostgreSQL counts the
 * buffers that it hits, transactions and statements; most servers count something. Read twice, without
 * a stop, such a word says how much the process did between.
 *
 * Copies of pages at the beginnings of two consecutive stretches are compared, with the instructions
 * between them known from the ghost. A word of four bytes that ever changes by less than 1 or more
 * than MOST_STEP counts nothing. Of the others, the one whose counts follow instructions best is
 * taken: for counts y of pairs with x instructions, the ratio's residual is
 * sum(y^2 / x) - sum(y)^2 / sum(x), and least where sum(x) sum(y^2 / x) / sum(y)^2 is. A word that
 * follows the time on the wall better than instructions is a clock.
 *
 *   learning: all words that change ── LEARNED pairs ──> watching: the best HM_ODOMETERS words
 *        ^                                                        │ none is left
 *        └────────────────────────────────────────────────────────┘
 *
 * Invariants:
 *  1. `table` exists only while learning.
 *  2. A word that was spoiled once is not taken before learning begins again.
 */
#include "odometer.h"

#include <stdlib.h>
#include <string.h>

#define SLOTS (1u << 16)
#define MOST_WORDS (SLOTS / 2)
#define MOST_STEP (1u << 20)
#define LEARNED 100u    /* pairs */
#define LEAST_COUNTS 20 /* while learning */
#define WORDS 1024u     /* of a page */

struct hm_learned {
  uint32_t words;
  struct learned_word {
    uint64_t address; /* 0: free */
    double sum, squares, squares_in_time;
    uint8_t spoiled;
  } word[SLOTS];
};

static double now, now_time; /* of the present pair */

void hm_odometer_pair(struct hm_odometer *of, double instructions, double nanoseconds) {
  if (of->table == NULL && of->word[0].address == 0) {
    of->table = calloc(1, sizeof *of->table);
    of->pairs = 0;
    of->instructions = of->time = 0;
  }
  now = instructions < 1 ? 1 : instructions;
  now_time = nanoseconds < 1 ? 1 : nanoseconds;
  of->pairs++;
  of->instructions += now;
  of->time += now_time;
  for (uint32_t i = 0; i < HM_ODOMETERS; i++) of->word[i].seen = 0;
}

static int is_a_count(uint32_t step) { return step >= 1 && step <= MOST_STEP; }

static void learn(struct hm_learned *table, uint64_t address, uint32_t step) {
  uint32_t slot = (uint32_t)((address >> 2) * 0x9e3779b97f4a7c15ull >> 40) & (SLOTS - 1);
  while (table->word[slot].address != 0 && table->word[slot].address != address)
    slot = (slot + 1) & (SLOTS - 1);
  struct learned_word *word = &table->word[slot];
  if (word->address == 0) {
    if (table->words == MOST_WORDS) return;
    table->words++;
    word->address = address;
  }
  word->spoiled |= !is_a_count(step);
  word->sum += step;
  word->squares += (double)step * step / now;
  word->squares_in_time += (double)step * step / now_time;
}

static void watch(struct hm_counting_word *word, uint32_t step) {
  word->seen = 1;
  if (step == 0) return;
  word->spoiled |= !is_a_count(step);
  word->sum += step;
  word->squares += (double)step * step / now;
}

void hm_odometer_page(struct hm_odometer *of, uint64_t address, const void *before,
                      const void *after) {
  const uint32_t *old = before, *new = after;
  if (of->table != NULL) {
    if (memcmp(old, new, WORDS * sizeof *old) == 0) return;
    for (uint32_t i = 0; i < WORDS; i++)
      if (old[i] != new[i]) learn(of->table, address + 4 * i, new[i] - old[i]);
    return;
  }
  for (uint32_t i = 0; i < HM_ODOMETERS; i++) {
    struct hm_counting_word *word = &of->word[i];
    uint64_t at = word->address - address;
    if (word->address != 0 && word->address >= address && at < WORDS * sizeof *old)
      watch(word, new[at / 4] - old[at / 4]);
  }
}

static double misfit(double sum, double squares, double instructions) {
  return squares * instructions / (sum * sum);
}

static void choose(struct hm_odometer *of) {
  memset(of->word, 0, sizeof of->word);
  for (uint32_t slot = 0; slot < SLOTS; slot++) {
    const struct learned_word *next = &of->table->word[slot];
    if (next->address == 0 || next->spoiled || next->sum < LEAST_COUNTS) continue;
    double fit = misfit(next->sum, next->squares, of->instructions);
    if (misfit(next->sum, next->squares_in_time, of->time) <= fit) continue;
    /* Insertion into the list, the best first. */
    for (uint32_t i = 0; i < HM_ODOMETERS; i++) {
      struct hm_counting_word *word = &of->word[i];
      if (word->address != 0 && misfit(word->sum, word->squares, of->instructions) <= fit) continue;
      memmove(word + 1, word, (HM_ODOMETERS - 1 - i) * sizeof *word);
      *word = (struct hm_counting_word){
          .address = next->address, .sum = next->sum, .squares = next->squares};
      break;
    }
  }
  free(of->table);
  of->table = NULL;
}

void hm_odometer_pair_ends(struct hm_odometer *of) {
  if (of->table != NULL) {
    if (of->pairs >= LEARNED) choose(of);
    return;
  }
  uint32_t kept = 0;
  for (uint32_t i = 0; i < HM_ODOMETERS; i++) {
    struct hm_counting_word *word = &of->word[i];
    /* Not seen: its page is not copied at each stop, so that its counts are not all known. */
    if (word->address != 0 && !word->spoiled && word->seen) of->word[kept++] = *word;
  }
  memset(&of->word[kept], 0, (HM_ODOMETERS - kept) * sizeof of->word[0]);
}

uint64_t hm_odometer_best(const struct hm_odometer *of, double *per_instruction) {
  const struct hm_counting_word *best = NULL;
  if (of->table != NULL) return 0;
  for (uint32_t i = 0; i < HM_ODOMETERS; i++) {
    const struct hm_counting_word *word = &of->word[i];
    if (word->address == 0 || word->spoiled) continue;
    if (best == NULL || misfit(word->sum, word->squares, of->instructions) <
                            misfit(best->sum, best->squares, of->instructions))
      best = word;
  }
  if (best == NULL) return 0;
  *per_instruction = best->sum / of->instructions;
  return best->address;
}

void hm_odometer_spoil(struct hm_odometer *of, uint64_t address) {
  for (uint32_t i = 0; i < HM_ODOMETERS; i++)
    if (of->word[i].address == address) of->word[i].spoiled = 1;
}
