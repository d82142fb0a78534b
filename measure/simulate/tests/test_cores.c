/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Several processes: what they share, which process waits for which, and what happens when
 * one is killed.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lock.h"
#include "test.h"

#define LINE(n) ((uint64_t)(n) << HM_LINE_BITS)
#define PAGE(n) ((uint64_t)(n) << HM_PAGE_BITS)

/* A machine of `cores` with two processes, `other` suspended, one running. */
static struct hm_header *two_processes(uint32_t cores, uint32_t flags, struct hm_simulator *other) {
  struct hm_config config = small_machine();
  config.cores = cores;
  config.flags = flags;
  struct hm_header *header = make_segment(&config);
  host_forget_pages();
  host_describe_pages(0x100, 16, HM_PAGE_SHARED, 1000);
  start_process(header, (uint32_t)getpid());
  struct hm_simulator first;
  put_aside(&first);
  start_process(header, (uint32_t)getpid());
  put_aside(other);
  take_up(&first);
  return header;
}

static void switch_to(struct hm_simulator *other) {
  struct hm_simulator running;
  put_aside(&running);
  take_up(other);
  *other = running;
}

static void two_cores_share_the_last_level_only(void **state) {
  (void)state;
  struct hm_simulator other;
  struct hm_header *header = two_processes(2, 0, &other);
  assert_int_equal(hm_sim.cpu, 0);
  assert_int_equal(other.cpu, 1);
  for (uint64_t i = 0; i < 8; i++) load(PAGE(0x100) + LINE(i));
  for (uint64_t i = 0; i < 4; i++) load(PAGE(0x500) + LINE(i)); /* private */
  switch_to(&other);
  for (uint64_t i = 0; i < 8; i++) load(PAGE(0x100) + LINE(i));
  assert_int_equal(events(HM_L1D_MISS), 8);
  assert_int_equal(events(HM_L2_MISS), 8);
  assert_int_equal(events(HM_L3_MISS), 0); /* fetched by the first process */
  for (uint64_t i = 0; i < 4; i++) load(PAGE(0x500) + LINE(i));
  assert_int_equal(events(HM_L3_MISS), 4); /* equal addresses, different memory */
  assert_int_equal(header->counts[0].events[HM_L3_MISS], 12);
  stop(header);
}

static void one_core_shares_all_levels(void **state) {
  (void)state;
  struct hm_simulator other;
  struct hm_header *header = two_processes(1, 0, &other);
  for (uint64_t i = 0; i < 8; i++) load(PAGE(0x100) + LINE(i));
  assert_int_equal(events(HM_L1D_MISS), 8);
  assert_int_equal(events(HM_DTLB_MISS), 1);
  switch_to(&other);
  for (uint64_t i = 0; i < 8; i++) load(PAGE(0x100) + LINE(i));
  assert_int_equal(events(HM_L1D_MISS), 8);  /* not one more */
  assert_int_equal(events(HM_DTLB_MISS), 2); /* translations are per address space */
  switch_to(&other);
  for (uint64_t i = 0; i < 8; i++) load(PAGE(0x100) + LINE(i));
  assert_int_equal(events(HM_DTLB_MISS), 2); /* and survive a switch */
  stop(header);
}

static void without_space_ids_a_switch_empties_the_tlbs(void **state) {
  (void)state;
  struct hm_simulator other;
  struct hm_header *header = two_processes(1, HM_FLAG_TLB_FLUSH_SWITCH, &other);
  load(PAGE(0x100));
  hm_leave_core();
  hm_enter_core(); /* the same process again: no switch */
  load(PAGE(0x100));
  assert_int_equal(events(HM_STLB_MISS), 1);
  switch_to(&other);
  switch_to(&other);
  load(PAGE(0x100));
  assert_int_equal(events(HM_STLB_MISS), 2);
  stop(header);
}

static void switches_of_process_are_counted(void **state) {
  (void)state;
  struct hm_simulator other;
  struct hm_header *header = two_processes(1, 0, &other);
  uint64_t before = hm_sim.counts->switches; /* made by the setup */
  for (int i = 0; i < 6; i++) switch_to(&other);
  hm_leave_core();
  hm_enter_core();
  assert_int_equal(hm_sim.counts->switches - before, 6);
  stop(header);
}

/* A process that slept gets the time of those that ran (Lamport). */
static void waiting_brings_a_core_up_to_date(void **state) {
  (void)state;
  struct hm_simulator other;
  struct hm_header *header = two_processes(2, 0, &other);
  for (uint64_t i = 0; i < 10; i++) load(PAGE(0x100) + LINE(i)); /* 226 + 9 * 196 */
  assert_int_equal(hm_cycles(), 1990);
  other.waited = 0;
  switch_to(&other);
  assert_int_equal(hm_cycles(), 0); /* concurrent: an independent clock */
  hm_leave_core();
  hm_sim.waited = 1;
  hm_enter_core();
  assert_int_equal(hm_cycles(), 1990);
  stop(header);
}

/* --- Real processes ---------------------------------------------------------------- */

/* Runs `work` as a forked simulated process; returns its exit status. */
static int in_child(void (*work)(void)) {
  pid_t child = fork();
  if (child == 0) {
    hm_child_forked((uint32_t)getpid());
    hm_enter_core();
    work();
    hm_leave_core();
    _exit(0);
  }
  int status = -1;
  waitpid(child, &status, 0);
  return status;
}

static void read_four_lines(void) {
  for (uint64_t i = 0; i < 4; i++) load(PAGE(0x800) + LINE(i));
}

static void write_four_lines(void) {
  for (uint64_t i = 0; i < 4; i++) store(PAGE(0x800) + LINE(i));
}

static void a_forked_child_shares_what_it_does_not_write(void **state) {
  (void)state;
  struct hm_config config = small_machine();
  struct hm_header *header = start(&config);
  write_four_lines();
  struct hm_core_counts *counts = hm_sim.counts;
  assert_int_equal(events(HM_L1D_MISS), 4);
  hm_leave_core();
  hm_parent_forked();
  assert_int_equal(in_child(read_four_lines), 0);
  assert_int_equal(counts->events[HM_L1D_MISS], 4); /* the parent's lines */
  assert_int_equal(in_child(write_four_lines), 0);
  assert_int_equal(counts->events[HM_L1D_MISS], 8); /* a copy of the page */
  hm_enter_core();
  read_four_lines();
  assert_int_equal(events(HM_L1D_MISS), 8); /* the parent's counts are unchanged */
  stop(header);
}

static void die_on_the_core(void) { kill(getpid(), SIGKILL); }

/* Simulates one backend of a server that is killed with `kill -9`. */
static void the_core_of_a_killed_process_is_taken_over(void **state) {
  (void)state;
  struct hm_config config = small_machine();
  struct hm_header *header = start(&config);
  hm_leave_core();
  int status = in_child(die_on_the_core);
  assert_true(WIFSIGNALED(status));
  assert_int_not_equal(hm_sim.core->lock, 0); /* the dead owner's pid */
  hm_enter_core();
  assert_int_equal(hm_sim.core->lock, (uint32_t)getpid());
  load(PAGE(1));
  stop(header);
}

static struct hm_header *locked_header;

static void die_in_a_critical_section(void) {
  hm_lock_acquire(&locked_header->ring_lock, (uint32_t)getpid());
  kill(getpid(), SIGKILL);
}

static void the_lock_of_a_killed_process_is_taken_over(void **state) {
  (void)state;
  struct hm_config config = small_machine();
  locked_header = start(&config);
  hm_leave_core();
  in_child(die_in_a_critical_section);
  uint32_t dead = locked_header->ring_lock, me = (uint32_t)getpid();
  assert_int_not_equal(dead, 0);
  hm_lock_acquire(&locked_header->ring_lock, me);
  assert_int_equal(locked_header->ring_lock, me);
  hm_lock_release(&locked_header->ring_lock);
  assert_int_equal(locked_header->ring_lock, 0);
  hm_enter_core();
  stop(locked_header);
}

static void a_living_owner_keeps_its_lock(void **state) {
  (void)state;
  _Atomic uint32_t lock = 0;
  uint32_t me = (uint32_t)getpid(), parent = (uint32_t)getppid();
  assert_true(hm_lock_try(&lock, parent));
  assert_false(hm_lock_try(&lock, me));
  assert_false(hm_lock_take_over(&lock, me));
  assert_int_equal(lock, parent);
}

/* Four processes on one core, each adding one to the core's own counters while
 * it holds the core.  An addition that is not protected gets lost. */
#define ROUNDS 20000
static void a_core_belongs_to_one_process_at_a_time(void **state) {
  (void)state;
  struct hm_config config = small_machine();
  struct hm_header *header = start(&config);
  struct hm_core_counts *counts = hm_sim.counts;
  hm_leave_core();
  pid_t children[4];
  for (int child = 0; child < 4; child++) {
    children[child] = fork();
    if (children[child] != 0) continue;
    hm_child_forked((uint32_t)getpid());
    for (int i = 0; i < ROUNDS; i++) {
      hm_enter_core();
      hm_sim.instructions += 3;
      hm_sim.packed_counts += HM_PACK(0, 2, 1);
      hm_leave_core();
    }
    _exit(0);
  }
  for (int child = 0; child < 4; child++) waitpid(children[child], NULL, 0);
  assert_int_equal(counts->events[HM_INSTRUCTIONS], 4 * ROUNDS * 3);
  assert_int_equal(counts->events[HM_LOADS], 4 * ROUNDS * 2);
  assert_int_equal(counts->events[HM_STORES], 4 * ROUNDS);
  assert_int_equal(counts->cycles, 4 * ROUNDS * 3);
  assert_int_equal(header->attached, 5);
  drop_segment(header);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(two_cores_share_the_last_level_only),
      cmocka_unit_test(one_core_shares_all_levels),
      cmocka_unit_test(without_space_ids_a_switch_empties_the_tlbs),
      cmocka_unit_test(switches_of_process_are_counted),
      cmocka_unit_test(waiting_brings_a_core_up_to_date),
      cmocka_unit_test(a_forked_child_shares_what_it_does_not_write),
      cmocka_unit_test(the_core_of_a_killed_process_is_taken_over),
      cmocka_unit_test(the_lock_of_a_killed_process_is_taken_over),
      cmocka_unit_test(a_living_owner_keeps_its_lock),
      cmocka_unit_test(a_core_belongs_to_one_process_at_a_time),
  };
  return cmocka_run_group_tests_name("cores", tests, NULL, NULL);
}
