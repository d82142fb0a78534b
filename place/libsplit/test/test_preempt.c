/* Interruptions are detected, with rseq and without it; and the processor's counters, as far as
 * every kernel has them. */
#include "fixture.h"
#include "pmu.h"

#include <linux/perf_event.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/time.h>

static const char *program;

static long switches(void) {
  struct rusage usage;
  getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_nvcsw + usage.ru_nivcsw;
}

/* Sleeps until the kernel has switched this thread out. One sleep may not be enough: if the
 * hypervisor holds the processor between starting the timer and schedule(), the timer has
 * expired by then, and nanosleep(2) returns without a switch. */
static void sleep_until_switched(void) {
  const long before = switches();
  do pause_ms(1);
  while (switches() == before);
}

static void sleeping_in_a_section_is_seen(void **state) {
  (void)state;
  if (!split_process.rseq_works) skip();
  uint32_t code = 0;
  for (int i = 0; i < 20; i++) {
    code = split_start(0, "sleeps");
    sleep_until_switched();
    split_end();
  }
  struct total total = total_of(code);
  assert_int_equal(total.count, 20);
  assert_int_equal(total.preempted, 20);
  assert_int_equal(total.exact, 0);
}

static void the_kernel_agrees(void **state) {
  (void)state;
  if (!split_process.rseq_works) skip();
  /* Sections during which getrusage(2) counts a switch must be detected as interrupted; false
   * alarms (interrupts, faults) are rare. */
  uint32_t code = 0, switched = 0;
  for (int i = 0; i < 20000; i++) {
    struct rusage before, after;
    getrusage(RUSAGE_THREAD, &before);
    code = split_start(0, "short");
    for (volatile int j = 0; j < 200; j++) continue;
    split_end();
    getrusage(RUSAGE_THREAD, &after);
    switched += after.ru_nvcsw + after.ru_nivcsw != before.ru_nvcsw + before.ru_nivcsw;
  }
  struct total total = total_of(code);
  assert_int_equal(total.exact + total.preempted, total.count);
  assert_true(total.preempted <= switched + 400);
}

/* The kernel withdraws the announcement of a thread that it interrupts, at any moment: of many
 * sections only some are seen announced, but after the end none is. */
static void nothing_stays_announced(void **state) {
  (void)state;
  if (!split_process.rseq_works) skip();
  uint32_t seen = 0;
  for (int i = 0; i < 1000; i++) {
    split_start(0, "k");
    const bool outer = split_self_here->preempt.area->announced != 0;
    split_start(0, "within");
    split_end();
    seen += outer && split_self_here->preempt.area->announced != 0;
    split_end();
    assert_true(split_self_here->preempt.area->announced == 0);
  }
  assert_true(seen > 0);
}

/* An interrupted section stays so, independent of the sections within it. */
static void an_outer_section_hears_of_it_when_an_inner_one_is_cancelled(void **state) {
  (void)state;
  if (!split_process.rseq_works) skip();
  uint32_t code = 0;
  for (int i = 0; i < 10; i++) {
    split_section outer, inner;
    code = split_begin(&outer, 0, "outer", 5);
    split_begin(&inner, 0, "inner", 5);
    sleep_until_switched();
    split_cancel(&inner);
    split_finish(&outer);
  }
  struct total total = total_of(code);
  assert_int_equal(total.count, 10);
  assert_int_equal(total.preempted, 10);
  assert_int_equal(total.exact, 0);
}

static volatile sig_atomic_t signals_handled;

static void count_signal(int number) {
  (void)number;
  signals_handled++;
}

/* A signal clears the announcement wherever it arrives. Inner sections spend half of their time
 * in begin and end: an interruption there also counts for the outer one. */
static void an_outer_section_sees_interruptions_while_inner_ones_begin_and_end(void **state) {
  (void)state;
  if (!split_process.rseq_works) skip();
  struct sigaction action = {.sa_handler = count_signal}, before;
  sigaction(SIGALRM, &action, &before);
  const struct itimerval often = {{0, 150}, {0, 150}}, never = {{0, 0}, {0, 0}};
  setitimer(ITIMER_REAL, &often, NULL);
  uint32_t code = 0, count = 0, interrupted = 0;
  for (; interrupted < 500; count++) {
    split_section outer, inner;
    code = split_begin(&outer, 0, "outer", 5);
    const sig_atomic_t handled = signals_handled;
    for (int i = 0; i < 50; i++) {
      split_begin(&inner, 0, "inner", 5);
      split_finish(&inner);
    }
    interrupted += signals_handled != handled;
    split_finish(&outer);
  }
  setitimer(ITIMER_REAL, &never, NULL);
  sigaction(SIGALRM, &before, NULL);
  struct total total = total_of(code);
  assert_int_equal(total.count, count);
  assert_true(total.preempted >= interrupted);
  assert_true(total.exact <= count - interrupted);
}

/* Another user of rseq announced its own sequence in between: the result is unknown, and the
 * cycles are not used. */
static void another_user_of_rseq(void **state) {
  (void)state;
  if (!split_process.rseq_works) skip();
  static struct split_announcement other;
  uint32_t code = 0;
  other = split_preempt_announcement;
  for (int i = 0; i < 10; i++) {
    code = split_start(0, "k");
    split_self_here->preempt.area->announced = (uintptr_t)&other;
    split_end();
  }
  struct total total = total_of(code);
  assert_int_equal(total.count, 10);
  assert_int_equal(total.exact, 0);
}

static void the_cpu_clock_is_exact_even_so(void **state) {
  (void)state;
  uint32_t code = split_start(0, "long");
  split_end();
  struct split_mapping *mapping = split_mapping_in_use();
  atomic_store(&mapping->decisions[code].uses_cpu_clock, 1);
  for (int i = 0; i < 5; i++) {
    split_start(0, "long");
    pause_ms(5);
    split_end();
  }
  struct total total = total_of(code);
  assert_int_equal(total.count, 6);
  assert_true(total.exact >= 5);
  /* Five times 5 ms passed, and almost none of it was its own time. */
  assert_true((double)total.elapsed > 25e6 * mapping->cycles_per_ns);
  assert_true(total.cycles < total.elapsed / 4);
}

/* A section whose key is set later begins with code 0: the decision for that code applies to it. */
static void late_keys_are_measured_as_code_0_wants(void **state) {
  (void)state;
  struct split_mapping *mapping = split_mapping_in_use();
  atomic_store(&mapping->decisions[SPLIT_CODE_NONE].uses_cpu_clock, 1);
  for (int i = 0; i < 5; i++) {
    split_start(0, NULL);
    split_note(SPLIT_NOTE_KEY, "late", 4);
    pause_ms(5);
    split_end();
  }
  struct total total = total_of(split_start(0, "late"));
  split_end();
  assert_int_equal(total.count, 5);
  assert_int_equal(total.exact, 5);
  assert_true(total.cycles < total.elapsed / 4);
}

static void software_events_are_read(void **state) {
  (void)state;
  struct split_pmu_event event =
      split_pmu_event_open(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CONTEXT_SWITCHES);
  if (event.descriptor < 0) {
    print_message("skipped: perf_event_open is not allowed here\n");
    skip();
  }
  uint64_t before = 0, after = 0;
  assert_true(split_pmu_event_read(&event, &before));
  for (int i = 0; i < 7; i++) pause_ms(1);
  assert_true(split_pmu_event_read(&event, &after));
  assert_true(after - before >= 7);
  split_pmu_event_close(&event);
  assert_int_equal(event.descriptor, -1);
}

static void without_a_pmu_it_says_so(void **state) {
  (void)state;
  struct split_pmu *pmu = split_pmu_open();
  uint32_t without = atomic_load(&header()->without);
  assert_int_equal((without & SPLIT_WITHOUT_PMU) == 0, pmu != NULL);
  int64_t backend = -1;
  split_get(SPLIT_BACKEND, &backend);
  assert_int_equal(backend, pmu ? SPLIT_BACKEND_PMU : SPLIT_BACKEND_NONE);
  if (!pmu) assert_non_null(strstr(split_problem(), "no PMU and no probe sets"));
  split_pmu_close(pmu);
}

/* The same program with glibc's rseq registration disabled. */
static void without_rseq(void **state) {
  (void)state;
  char command[512];
  snprintf(command, sizeof command, "GLIBC_TUNABLES=glibc.pthread.rseq=0 %s without-rseq", program);
  assert_int_equal(system(command), 0);
}

static int run_without_rseq(void) {
  void *state = NULL;
  if (begin_with_text(&state) != 0) return 2;
  uint32_t code = 0;
  for (int i = 0; i < 1600; i++) {
    code = split_start(0, "k");
    split_end();
  }
  struct total total = total_of(code);
  bool ok = !split_process.rseq_works && total.count == 1600 && total.exact <= 100 &&
            total.exact >= 50 && (atomic_load(&header()->without) & SPLIT_WITHOUT_RSEQ) &&
            strstr(split_problem(), "no rseq");
  for (int i = 0; i < 160; i++) {
    code = split_start(0, "sleeps");
    usleep(50);
    split_end();
  }
  total = total_of(code);
  ok = ok && total.count == 160 && total.exact == 0 && total.preempted == 10;
  remove_folder(&state);
  return ok ? 0 : 1;
}

#define IN(test) cmocka_unit_test_setup_teardown(test, begin_with_text, remove_folder)

int main(int count, char **words) {
  program = words[0];
  if (count == 2) return run_without_rseq();
  const struct CMUnitTest tests[] = {
      IN(sleeping_in_a_section_is_seen),
      IN(the_kernel_agrees),
      IN(nothing_stays_announced),
      IN(an_outer_section_hears_of_it_when_an_inner_one_is_cancelled),
      IN(an_outer_section_sees_interruptions_while_inner_ones_begin_and_end),
      IN(another_user_of_rseq),
      IN(the_cpu_clock_is_exact_even_so),
      IN(late_keys_are_measured_as_code_0_wants),
      cmocka_unit_test(software_events_are_read),
      IN(without_a_pmu_it_says_so),
      IN(without_rseq),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
