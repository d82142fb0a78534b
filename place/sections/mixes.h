/*
 * Ten mixes of two kinds of requests on which placement is tested: where it gains, where it
 * cannot, and where a strict placement loses. docs/design/place.md, 4, describes them under the
 * same letters. Plain data.
 */
#ifndef SECTION_MIXES_H
#define SECTION_MIXES_H

#include "kernels.h"

enum { MIX_KINDS = 2, MIXES = 10 };
/* The size of L2 that the mixes' sizes are made for: whether two kinds fit into a cache depends
 * on its size. */
enum { MIX_L2_KILOBYTES = 2048 };

struct mix_kind {
  const char *key;
  enum section_shape shape;
  uint32_t kilobytes; /* of the memory that a request passes over */
  uint32_t passes;
  uint32_t
      of_kilobytes; /* each request uses the next piece of this much memory; 0: always the same */
};

struct mix {
  char letter;
  const char *what;
  double first_share; /* of the requests */
  bool balanced;      /* the share at which both kinds take the same processor time */
  struct mix_kind kind[MIX_KINDS];
};

extern const struct mix mixes[MIXES];
/* Returns the mix with this letter; NULL: there is none. */
const struct mix *mix_of(const char *letter);

/* Returns the mix for another size of L2: all sizes in proportion, in whole pages. */
struct mix mix_for(const struct mix *mix, uint32_t l2_kilobytes);
/* Balances the mix for a machine on which a request of each kind takes the given time alone on a
 * core. Without effect on mixes that are not `balanced`. */
void mix_balance(struct mix *mix, const double alone[MIX_KINDS]);

/* The kind (0 or 1) of request `number`: always the same for the same seed. */
unsigned mix_kind_of(const struct mix *mix, uint64_t seed, uint64_t number);
/* Returns the `number`th number of a sequence, at least 0 and less than 1. */
double mix_random(uint64_t seed, uint64_t number);

#endif
