/* The checksum over visited parts: id, x, y and type, in the order of the visits. */
#ifndef OO1_CHECKSUM_H
#define OO1_CHECKSUM_H

#include <stdint.h>
#include <string.h>

#define OO1_CHECKSUM_START UINT64_C(0x6c62272e07bb0142)

static inline uint64_t oo1_mix(uint64_t sum, uint64_t word) {
  sum = (sum ^ word) * UINT64_C(0x9e3779b97f4a7c15);
  return sum ^ (sum >> 32);
}

/* `type` has ten bytes. */
static inline uint64_t oo1_checksum(uint64_t sum, uint32_t id, uint32_t x, uint32_t y,
                                    const char *type) {
  uint64_t first;
  uint16_t rest;
  memcpy(&first, type, sizeof first);
  memcpy(&rest, type + sizeof first, sizeof rest);
  sum = oo1_mix(sum, id | (uint64_t)x << 32);
  sum = oo1_mix(sum, y | (uint64_t)rest << 32);
  return oo1_mix(sum, first);
}

#endif
