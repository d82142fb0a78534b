/*
 * Time slices on this kernel: a thread's slice within sections and after them, by sched_getattr,
 * and that each thread gets its own back. Skipped with a message if the kernel has none (before
 * 6.12).
 */
#include "slice_fixture.h"
#include "release.h"

#include <signal.h>

static uint64_t slice_in(const char *key) {
  split_start(0, key);
  uint64_t slice = slice_of(0);
  split_end();
  return slice;
}

static void section(const char *key, uint64_t expected) {
  assert_int_equal(slice_in(key), expected);
}

/* On a busy machine, what began a while ago may lie longer ago than a heartbeat counts. */
static void section_in_time(const char *key, uint64_t expected) {
  heartbeat();
  section(key, expected);
}

static void the_table_says_which_slice(void **state) {
  (void)state;
  NEEDS_SLICES();
  section_in_time("short", MS / 10);
  assert_int_equal(slice_of(0),
                   MS / 10); /* the kernel uses it when the thread wakes up for its next request */
  section_in_time("long", 100 * MS);
  section_in_time("any", own);
  assert_int_equal(slice_of(0), own);
  assert_int_equal(sliced_threads(), 0);
  assert_int_equal(atomic_load(&header()->slices), 3);
}

static void nothing_is_called_where_nothing_changes(void **state) {
  (void)state;
  NEEDS_SLICES();
  for (int i = 0; i < 1000; i++) {
    heartbeat();
    section("short", MS / 10);
  }
  assert_int_equal(atomic_load(&header()->slices), 1);
}

static void only_the_outermost_section_decides(void **state) {
  (void)state;
  NEEDS_SLICES();
  split_start(0, "long");
  section("short", 100 * MS);
  section("any", 100 * MS);
  split_end();
  split_start(0, "any");
  section("short", own);
  split_end();
}

static void a_late_key_slices_then(void **state) {
  (void)state;
  NEEDS_SLICES();
  split_section late;
  section("long", 100 * MS);
  split_begin(&late, 0, NULL, 0);
  assert_int_equal(slice_of(0), 100 * MS); /* kind not known yet: unchanged */
  split_note_section(&late, SPLIT_NOTE_KEY, "short", 5);
  assert_int_equal(slice_of(0), MS / 10);
  split_finish(&late);
  assert_int_equal(atomic_load(&header()->slices), 2);
}

static void what_a_hostile_table_says_is_brought_into_range(void **state) {
  (void)state;
  NEEDS_SLICES();
  decide_slice(kind_of("little"), 1);
  decide_slice(kind_of("much"), UINT32_MAX);
  section("little", MS / 10);
  section("much", 100 * MS);
  split_mapping_in_use()->threads[3].tid = UINT32_MAX; /* no thread */
  split_mapping_in_use()->threads[3].sliced = 7;
  split_mapping_in_use()->threads[4].tid = 1; /* not this library's: another start time */
  split_mapping_in_use()->threads[4].sliced = 7;
  const uint64_t of_first = slice_of(1);
  split_release_all(split_mapping_in_use());
  assert_int_equal(slice_of(0), own);
  assert_int_equal(slice_of(1), of_first);
}

static void nice_and_policy_stay(void **state) {
  (void)state;
  NEEDS_SLICES();
  const int before = attributes_of(0).nice; /* not 0 if the tests were started with nice */
  const int lower = before + 3 < 19 ? before + 3 : 19;
  assert_int_equal(nice(3), lower);
  section("short", MS / 10);
  section("long", 100 * MS);
  section("any", own);
  assert_int_equal(attributes_of(0).nice, lower);
  assert_int_equal(attributes_of(0).policy, SCHED_OTHER);
}

static void a_slice_that_a_thread_had_comes_back(void **state) {
  (void)state;
  NEEDS_SLICES();
  set_slice(7 * MS);
  section("short", MS / 10);
  section("any", 7 * MS);
}

static void nothing_is_sliced_unless_all_agree(void **state) {
  (void)state;
  NEEDS_SLICES();
  int64_t off = 0, on = 1;
  section_in_time("short", MS / 10);
  atomic_store(&header()->placement_on, 0);
  section("short", own);
  atomic_store(&header()->placement_on, 1);
  split_set(SPLIT_PLACE, &off);
  section("short", own);
  split_set(SPLIT_PLACE, &on);
  /* The service thread may have seen one of the two switched off, and give the slice back only now:
   * the thread notices within 0.1 s. */
  for (int tries = 0; tries < 1000 && slice_in("short") != MS / 10; tries++) {
    heartbeat();
    usleep(1000);
  }
  section_in_time("short", MS / 10);
}

static void a_silent_analyzer_leaves_no_slice(void **state) {
  (void)state;
  NEEDS_SLICES();
  section("long", 100 * MS);
  assert_true(
      becomes(slice_of, 0, own)); /* without further heartbeats, the service thread restores it */
  section("long", own);
}

static void a_late_release_is_seen(void **state) {
  (void)state;
  NEEDS_SLICES();
  section("short", MS / 10);
  split_release_all(split_mapping_in_use());
  assert_int_equal(slice_of(0), own);
  heartbeat();
  section("short", MS / 10);
}

static uint64_t seen[3];

static void *in_a_thread(void *argument) {
  (void)argument;
  static const char *const keys[] = {"any", "short", "any"};
  const uint64_t born = slice_of(0);
  for (int i = 0; i < 3; i++) {
    split_start(0, keys[i]);
    seen[i] = slice_of(0);
    split_end();
  }
  return (void *)(uintptr_t)born;
}

static void a_thread_born_in_a_section_gets_the_first_ones(void **state) {
  (void)state;
  NEEDS_SLICES();
  pthread_t thread;
  void *born;
  split_start(0, "long");
  pthread_create(&thread, NULL, in_a_thread, NULL);
  pthread_join(thread, &born);
  assert_int_equal((uintptr_t)born, 100 * MS); /* that is what the kernel does */
  assert_int_equal(seen[0], own);
  assert_int_equal(seen[1], MS / 10);
  assert_int_equal(seen[2], own);
  split_end();
}

static void a_child_has_its_own(void **state) {
  (void)state;
  NEEDS_SLICES();
  int status;
  section("long", 100 * MS);
  pid_t child = fork();
  if (child == 0) _exit(slice_of(0) == own ? 0 : 1);
  waitpid(child, &status, 0);
  assert_int_equal(status, 0);
  assert_int_equal(slice_of(0), 100 * MS);
}

static void closing_leaves_no_slice(void **state) {
  (void)state;
  NEEDS_SLICES();
  section("long", 100 * MS);
  split_close();
  assert_int_equal(slice_of(0), own);
}

/* A parallel worker: gets the kind's slice without a section, and nothing is counted. */
static void who_helps_gets_the_slice(void **state) {
  (void)state;
  NEEDS_SLICES();
  assert_true(split_help("long", 4));
  assert_int_equal(slice_of(0), 100 * MS);
  split_help_ends();
  assert_int_equal(slice_of(0), own);
  assert_false(split_help("any", 3));
  assert_int_equal(slice_of(0), own);
  assert_int_equal(total_of(kind_of("long")).count, 0);
}

/*
 * Another process in the analyzer's place is killed, and its heartbeat stops. The server's process
 * waits between sections.
 */
static void the_analyzer_is_killed(void **state) {
  (void)state;
  NEEDS_SLICES();
  pid_t analyzer = fork();
  if (analyzer == 0) {
    for (;;) {
      heartbeat();
      pause_ms(20);
    }
  }
  for (int i = 0; i < 20; i++) {
    section_in_time("long", 100 * MS);
    pause_ms(20);
  }
  kill(analyzer, SIGKILL);
  waitpid(analyzer, NULL, 0);
  assert_true(becomes(slice_of, 0, own));
  assert_int_equal(sliced_threads(), 0);
}

/* Another thread restores slices all the time: in the end the thread has its own. */
static void *release_always(void *stop) {
  while (!atomic_load((_Atomic bool *)stop)) split_release_all(split_mapping_in_use());
  return NULL;
}

static void racing_with_the_release(void **state) {
  (void)state;
  NEEDS_SLICES();
  _Atomic bool stop = false;
  pthread_t thread;
  pthread_create(&thread, NULL, release_always, &stop);
  static const char *const keys[] = {"short", "long", "any"};
  for (int i = 0; i < 3000; i++) {
    heartbeat();
    split_start(0, keys[i % 3]);
    split_end();
  }
  atomic_store(&stop, true);
  pthread_join(thread, NULL);
  section("any", own);
  assert_int_equal(sliced_threads(), 0);
}

#define IN(test) cmocka_unit_test_setup_teardown(test, begin_sliced, end_sliced)

int main(void) {
  const struct CMUnitTest tests[] = {
      IN(the_table_says_which_slice),
      IN(nothing_is_called_where_nothing_changes),
      IN(only_the_outermost_section_decides),
      IN(a_late_key_slices_then),
      IN(what_a_hostile_table_says_is_brought_into_range),
      IN(a_slice_that_a_thread_had_comes_back),
      IN(nothing_is_sliced_unless_all_agree),
      IN(a_silent_analyzer_leaves_no_slice),
      IN(a_late_release_is_seen),
      IN(a_thread_born_in_a_section_gets_the_first_ones),
      IN(a_child_has_its_own),
      IN(closing_leaves_no_slice),
      IN(who_helps_gets_the_slice),
      IN(the_analyzer_is_killed),
      IN(racing_with_the_release),
      IN(nice_and_policy_stay), /* the last one: a lower nice needs rights */
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
