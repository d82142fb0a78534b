/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * A word of the followed processes' own memory that counts their work. odometer.c has the algorithm.
 */
#ifndef HM_GHOST_ODOMETER_H
#define HM_GHOST_ODOMETER_H

#include <stdint.h>

#define HM_ODOMETERS 8u /* candidates that are watched */

struct hm_odometer {
  uint32_t pairs;            /* of copies, since learning began */
  double instructions, time; /* between the copies of all these pairs */
  struct hm_learned *table;  /* while it learns */
  struct hm_counting_word {
    uint64_t address; /* 0: none */
    double sum, squares;
    uint8_t seen, spoiled;
  } word[HM_ODOMETERS];
};

/* A pair of copies begins: instructions and nanoseconds between them. */
void hm_odometer_pair(struct hm_odometer *of, double instructions, double nanoseconds);
/* The two copies of one page (of 4,096 bytes) of its own memory. */
void hm_odometer_page(struct hm_odometer *of, uint64_t address, const void *before,
                      const void *after);
/* All pages of the pair were passed. */
void hm_odometer_pair_ends(struct hm_odometer *of);
/* The word that counts best, and its counts per instruction; 0: none is known. */
uint64_t hm_odometer_best(const struct hm_odometer *of, double *per_instruction);

/* The word was found not to count. */
void hm_odometer_spoil(struct hm_odometer *of, uint64_t address);

#endif
