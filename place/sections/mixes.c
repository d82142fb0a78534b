#include "mixes.h"

#include <string.h>

/* Shares of balanced mixes: both kinds take about the same CPU time, each on a processor of its own. Measured on the machine of
 * docs/design/place.md's experiments (2 MB of L2): a pass of a chase through 1 MB takes 112 us, of a 4 MB stream 139 us; elsewhere mix_balance finds
 * others. */
#define CLEAN(name, passes) \
  { name, SECTION_CHASE, 1024, passes, 0 }
#define DIRTY(name) \
  { name, SECTION_STREAM, 4096, 1, 0 }

const struct mix mixes[MIXES] = {
    {'A',
     "4 chases through 1 MB beside 4 MB streams, balanced",
     0.24,
     true,
     {CLEAN("/clean/A", 4), DIRTY("/dirty/A")}},
    {'C',
     "a chase through 1 MB beside 4 MB streams, balanced",
     0.55,
     true,
     {CLEAN("/clean/C", 1), DIRTY("/dirty/C")}},
    {'F',
     "4 chases through 1 MB beside 1 MB streams of 32 MB, 85 % of the requests",
     0.15,
     false,
     {CLEAN("/clean/F", 4), {"/dirty/F", SECTION_STREAM, 1024, 1, 32768}}},
    {'H',
     "4 chases through 256 KB beside 4 MB streams, balanced",
     0.6,
     true,
     {{"/clean/H", SECTION_CHASE, 256, 4, 0}, DIRTY("/dirty/H")}},
    {'B',
     "4 chases through 1 MB beside 64 MB streams, balanced",
     0.91,
     true,
     {CLEAN("/clean/B", 4), {"/dirty/B", SECTION_STREAM, 65536, 1, 0}}},
    {'D',
     "4 streams through the same 1 MB beside 4 MB streams: short, prefetched, balanced",
     0.87,
     true,
     {{"/clean/D", SECTION_STREAM, 1024, 4, 0}, DIRTY("/dirty/D")}},
    {'E',
     "as A, but 80 % of the requests are clean: no whole processors",
     0.8,
     false,
     {CLEAN("/clean/E", 4), DIRTY("/dirty/E")}},
    {'K',
     "two kinds that chase through 1.2 MB each: together too much for a cache",
     0.5,
     false,
     {{"/first/K", SECTION_CHASE, 1216, 1, 0}, {"/second/K", SECTION_CHASE, 1216, 1, 0}}},
    {'M',
     "two kinds that stream 4 times through the same 1.2 MB each",
     0.5,
     false,
     {{"/first/M", SECTION_STREAM, 1216, 4, 0}, {"/second/M", SECTION_STREAM, 1216, 4, 0}}},
    {'N',
     "two kinds that chase 4 times through 600 KB each: both fit into a cache",
     0.5,
     false,
     {{"/first/N", SECTION_CHASE, 600, 4, 0}, {"/second/N", SECTION_CHASE, 600, 4, 0}}},
};

const struct mix *mix_of(const char *letter) {
  if (strlen(letter) != 1) return NULL;
  for (unsigned i = 0; i < MIXES; i++)
    if (mixes[i].letter == letter[0]) return &mixes[i];
  return NULL;
}

static uint32_t scaled(uint32_t kilobytes, uint32_t l2_kilobytes) {
  const uint64_t pages = (uint64_t)kilobytes * l2_kilobytes / MIX_L2_KILOBYTES / 4;
  return kilobytes == 0 ? 0 : pages > 0 ? (uint32_t)pages * 4 : 4;
}

struct mix mix_for(const struct mix *mix, uint32_t l2_kilobytes) {
  struct mix other = *mix;
  for (unsigned i = 0; i < MIX_KINDS; i++) {
    other.kind[i].kilobytes = scaled(mix->kind[i].kilobytes, l2_kilobytes);
    other.kind[i].of_kilobytes = scaled(mix->kind[i].of_kilobytes, l2_kilobytes);
  }
  return other;
}

void mix_balance(struct mix *mix, const double alone[MIX_KINDS]) {
  const double both = alone[0] + alone[1];
  if (mix->balanced && both > 0) mix->first_share = alone[1] / both;
}

/* SplitMix64 (Steele, Lea, Flood 2014). */
double mix_random(uint64_t seed, uint64_t number) {
  uint64_t x = seed * UINT64_C(0xd1342543de82ef95) + (number + 1) * UINT64_C(0x9e3779b97f4a7c15);
  x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
  x ^= x >> 31;
  return (double)(x >> 11) * 0x1p-53;
}

unsigned mix_kind_of(const struct mix *mix, uint64_t seed, uint64_t number) {
  return mix_random(seed, number) < mix->first_share ? 0 : 1;
}
