/*
 * Ten mixes of two kinds of requests, on which placement is tried: where it wins, where it cannot, and where a strict one loses.
 * docs/design/place.md, 4, has them under the same letters. Plain data.
 */
#ifndef SECTION_MIXES_H
#define SECTION_MIXES_H

#include "kernels.h"

enum { MIX_KINDS = 2, MIXES = 10 };
/* The L2 that their sizes are for: whether two kinds fit into a cache depends on the cache. */
enum { MIX_L2_KILOBYTES = 2048 };

struct mix_kind {
  const char *key;
  enum section_shape shape;
  uint32_t kilobytes; /* that a request passes over */
  uint32_t passes;
  uint32_t
      of_kilobytes; /* each request takes the next piece of so much memory; 0: always the same */
};

struct mix {
  char letter;
  const char *what;
  double first_share; /* of the requests */
  bool balanced;      /* the share is that by which both kinds take the same processor time */
  struct mix_kind kind[MIX_KINDS];
};

extern const struct mix mixes[MIXES];
/* NULL: no such letter. */
const struct mix *mix_of(const char *letter);

/* The mix as it is on another L2: all sizes in proportion, in whole pages. */
struct mix mix_for(const struct mix *mix, uint32_t l2_kilobytes);
/* Balances it for a machine on which a request of each kind takes so long by itself; only if it is balanced at all. */
void mix_balance(struct mix *mix, const double alone[MIX_KINDS]);

/* The kind (0 or 1) of request `number`: always the same for the same seed. */
unsigned mix_kind_of(const struct mix *mix, uint64_t seed, uint64_t number);
/* A number between 0 and 1, 1 excluded: the `number`th of a sequence. */
double mix_random(uint64_t seed, uint64_t number);

#endif
