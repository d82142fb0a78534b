/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Shared by the simulator's unit tests: cmocka, a machine small enough to compute by hand, and a
 * host that tests control.
 *
 *   level   sets x ways x 64 B   latency        TLB    entries   ways
 *   L1I/L1D    4 x 4 =   1 KiB         4        ITLB         4      4
 *   L2        16 x 4 =   4 KiB        14        DTLB         4      4
 *   L3        64 x 4 =  16 KiB        40        STLB        16      4   +7
 *   memory                           200        walk                   +30
 *
 * A load that misses everything thus takes 200 + 30 cycles, 226 more than a hit.
 */
#ifndef HM_TEST_H
#define HM_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "host.h"
#include "simulator.h"

/* --- driver.c -------------------------------------------------------------- */

struct hm_config small_machine(void);

/* A fresh segment with this machine in it, shared with forked children. */
struct hm_header *make_segment(const struct hm_config *config);
void drop_segment(struct hm_header *header);

/* Makes hm_sim a process of the segment, running on its core. */
void start_process(struct hm_header *header, uint32_t pid);
/* make_segment and start_process in one; `stop` reverts both. */
struct hm_header *start(const struct hm_config *config);
void stop(struct hm_header *header);

/* One program may play several simulated processes: suspends the running one and resumes
 * another, as if each had its own copy of the simulator. */
void put_aside(struct hm_simulator *process);
void take_up(const struct hm_simulator *process);

/* Accesses as the generated code reports them; `ip` equals the address. */
void load(uint64_t address);
void load_sized(uint64_t address, uint32_t size);
void store(uint64_t address);
void fetch(uint64_t line_address);

/* Event count of the core that the running process is on. */
uint64_t events(enum hm_event event);

/* xorshift64: the same sequence on every machine. */
uint64_t next_random(uint64_t *state);

/* --- host.c ------------------------------------------------------------------ */

/* Pages from `first` on are of this kind, with keys base + page - first. */
void host_describe_pages(uint64_t first, uint64_t count, enum hm_page_kind kind, uint64_t base);
void host_forget_pages(void);

/* Sets the word at an address, a multiple of 8; all others are 0. */
void host_put_word(uint64_t address, uint64_t word);
void host_forget_words(void);

/* Samples from the simulator, oldest first. */
struct host_sample {
  struct hm_sample sample;
  struct hm_access access;
};
#define HOST_SAMPLES 65536
extern struct host_sample host_samples[HOST_SAMPLES];
extern uint32_t host_sample_count;

#endif
