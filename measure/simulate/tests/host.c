/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The host of the unit tests: an ordinary Linux process.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "test.h"

/* --- Pages ------------------------------------------------------------------- */

static struct {
  uint64_t first, count, base;
  enum hm_page_kind kind;
} described[16];
static uint32_t described_count;

void host_describe_pages(uint64_t first, uint64_t count, enum hm_page_kind kind, uint64_t base) {
  described[described_count].first = first;
  described[described_count].count = count;
  described[described_count].base = base;
  described[described_count++].kind = kind;
}

void host_forget_pages(void) { described_count = 0; }

struct hm_page_identity hm_host_identify_page(uint64_t virtual_page) {
  struct hm_page_identity identity = {HM_PAGE_PRIVATE, 0};
  for (uint32_t i = 0; i < described_count; i++) {
    if (virtual_page - described[i].first >= described[i].count) continue;
    identity.kind = described[i].kind;
    identity.key = described[i].base + virtual_page - described[i].first;
  }
  return identity;
}

/* Page tables: sparse and never freed, as in the Valgrind tool. */
void *hm_host_allocate(size_t size) {
  void *memory =
      mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) abort();
  return memory;
}

/* --- Memory ------------------------------------------------------------------- */

/* Contents of the tests' lines: zero unless a test sets a word. */
static struct { uint64_t address, word; } words[4096];
static uint32_t word_count;

void host_put_word(uint64_t address, uint64_t word) {
  if (word_count == sizeof words / sizeof words[0]) abort();
  words[word_count].address = address;
  words[word_count++].word = word;
}

void host_forget_words(void) { word_count = 0; }

void hm_host_read_line(uint64_t address, void *line) {
  uint64_t *word = line;
  for (int i = 0; i < 8; i++) word[i] = 0;
  for (uint32_t i = 0; i < word_count; i++)
    if (words[i].address / HM_LINE_SIZE == address / HM_LINE_SIZE)
      word[words[i].address % HM_LINE_SIZE / 8] = words[i].word;
}

/* --- Waiting ------------------------------------------------------------------- */

void hm_host_yield(void) { sched_yield(); }

int hm_host_process_exists(uint32_t pid) { return !(kill((pid_t)pid, 0) != 0 && errno == ESRCH); }

void hm_host_wait(_Atomic uint32_t *word, uint32_t expected) {
  struct timespec patience = {0, 5 * 1000 * 1000};
  syscall(SYS_futex, word, FUTEX_WAIT, expected, &patience, NULL, 0);
}

void hm_host_wake(_Atomic uint32_t *word) {
  syscall(SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0);
}

/* --- Samples --------------------------------------------------------------------- */

struct host_sample host_samples[HOST_SAMPLES];
uint32_t host_sample_count;

void hm_host_sample(const struct hm_sample *sample) {
  if (host_sample_count == HOST_SAMPLES) abort();
  struct host_sample *kept = &host_samples[host_sample_count++];
  kept->sample = *sample;
  kept->access = *sample->access;
  kept->sample.access = &kept->access;
}

/* --- Turns ------------------------------------------------------------------------- */

uint32_t host_turns_ended;

void hm_host_end_turn(void) { host_turns_ended++; }
