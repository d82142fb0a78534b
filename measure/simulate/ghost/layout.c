/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Places this program's memory. Pages of the followed process are kept at their original addresses,
 * so this program must not use any of these addresses:
 *
 *   0x000055..  programs (PIE)                  the followed process's
 *   0x00007f..  libraries, mmap, stack, vdso    the followed process's
 *   0x58000000  the image, its heap             this program's: linked there, static
 *   0x2aaa..    mmap                            this program's: ADDR_COMPAT_LAYOUT puts it there
 *   0x00007ff.  stack, vdso                     this program's, at random: checked before following
 *
 * Invariant: hm_is_own() is true for every byte of this program's memory, except the vsyscall page.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <unistd.h>

#include "ghost.h"

#define IMAGE_START 0x58000000ull
#define IMAGE_END 0xd8000000ull /* the heap begins within a GiB after the image */
#define MAPS_START 0x2a0000000000ull
#define MAPS_END 0x2c0000000000ull
#define MOST_RANGES 8

static struct { uint64_t start, end; } high[MOST_RANGES]; /* stack, vdso, vvar */
static uint32_t high_ranges;

static void find_high_ranges(void) {
  char line[512];
  FILE *maps = fopen("/proc/self/maps", "re");
  high_ranges = 0;
  while (maps != NULL && fgets(line, sizeof line, maps) != NULL) {
    unsigned long start, end;
    if (sscanf(line, "%lx-%lx", &start, &end) != 2 || start >> 47 != 0) continue;
    if ((start >= IMAGE_START && end <= IMAGE_END) || (start >= MAPS_START && end <= MAPS_END))
      continue;
    if (high_ranges == MOST_RANGES) break;
    if (strstr(line, "[stack]") != NULL) start -= 8 << 20; /* the stack grows */
    high[high_ranges].start = start;
    high[high_ranges++].end = end;
  }
  if (maps != NULL) fclose(maps);
}

const char *hm_arrange_layout(char **arguments) {
  int personality_now = personality(0xffffffff);
  if (personality_now < 0)
    return "personality() is forbidden (seccomp): run it outside this container";
  if ((personality_now & ADDR_COMPAT_LAYOUT) == 0) {
    if (personality((unsigned long)personality_now | ADDR_COMPAT_LAYOUT) < 0)
      return "personality() is forbidden (seccomp): run it outside this container";
    execv("/proc/self/exe", arguments);
    return "it cannot start itself again: mount /proc";
  }
  find_high_ranges();
  return NULL;
}

int hm_is_own(uint64_t address) { return hm_overlaps_own(address, address + 1); }

int hm_overlaps_own(uint64_t start, uint64_t end) {
  if (start < IMAGE_END && end > IMAGE_START) return 1;
  if (start < MAPS_END && end > MAPS_START) return 1;
  for (uint32_t i = 0; i < high_ranges; i++)
    if (start < high[i].end && end > high[i].start) return 1;
  return 0;
}
