/*
 * The background on this kernel: a thread works on a long kind in SCHED_IDLE, and gets its class
 * back at the section's end, however that ends. Skipped with a message if a thread could not return
 * (RLIMIT_NICE below 20 and no CAP_SYS_NICE).
 */
#include "background.h"
#include "release.h"
#include "slice_fixture.h"
#include "split_admission.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>

static int begin_in_front(void **state) {
  if (begin_sliced(state) != 0) return -1;
  decide_background(kind_of("long"), true);
  return 0;
}

/* Beside other work a thread gets next to no time in the background. A process in the analyzer's
 * place keeps placement on however long a test takes there. */
static pid_t beating = 0;

static int begin_beside_an_analyzer(void **state) {
  if (begin_in_front(state) != 0) return -1;
  beating = fork();
  if (beating == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;) {
      heartbeat();
      pause_ms(20);
    }
  }
  return beating > 0 ? 0 : -1;
}

static int end_with_the_analyzer(void **state) {
  kill(beating, SIGKILL);
  waitpid(beating, NULL, 0);
  return end_sliced(state);
}

static uint32_t lacks(void) {
  struct split_attributes own;
  return split_attributes_of(0, &own) ? split_background_lacks(&own) : ~0u;
}

#define NEEDS_BACKGROUND()                                                \
  do {                                                                    \
    NEEDS_SLICES();                                                       \
    if (lacks() != 0) {                                                   \
      print_message("skipped: no right to return from the background\n"); \
      skip();                                                             \
    }                                                                     \
  } while (0)

static void is_in_the_background(void) { assert_int_equal(policy_of(0), SCHED_IDLE); }

/* Until its next request is known, the thread is treated as one of a short kind. */
static void is_as_short(void) {
  assert_int_equal(policy_of(0), SCHED_OTHER);
  assert_int_equal(slice_of(0), MS / 10);
}

static void is_as_it_was(void) {
  assert_int_equal(policy_of(0), SCHED_OTHER);
  assert_int_equal(slice_of(0), own);
}

static void a_long_section_is_in_the_background(void **state) {
  (void)state;
  NEEDS_BACKGROUND();
  split_start(0, "long");
  is_in_the_background();
  split_end();
  is_as_short();
  split_start(0, "short");
  is_as_short();
  split_end();
  assert_int_equal(atomic_load(&header()->slices), 2); /* one call at its start, one at its end */
  split_start(0, "any");
  is_as_it_was();
  split_end();
}

/* Until it is its turn it must notice those that wait for it; these still wait once it runs. */
static void a_request_that_is_held_back_waits_in_front(void **state) {
  (void)state;
  NEEDS_BACKGROUND();
  const uint32_t code = kind_of("long");
  const struct split_admission_request request = {.code = code, .limit_ns = UINT64_C(1) << 40};
  split_admission other = {0}, own = {0};
  atomic_store(&split_mapping_in_use()->decisions[code].admit, 1);
  atomic_store(&header()->places, 1);
  heartbeat();
  split_admission_ask(&other, &request);
  for (int round = 0; round < 3; round++) {
    split_start(0, "long");
    is_in_the_background();
    assert_int_equal(split_admission_ask(&own, &request), SPLIT_ADMISSION_HELD);
    is_as_short();
    if (round == 1) split_admission_insist(&own);
    if (round == 2) {
      split_admission_leave(&other, NULL, 0);
      assert_int_equal(split_admission_again(&own, 0), SPLIT_ADMISSION_ADMITTED);
      is_in_the_background();
    } else {
      is_as_short();
    }
    split_admission_leave(&own, NULL, 0);
    split_end();
    is_as_short();
  }
}

static void only_the_outermost_section_decides(void **state) {
  (void)state;
  NEEDS_BACKGROUND();
  split_start(0, "short");
  split_start(0, "long");
  is_as_short();
  split_end();
  split_end();
  split_start(0, "long");
  split_start(0, "short");
  is_in_the_background();
  split_end();
  is_in_the_background();
  split_end();
  is_as_short();
}

static void a_cancelled_section_and_a_late_key_return_too(void **state) {
  (void)state;
  NEEDS_BACKGROUND();
  split_section section;
  split_begin(&section, 0, "long", 4);
  is_in_the_background();
  split_cancel(&section);
  is_as_short();
  split_begin(&section, 0, NULL, 0);
  split_note_section(&section, SPLIT_NOTE_KEY, "long", 4);
  is_in_the_background();
  split_finish(&section);
  is_as_short();
}

static void *finish_elsewhere(void *section) {
  split_finish(section);
  return NULL;
}

static void a_section_that_another_thread_ends_returns(void **state) {
  (void)state;
  NEEDS_BACKGROUND();
  split_section section;
  pthread_t thread;
  split_begin(&section, 0, "long", 4);
  pthread_create(&thread, NULL, finish_elsewhere, &section);
  pthread_join(thread, NULL);
  is_as_it_was();
}

static void batch_and_nice_come_back(void **state) {
  (void)state;
  NEEDS_BACKGROUND();
  struct attributes attributes = attributes_of(0);
  attributes.size = sizeof attributes;
  attributes.policy = SCHED_BATCH;
  attributes.nice += 2;
  assert_int_equal(syscall(SYS_sched_setattr, 0, &attributes, 0), 0);
  split_start(0, "long");
  is_in_the_background();
  split_end();
  assert_int_equal(policy_of(0), SCHED_BATCH);
  split_start(0, "long");
  split_release_all(split_mapping_in_use());
  assert_int_equal(policy_of(0), SCHED_BATCH);
  assert_int_equal(attributes_of(0).nice, attributes.nice);
  split_end();
  attributes.policy = SCHED_OTHER;
  attributes.nice -= 2;
  assert_int_equal(syscall(SYS_sched_setattr, 0, &attributes, 0), 0);
}

static void *in_a_thread(void *argument) {
  split_start(0, argument);
  const uint64_t policy = policy_of(0);
  split_end();
  return (void *)(uintptr_t)policy;
}

static void a_child_and_a_thread_are_not_in_the_background(void **state) {
  (void)state;
  NEEDS_BACKGROUND();
  bool stayed = false;
  /* On a busy machine this takes so long that the heartbeat is stale, and the section in front again. */
  for (int tries = 0; tries < 20 && !stayed; tries++) {
    int status;
    pthread_t thread;
    void *policy;
    heartbeat();
    split_start(0, "long");
    pid_t child = fork();
    if (child == 0) _exit(policy_of(0) == SCHED_OTHER && slice_of(0) == own ? 0 : 1);
    waitpid(child, &status, 0);
    assert_int_equal(status, 0);
    pthread_create(&thread, NULL, in_a_thread, "short");
    pthread_join(thread, &policy);
    assert_int_equal((uintptr_t)policy, SCHED_OTHER);
    stayed = policy_of(0) == SCHED_IDLE;
    split_end();
  }
  assert_true(stayed);
}

static void who_helps_is_in_the_background_too(void **state) {
  (void)state;
  NEEDS_BACKGROUND();
  assert_true(split_help("long", 4));
  is_in_the_background();
  split_help_ends();
  is_as_it_was();
}

/*
 * Another process, in the analyzer's place, is killed while this thread is in a section, this many
 * times; HM_KILLS=200 for the whole test.
 */
static void the_analyzer_is_killed(void **state) {
  (void)state;
  NEEDS_BACKGROUND();
  const char *asked = getenv("HM_KILLS");
  const int kills = asked ? atoi(asked) : 3;
  for (int i = 0; i < kills; i++) {
    pid_t analyzer = fork();
    if (analyzer == 0) {
      for (;;) {
        heartbeat();
        pause_ms(5);
      }
    }
    do {
      pause_ms(1 + i % 7);
      split_start(0, "short");
      split_end();
    } while (slice_of(0) != MS / 10);
    split_start(0, "long");
    kill(analyzer, SIGKILL);
    waitpid(analyzer, NULL, 0);
    assert_true(becomes(policy_of, 0, SCHED_OTHER));
    assert_true(becomes(slice_of, 0, own));
    split_end();
    is_as_it_was();
    assert_int_equal(sliced_threads(), 0);
  }
}

/*
 * In a child: a thread that dropped its rights gets its slice, and stays in the foreground; the
 * application records why.
 */
static void who_could_not_return_stays_in_front(void **state) {
  (void)state;
  NEEDS_BACKGROUND();
  int status;
  pid_t child = fork();
  if (child == 0) {
    const struct rlimit none = {0, 0};
    if (setrlimit(RLIMIT_NICE, &none) != 0) _exit(2);
    if (getuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0)) _exit(3);
    if (lacks() != SPLIT_WITHOUT_BACKGROUND_RIGHTS) _exit(4);
    heartbeat();
    split_start(0, "long");
    if (policy_of(0) != SCHED_OTHER || slice_of(0) != 100 * MS) _exit(5);
    split_end();
    if (slice_of(0) != MS / 10) _exit(6);
    if (!(atomic_load(&header()->without) & SPLIT_WITHOUT_BACKGROUND_RIGHTS)) _exit(7);
    _exit(0);
  }
  waitpid(child, &status, 0);
  assert_int_equal(status, 0);
  split_start(0, "long"); /* this thread has the right, and records it */
  is_in_the_background();
  split_end();
  assert_int_equal(atomic_load(&header()->without) & SPLIT_WITHOUT_BACKGROUND_RIGHTS, 0);
}

#define IN(test) \
  cmocka_unit_test_setup_teardown(test, begin_beside_an_analyzer, end_with_the_analyzer)

int main(void) {
  const struct CMUnitTest tests[] = {
      IN(a_long_section_is_in_the_background),
      IN(a_request_that_is_held_back_waits_in_front),
      IN(only_the_outermost_section_decides),
      IN(a_cancelled_section_and_a_late_key_return_too),
      IN(a_section_that_another_thread_ends_returns),
      IN(batch_and_nice_come_back),
      IN(a_child_and_a_thread_are_not_in_the_background),
      IN(who_helps_is_in_the_background_too),
      cmocka_unit_test_setup_teardown(the_analyzer_is_killed, begin_in_front, end_sliced),
      IN(who_could_not_return_stays_in_front),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
