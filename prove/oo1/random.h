/*
 * The random numbers of this benchmark: splitmix64 (Steele, Lea, Flood 2014), because it is five
 * lines long and equal on every machine.
 */
#ifndef OO1_RANDOM_H
#define OO1_RANDOM_H

#include <stdint.h>

typedef struct oo1_random {
  uint64_t state;
} oo1_random;

static inline uint64_t oo1_next(oo1_random *random) {
  uint64_t z = (random->state += UINT64_C(0x9e3779b97f4a7c15));
  z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
  return z ^ (z >> 31);
}

/* Uniform in 0 .. limit - 1; the bias of limit / 2^64 is not detectable. */
static inline uint64_t oo1_below(oo1_random *random, uint64_t limit) {
  return (uint64_t)(((unsigned __int128)oo1_next(random) * limit) >> 64);
}

/* A separate stream for each purpose, so that they are independent. */
static inline oo1_random oo1_stream(uint64_t seed, uint64_t purpose) {
  oo1_random random = {seed * UINT64_C(0xd1342543de82ef95) + purpose};
  oo1_next(&random);
  return random;
}

#endif
