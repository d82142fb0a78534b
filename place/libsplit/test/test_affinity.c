/*
 * Placement on real processors: which thread is moved when, and that each gets its affinity back.
 */
#include "fixture.h"
#include "release.h"

#include <errno.h>
#include <signal.h>

/* Lowest and highest CPU that this test may use; the same if there is only one. */
static uint64_t first_cpu, last_cpu, all_cpus;

static int begin_placed(void **state) {
  all_cpus = allowed();
  if (all_cpus == 0) return -1;
  first_cpu = all_cpus & -all_cpus;
  last_cpu = UINT64_C(1) << (63 - __builtin_clzll(all_cpus));
  if (begin_with_text(state) != 0) return -1;
  heartbeat();
  return 0;
}

#define NEEDS_TWO_CPUS()                              \
  do {                                                \
    if (first_cpu == last_cpu) {                      \
      print_message("skipped: one processor only\n"); \
      skip();                                         \
    }                                                 \
  } while (0)

static void paper_moves_at_the_start_and_back_at_the_end(void **state) {
  (void)state;
  NEEDS_TWO_CPUS();
  decide(kind_of("clean"), SPLIT_ACT_PAPER, first_cpu);
  decide(kind_of("dirty"), SPLIT_ACT_PAPER, last_cpu);
  for (int i = 0; i < 10; i++) {
    heartbeat();
    split_start(0, "clean");
    assert_int_equal(allowed(), first_cpu);
    split_end();
    assert_int_equal(allowed(), all_cpus);
    split_start(0, "dirty");
    assert_int_equal(allowed(), last_cpu);
    assert_int_equal(1u << sched_getcpu(), last_cpu);
    split_end();
    assert_int_equal(allowed(), all_cpus);
    split_start(0, "any");
    assert_int_equal(allowed(), all_cpus);
    split_end();
  }
  assert_int_equal(narrowed_threads(), 0);
  assert_int_equal(atomic_load(&header()->moves), 40); /* there and back, 20 times */
}

static void lazy_moves_when_the_kind_changes(void **state) {
  (void)state;
  NEEDS_TWO_CPUS();
  decide(kind_of("clean"), SPLIT_ACT_LAZY, first_cpu);
  decide(kind_of("dirty"), SPLIT_ACT_LAZY, last_cpu);
  for (int i = 0; i < 10; i++) {
    heartbeat();
    split_start(0, "clean");
    split_end();
    assert_int_equal(allowed(), first_cpu);
  }
  assert_int_equal(atomic_load(&header()->moves), 1);
  split_start(0, "dirty");
  split_end();
  assert_int_equal(allowed(), last_cpu);
  assert_int_equal(atomic_load(&header()->moves), 2);
  split_start(0, "any"); /* one that may run anywhere */
  assert_int_equal(allowed(), all_cpus);
  split_end();
  assert_int_equal(narrowed_threads(), 0);
}

static void a_new_decision_is_obeyed(void **state) {
  (void)state;
  NEEDS_TWO_CPUS();
  decide(kind_of("k"), SPLIT_ACT_LAZY, first_cpu);
  split_start(0, "k");
  split_end();
  decide(kind_of("k"), SPLIT_ACT_LAZY, last_cpu);
  split_start(0, "k");
  split_end();
  assert_int_equal(allowed(), last_cpu);
  decide(kind_of("k"), SPLIT_ACT_NONE, 0);
  split_start(0, "k");
  assert_int_equal(allowed(), all_cpus);
  split_end();
}

static void the_outer_section_decides(void **state) {
  (void)state;
  NEEDS_TWO_CPUS();
  decide(kind_of("outer"), SPLIT_ACT_PAPER, first_cpu);
  decide(kind_of("inner"), SPLIT_ACT_PAPER, last_cpu);
  split_start(0, "outer");
  split_start(0, "inner");
  assert_int_equal(allowed(), first_cpu);
  split_end();
  assert_int_equal(allowed(), first_cpu);
  split_end();
  assert_int_equal(allowed(), all_cpus);
  split_start(0, "anywhere");
  split_start(0, "inner");
  assert_int_equal(allowed(), last_cpu);
  split_end();
  assert_int_equal(allowed(), all_cpus);
  split_end();
}

static void a_late_key_places_then(void **state) {
  (void)state;
  decide(kind_of("k"), SPLIT_ACT_PAPER, first_cpu);
  split_section section;
  split_begin(&section, 0, NULL, 0);
  assert_int_equal(allowed(), all_cpus);
  split_note_section(&section, SPLIT_NOTE_KEY, "k", 1);
  assert_int_equal(allowed(), first_cpu);
  split_pause(&section);
  assert_int_equal(allowed(), all_cpus);
  split_finish(&section);
  assert_int_equal(total_of(kind_of("k")).count, 1);
  split_begin(&section, 0, "k", 1);
  assert_int_equal(allowed(), first_cpu);
  split_cancel(&section);
  assert_int_equal(allowed(), all_cpus);
}

static void soft_and_none_move_nobody(void **state) {
  (void)state;
  decide(kind_of("soft"), SPLIT_ACT_SOFT, first_cpu);
  decide(kind_of("none"), SPLIT_ACT_NONE, first_cpu);
  split_start(0, "soft");
  assert_int_equal(allowed(), all_cpus);
  split_end();
  split_start(0, "none");
  assert_int_equal(allowed(), all_cpus);
  split_end();
  assert_int_equal(atomic_load(&header()->moves), 0);
}

static void nobody_is_placed_unless_all_agree(void **state) {
  (void)state;
  int64_t off = 0, on = 1;
  decide(kind_of("k"), SPLIT_ACT_PAPER, first_cpu);
  atomic_store(&header()->placement_on, 0);
  split_start(0, "k");
  assert_int_equal(allowed(), all_cpus);
  split_end();
  atomic_store(&header()->placement_on, 1);
  split_set(SPLIT_PLACE, &off);
  split_start(0, "k");
  assert_int_equal(allowed(), all_cpus);
  split_end();
  split_set(SPLIT_PLACE, &on);
  atomic_store(&header()->heartbeat_ns, split_clock_ns(CLOCK_MONOTONIC) - 2 * SPLIT_STALE_NS);
  split_start(0, "k");
  assert_int_equal(allowed(), all_cpus);
  split_end();
  heartbeat();
  split_start(0, "k");
  assert_int_equal(allowed(), first_cpu);
  split_end();
}

/*
 * The decision's CPUs are not allowed for the thread (its cpuset changed): no placement, one count,
 * and no more tries for a second.
 */
static void cpus_that_may_not_be_used(void **state) {
  (void)state;
  decide(kind_of("k"), SPLIT_ACT_PAPER, UINT64_C(1) << 63); /* no such CPU, or not allowed */
  if (all_cpus >> 63) skip();
  for (int i = 0; i < 100; i++) {
    split_start(0, "k");
    assert_int_equal(allowed(), all_cpus);
    split_end();
  }
  assert_int_equal(atomic_load(&header()->refused), 1);
  assert_int_equal(total_of(kind_of("k")).count, 100);
  assert_int_equal(narrowed_threads(), 0);
}

/*
 * The allowed CPUs shrink while placed: the decision is cut to them, and not more is restored than
 * there was.
 */
static void less_is_allowed_than_decided(void **state) {
  (void)state;
  NEEDS_TWO_CPUS();
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET((unsigned)__builtin_ctzll(first_cpu), &one);
  assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
  decide(kind_of("both"), SPLIT_ACT_PAPER, first_cpu | last_cpu);
  decide(kind_of("other"), SPLIT_ACT_PAPER, last_cpu);
  split_start(0, "both");
  assert_int_equal(allowed(), first_cpu);
  split_end();
  assert_int_equal(allowed(), first_cpu);
  split_start(0, "other");
  assert_int_equal(allowed(), first_cpu);
  split_end();
  assert_int_equal(atomic_load(&header()->refused), 1);
  CPU_SET((unsigned)__builtin_ctzll(last_cpu), &one);
  for (int cpu = 0; cpu < 64; cpu++)
    if (all_cpus >> cpu & 1) CPU_SET((unsigned)cpu, &one);
  assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
}

/* Threads that are narrowed and then wait. */
struct sleeper {
  pthread_t thread;
  pid_t tid;
  _Atomic int stage;
  const char *key;
};

static void *sleep_narrowed(void *argument) {
  struct sleeper *sleeper = argument;
  sleeper->tid = gettid();
  split_start(0, sleeper->key);
  split_end();
  atomic_store(&sleeper->stage, 1);
  while (atomic_load(&sleeper->stage) == 1) pause_ms(1);
  return NULL;
}

static void put_to_sleep(struct sleeper *sleeper, const char *key) {
  sleeper->key = key;
  atomic_store(&sleeper->stage, 0);
  assert_int_equal(pthread_create(&sleeper->thread, NULL, sleep_narrowed, sleeper), 0);
  while (atomic_load(&sleeper->stage) == 0) pause_ms(1);
}

static void wake(struct sleeper *sleeper) {
  atomic_store(&sleeper->stage, 2);
  pthread_join(sleeper->thread, NULL);
}

static void a_silent_analyzer_holds_nobody(void **state) {
  (void)state;
  NEEDS_TWO_CPUS();
  struct sleeper sleeper;
  decide(kind_of("k"), SPLIT_ACT_LAZY, first_cpu);
  put_to_sleep(&sleeper, "k");
  assert_int_equal(allowed_of(sleeper.tid), first_cpu);
  /* The heartbeat is not repeated from here on. */
  assert_true(becomes(allowed_of, sleeper.tid, all_cpus));
  assert_int_equal(narrowed_threads(), 0);
  wake(&sleeper);
}

static void switching_off_holds_nobody(void **state) {
  (void)state;
  NEEDS_TWO_CPUS();
  static const enum split_setting settings[] = {SPLIT_COLLECT, SPLIT_PLACE};
  int64_t off = 0, on = 1;
  struct sleeper sleeper;
  decide(kind_of("k"), SPLIT_ACT_LAZY, first_cpu);
  for (int i = 0; i < 2; i++) {
    heartbeat();
    put_to_sleep(&sleeper, "k");
    assert_int_equal(allowed_of(sleeper.tid), first_cpu);
    split_set(settings[i], &off);
    assert_int_equal(allowed_of(sleeper.tid), all_cpus); /* at once */
    split_set(settings[i], &on);
    wake(&sleeper);
  }
  heartbeat();
  put_to_sleep(&sleeper, "k");
  atomic_store(&header()->placement_on, 0); /* an off epoch of the guard */
  assert_true(becomes(allowed_of, sleeper.tid, all_cpus));
  wake(&sleeper);
  heartbeat();
  put_to_sleep(&sleeper, "k");
  split_close();
  assert_int_equal(allowed_of(sleeper.tid), all_cpus);
  wake(&sleeper);
}

static void a_thread_that_ends_leaves_nothing(void **state) {
  (void)state;
  struct sleeper sleeper;
  decide(kind_of("k"), SPLIT_ACT_LAZY, first_cpu);
  for (int i = 0; i < 3; i++) {
    put_to_sleep(&sleeper, "k");
    wake(&sleeper);
  }
  struct split_mapping *mapping = split_mapping_in_use();
  for (uint32_t i = 0; i < mapping->thread_count; i++)
    assert_int_equal(atomic_load(&mapping->threads[i].tid), 0);
}

static void a_child_is_free(void **state) {
  (void)state;
  NEEDS_TWO_CPUS();
  decide(kind_of("k"), SPLIT_ACT_LAZY, first_cpu);
  split_start(0, "k");
  assert_int_equal(allowed(), first_cpu);
  pid_t child = fork();
  if (child == 0) {
    bool wide = allowed() == all_cpus;
    split_end(); /* the parent's: no effect */
    split_start(0, "k");
    bool narrow = allowed() == first_cpu;
    split_end();
    _exit(wide && narrow ? 0 : 1);
  }
  int status;
  waitpid(child, &status, 0);
  assert_int_equal(status, 0);
  assert_int_equal(allowed(), first_cpu);
  split_end();
  assert_int_equal(total_of(kind_of("k")).count, 2);
}

static void *look_and_begin(void *seen) {
  uint64_t *masks = seen;
  masks[0] = allowed();
  split_start(0, "anywhere");
  split_end();
  masks[1] = allowed();
  return NULL;
}

/* A host creates a thread within a section, as MariaDB's thread pool does. */
static void a_thread_born_in_a_section_is_free(void **state) {
  (void)state;
  NEEDS_TWO_CPUS();
  decide(kind_of("k"), SPLIT_ACT_PAPER, first_cpu);
  uint64_t masks[2];
  pthread_t thread;
  split_start(0, "k");
  pthread_create(&thread, NULL, look_and_begin, masks);
  pthread_join(thread, NULL);
  split_end();
  assert_int_equal(masks[0], first_cpu);
  assert_int_equal(masks[1], all_cpus);
}

static void places_of_the_dead_are_free_again(void **state) {
  (void)state;
  struct split_mapping *mapping = split_mapping_in_use();
  pid_t child = fork();
  if (child == 0) _exit(0);
  waitpid(child, NULL, 0);
  for (uint32_t i = 0; i < mapping->thread_count; i++) {
    atomic_store(&mapping->threads[i].tid, (uint32_t)child);
    atomic_store(&mapping->threads[i].narrowed, 1);
  }
  decide(kind_of("k"), SPLIT_ACT_PAPER, first_cpu);
  split_start(0, "k");
  assert_int_equal(allowed(), first_cpu);
  split_end();
  assert_int_equal(allowed(), all_cpus);
}

/* A thread id that was reused: the other thread's affinity must not be changed. */
static void another_thread_with_the_same_number(void **state) {
  (void)state;
  NEEDS_TWO_CPUS();
  struct split_mapping *mapping = split_mapping_in_use();
  struct split_thread *entry = &mapping->threads[5];
  atomic_store(&entry->tid, (uint32_t)getppid());
  atomic_store(&entry->started_ticks, 1);
  atomic_store(&entry->original_mask[0], first_cpu);
  atomic_store(&entry->narrowed, 1);
  uint64_t before = allowed_of(getppid());
  int64_t off = 0;
  split_set(SPLIT_PLACE, &off);
  assert_int_equal(allowed_of(getppid()), before);
  assert_int_equal(atomic_load(&entry->tid), 0);
}

/* A process that sleeps, and its parent if that is another child, which sleeps too. */
struct family {
  pid_t child, grandchild;
};

static struct family make_family(void) {
  struct family family = {0, 0};
  int ends[2];
  assert_int_equal(pipe(ends), 0);
  family.child = fork();
  if (family.child == 0) {
    pid_t below = fork();
    if (below == 0)
      for (;;) pause();
    if (write(ends[1], &below, sizeof below) != sizeof below) _exit(1);
    for (;;) pause();
  }
  assert_int_equal(read(ends[0], &family.grandchild, sizeof(pid_t)), sizeof(pid_t));
  close(ends[0]);
  close(ends[1]);
  return family;
}

/* All processes of a server write the table. One without rights that names a thread outside of the
 * server must not have it moved by one that runs as root. */
static void an_entry_that_names_a_thread_of_others_moves_nothing(void **state) {
  (void)state;
  NEEDS_TWO_CPUS();
  struct split_mapping *mapping = split_mapping_in_use();
  const struct family family = make_family();
  const pid_t named[2] = {family.child, family.grandchild};
  for (int i = 0; i < 2; i++) {
    struct split_thread *entry = &mapping->threads[i];
    atomic_store(&entry->tid, (uint32_t)named[i]);
    atomic_store(&entry->started_ticks, split_started_ticks((uint32_t)named[i]));
    atomic_store(&entry->original_mask[0], first_cpu);
    atomic_store(&entry->narrowed, 1);
  }
  int64_t off = 0;
  split_set(SPLIT_PLACE, &off);
  const uint64_t child = allowed_of(family.child), other = allowed_of(family.grandchild);
  kill(family.grandchild, SIGKILL);
  kill(family.child, SIGKILL);
  waitpid(family.child, NULL, 0);
  assert_int_equal(child, first_cpu);
  assert_int_equal(other, all_cpus);
}

static void a_worker_is_bound_and_comes_back(void **state) {
  (void)state;
  NEEDS_TWO_CPUS();
  uint64_t mask[SPLIT_CPUS_MAX / 64] = {first_cpu};
  assert_false(split_thread_is_narrowed());
  assert_true(split_thread_narrow(mask));
  assert_true(split_thread_is_narrowed());
  assert_int_equal(allowed(), first_cpu);
  mask[0] = last_cpu;
  assert_true(split_thread_narrow(mask));
  assert_int_equal(allowed(), last_cpu);
  decide(kind_of("k"), SPLIT_ACT_PAPER, first_cpu);
  split_start(0, "k");
  assert_int_equal(allowed(), first_cpu);
  split_end();
  assert_int_equal(allowed(), last_cpu); /* where it is bound */
  split_thread_widen();
  assert_int_equal(allowed(), all_cpus);
  assert_false(split_thread_is_narrowed());
  assert_true(split_thread_narrow(mask));
  assert_true(becomes(allowed_of, 0, all_cpus)); /* the analyzer is silent */
  assert_false(split_thread_is_narrowed());
}

static void *end_elsewhere(void *section) {
  split_finish(section);
  return NULL;
}

static void ended_elsewhere_its_thread_is_free(void **state) {
  (void)state;
  NEEDS_TWO_CPUS();
  decide(kind_of("k"), SPLIT_ACT_PAPER, first_cpu);
  split_section section;
  split_begin(&section, 0, "k", 1);
  assert_int_equal(allowed(), first_cpu);
  pthread_t thread;
  pthread_create(&thread, NULL, end_elsewhere, &section);
  pthread_join(thread, NULL);
  assert_int_equal(allowed(), all_cpus);
  split_start(0, "k");
  assert_int_equal(allowed(), first_cpu);
  split_end();
  assert_int_equal(allowed(), all_cpus);
}

/*
 * A thread narrows and restores while the service of another process (or its own) releases all the
 * time: it is never left narrow.
 */
static void *release_always(void *stop) {
  while (!atomic_load((_Atomic bool *)stop)) split_release_all(split_mapping_in_use());
  return NULL;
}

static void racing_with_the_release(void **state) {
  (void)state;
  NEEDS_TWO_CPUS();
  _Atomic bool stop = false;
  pthread_t thread;
  decide(kind_of("clean"), SPLIT_ACT_PAPER, first_cpu);
  decide(kind_of("dirty"), SPLIT_ACT_PAPER, last_cpu);
  decide(kind_of("lazy"), SPLIT_ACT_LAZY, last_cpu);
  pthread_create(&thread, NULL, release_always, &stop);
  static const char *const keys[] = {"clean", "dirty", "lazy"};
  for (int i = 0; i < 3000; i++) {
    heartbeat();
    split_start(0, keys[i % 3]);
    split_end();
  }
  atomic_store(&stop, true);
  pthread_join(thread, NULL);
  split_start(0, "anywhere");
  split_end();
  assert_int_equal(allowed(), all_cpus);
  assert_int_equal(narrowed_threads(), 0);
}

#define IN(test) cmocka_unit_test_setup_teardown(test, begin_placed, remove_folder)

int main(void) {
  const struct CMUnitTest tests[] = {
      IN(paper_moves_at_the_start_and_back_at_the_end),
      IN(lazy_moves_when_the_kind_changes),
      IN(a_new_decision_is_obeyed),
      IN(the_outer_section_decides),
      IN(a_late_key_places_then),
      IN(soft_and_none_move_nobody),
      IN(nobody_is_placed_unless_all_agree),
      IN(cpus_that_may_not_be_used),
      IN(less_is_allowed_than_decided),
      IN(a_silent_analyzer_holds_nobody),
      IN(switching_off_holds_nobody),
      IN(a_thread_that_ends_leaves_nothing),
      IN(a_child_is_free),
      IN(a_thread_born_in_a_section_is_free),
      IN(places_of_the_dead_are_free_again),
      IN(another_thread_with_the_same_number),
      IN(an_entry_that_names_a_thread_of_others_moves_nothing),
      IN(a_worker_is_bound_and_comes_back),
      IN(ended_elsewhere_its_thread_is_free),
      IN(racing_with_the_release),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
