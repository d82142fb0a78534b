/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Tests the follower on programs whose stretches are known (target.c), and the state of the followed
 * process after the follower is killed or stopped.
 *
 *   test_follow FOLLOWER TARGET
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static const char *follower_path, *target_path;
static char folder[] = "/tmp/hardmeter-ghost-test-XXXXXX", report_path[64], messages_path[64];

/* --- Processes --------------------------------------------------------------------- */

static uint64_t rounds_at;
static pid_t target;

static void start_target(const char *what) {
  int out[2];
  assert_int_equal(pipe(out), 0);
  target = fork();
  if (target == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that fails leaves none behind */
    dup2(out[1], 1);
    close(out[0]);
    execl(target_path, target_path, what, (char *)NULL);
    _exit(127);
  }
  close(out[1]);
  char line[32] = {0};
  assert_true(read(out[0], line, sizeof line - 1) > 0);
  close(out[0]);
  rounds_at = strtoull(line, NULL, 16);
}

static void end_target(void) {
  int status;
  assert_int_equal(kill(target, SIGKILL), 0);
  assert_int_equal(waitpid(target, &status, 0), target);
  assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL); /* it was running until now */
}

/* It ends after `seconds`, or once `enough` stretches were the same. */
static pid_t start_follower_until(const char *seconds, const char *enough) {
  pid_t follower = fork();
  if (follower != 0) return follower;
  char pid[16];
  snprintf(pid, sizeof pid, "%d", (int)target);
  int messages = open(messages_path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  dup2(messages, 2);
  /* Two lanes, even where there is one processor; children are followed, too. */
  execl(follower_path, follower_path, "-p", pid, "--descendants", "--lanes", "2", "-s", seconds,
        "--enough", enough, "--share", "30", "--report", report_path, (char *)NULL);
  _exit(127);
}

static pid_t start_follower(const char *seconds) {
  return start_follower_until(seconds, "1000000000");
}

static int status_of(pid_t process) {
  int status;
  while (waitpid(process, &status, 0) < 0) assert_int_equal(errno, EINTR);
  assert_true(WIFEXITED(status));
  return WEXITSTATUS(status);
}

static void text_of(const char *path, char *into, size_t size) {
  int file = open(path, O_RDONLY);
  ssize_t length = file < 0 ? 0 : read(file, into, size - 1);
  into[length < 0 ? 0 : length] = 0;
  if (file >= 0) close(file);
}

/* The number behind "name": in the report. */
static uint64_t reported(const char *name) {
  static char text[4096];
  char key[64];
  text_of(report_path, text, sizeof text);
  snprintf(key, sizeof key, "\"%s\":", name);
  const char *at = strstr(text, key);
  if (at == NULL) fail_msg("no %s in the report: %s", name, text);
  return strtoull(at + strlen(key), NULL, 10);
}

/* However busy the machine is, the follower reaches `enough` stretches. */
static void follow(const char *what, const char *enough) {
  unlink(report_path);
  start_target(what);
  assert_int_equal(status_of(start_follower_until("300", enough)), 0);
}

static uint64_t rounds(void) {
  uint64_t value = 0;
  struct iovec local = {&value, 8}, remote = {(void *)rounds_at, 8};
  assert_int_equal(process_vm_readv(target, &local, 1, &remote, 1, 0), 8);
  return value;
}

static long tracer(void) {
  char path[40], text[2048];
  snprintf(path, sizeof path, "/proc/%d/status", (int)target);
  text_of(path, text, sizeof text);
  const char *at = strstr(text, "TracerPid:");
  assert_non_null(at);
  return strtol(at + 10, NULL, 10);
}

static void sleep_us(long microseconds) {
  struct timespec pause = {microseconds / 1000000, microseconds % 1000000 * 1000};
  nanosleep(&pause, NULL);
}

/* Waits until the target runs without a tracer, and its count of rounds grows. */
static void assert_runs_on(void) {
  for (int tries = 0; tries < 60000; tries++) {
    if (tracer() == 0) {
      uint64_t before = rounds();
      sleep_us(2000);
      if (rounds() > before) return;
    }
    sleep_us(1000);
  }
  fail_msg("the target does not run on: tracer %ld", tracer());
}

/* Finds a descendant of the follower by its name. */
static pid_t descendant(pid_t ancestor, const char *name) {
  DIR *all = opendir("/proc");
  pid_t found = 0;
  for (struct dirent *entry; found == 0 && (entry = readdir(all)) != NULL;) {
    char path[300], text[512];
    pid_t candidate = (pid_t)strtol(entry->d_name, NULL, 10);
    if (candidate <= 0) continue;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)candidate);
    text_of(path, text, sizeof text);
    char *open_ = strchr(text, '('), *close_ = strrchr(text, ')');
    if (open_ == NULL || close_ == NULL) continue;
    *close_ = 0;
    if (strcmp(open_ + 1, name) != 0) continue;
    pid_t parent = (pid_t)strtol(close_ + 4, NULL, 10);
    snprintf(path, sizeof path, "/proc/%d/stat", (int)parent);
    text_of(path, text, sizeof text);
    close_ = strrchr(text, ')');
    if (parent == ancestor || (close_ != NULL && strtol(close_ + 4, NULL, 10) == ancestor))
      found = candidate;
  }
  closedir(all);
  return found;
}

/* --- What is counted ------------------------------------------------------------------ */

static void assert_all_same(void) {
  if (reported("same") <= 50) {
    static char report[4096], messages[4096];
    text_of(report_path, report, sizeof report);
    text_of(messages_path, messages, sizeof messages);
    fail_msg("%s\n%s", report, messages);
  }
  assert_int_equal(reported("other_call"), 0);
  assert_int_equal(reported("died"), 0);
  assert_int_equal(reported("unsupported"), 0);
}

/* The walk has 3,072 lines in a circle: more than any L1D holds, so that with LRU each access
 * misses it; all lines are in L2. A stretch is 4 x 3,072 + 5 instructions: the loop, two moves
 * before it, a jump, a move and the call. */
static void a_long_walk_misses_l1_at_each_line(void **state) {
  (void)state;
  follow("walk-long", "400");
  assert_all_same();
  assert_int_equal(reported("other_registers"), 0);
  uint64_t stretches = reported("loads") / 3072;
  assert_true(stretches > 0);
  assert_int_equal(reported("loads"), stretches * 3072);
  assert_int_equal(reported("counted_instructions"), stretches * (4 * 3072 + 5));
  assert_int_equal(reported("stores"), 0);
  assert_int_equal(reported("l1d_misses"), stretches * 3072);
  assert_int_equal(reported("l2_misses"), 0);
  end_target();
}

static void a_short_walk_hits(void **state) {
  (void)state;
  follow("walk-short", "400");
  assert_all_same();
  assert_int_equal(reported("l1d_misses"), 0);
  assert_int_equal(reported("l2_misses"), 0);
  end_target();
}

static void avx2_and_fma_are_emulated(void **state) {
  (void)state;
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) skip();
  follow("avx2", "400");
  assert_all_same();
  assert_int_equal(reported("native_instructions"), 0);
  end_target();
}

static void avx512_is_run_natively(void **state) {
  (void)state;
  if (!__builtin_cpu_supports("avx512bw")) skip();
  follow("avx512", "400");
  assert_all_same();
  assert_true(reported("native_instructions") > 0);
  end_target();
}

/* --- Pages that no earlier stretch has met ------------------------------------------------ */

/* A copy that is made after the stretch began has the next round's value, and the stretch ends with
 * another argument. The first stretches of a window, and some on a busy machine, may be lost. */
static void new_pages_are_copied_while_the_target_stands(void **state) {
  (void)state;
  if (prctl(59 /* PR_SET_SYSCALL_USER_DISPATCH */, 0, 0, 0, 0) != 0) skip(); /* no scout here */
  follow("new-pages", "400");
  assert_int_equal(reported("other_call") + reported("died"), 0);
  assert_true(reported("other_registers") <
              reported("same")); /* without a scout six times as many */
  end_target();
}

/* The scout executes code of the target: it must not have more rights than it needs. */
static void the_scout_has_given_up_its_rights(void **state) {
  (void)state;
  if (prctl(59 /* PR_SET_SYSCALL_USER_DISPATCH */, 0, 0, 0, 0) != 0) skip(); /* no scout here */
  start_target("new-pages");
  pid_t follower = start_follower("300");
  char path[64], text[4096] = "";
  for (int tries = 0; tries < 60000 && strstr(text, "Seccomp:\t2") == NULL; tries++) {
    sleep_us(1000);
    pid_t watchdog = descendant(follower, "ghost-watchdog");
    pid_t scout = watchdog == 0 ? 0 : descendant(watchdog, "ghost-scout");
    if (scout == 0) continue;
    snprintf(path, sizeof path, "/proc/%d/status", (int)scout);
    text_of(path, text, sizeof text);
  }
  assert_non_null(strstr(text, "Seccomp:\t2")); /* a filter */
  assert_non_null(strstr(text, "NoNewPrivs:\t1"));
  kill(follower, SIGTERM);
  status_of(follower);
  end_target();
}

/* --- Two processes at once -------------------------------------------------------------- */

/* Each stretch has one access to the word: at most one miss each, and none where the lines differ.
 * On a busy machine the two may never run at the same time: then the test tries again. */
static void assert_shared(const char *what) {
  uint64_t misses = 0;
  for (int tries = 0; tries < 10 && misses == 0; tries++) {
    follow(what, "800");
    assert_all_same();
    misses = reported("coherence_misses");
    assert_true(misses <= reported("kept"));
    assert_int_equal(misses > 0, reported("invalidations") > 0);
    end_target();
  }
  assert_true(misses > 0);
}

static void one_word_goes_to_and_fro(void **state) {
  (void)state;
  assert_shared("one-word");
}

static void two_words_of_a_line_go_to_and_fro(void **state) {
  (void)state;
  assert_shared("one-line");
}

static void words_of_two_lines_stay(void **state) {
  (void)state;
  follow("two-lines", "800");
  assert_all_same();
  assert_int_equal(reported("coherence_misses"), 0);
  assert_int_equal(reported("invalidations"), 0);
  end_target();
}

/* --- What is left alone ------------------------------------------------------------------ */

/* The target ends with status 3 when one of its bytes changes; end_target checks that it did
 * not. */
static void memory_stays_as_it_is(void **state) {
  (void)state;
  follow("checksum", "400");
  assert_true(reported("windows") > 0);
  assert_runs_on();
  end_target();
}

static void a_killed_follower_leaves_the_target_running(void **state) {
  (void)state;
  start_target("checksum");
  srand(1);
  for (int round = 0; round < 25; round++) {
    pid_t follower = start_follower("30");
    sleep_us(20000 + rand() % 80000);
    kill(follower, SIGKILL);
    assert_int_equal(waitpid(follower, NULL, 0), follower);
    assert_runs_on();
  }
  end_target();
}

static void a_stopped_stopper_is_replaced(void **state) {
  (void)state;
  unlink(report_path);
  start_target("checksum");
  /* It ends with its stretches, not with its time: it has to go on however long the stops take. */
  pid_t follower = start_follower_until("300", "1000");
  for (int tries = 0; tries < 60000 && tracer() == 0; tries++) sleep_us(1000);
  int stopped = 0;
  for (int round = 0; round < 8; round++) {
    pid_t stopper = descendant(follower, "ghost-stopper");
    if (stopper > 0 && kill(stopper, SIGSTOP) == 0) stopped++;
    for (int tries = 0; tries < 60000 && stopper > 0 && kill(stopper, 0) == 0; tries++)
      sleep_us(1000);
    assert_true(stopper <= 0 ||
                (kill(stopper, 0) != 0 && errno == ESRCH)); /* the watchdog ended it */
    sleep_us(rand() % 60000);
  }
  assert_true(stopped > 0);
  assert_int_equal(status_of(follower), 0);
  assert_runs_on();
  assert_true(reported("same") > 0); /* it continued with new ones */
  end_target();
}

static void a_killed_watchdog_takes_the_stopper_along(void **state) {
  (void)state;
  start_target("checksum");
  pid_t follower = start_follower("300"), watchdog = 0;
  for (int tries = 0; tries < 60000 && watchdog == 0; tries++) {
    sleep_us(1000);
    watchdog = descendant(follower, "ghost-watchdog");
  }
  assert_true(watchdog > 0);
  assert_int_equal(kill(watchdog, SIGKILL), 0);
  status_of(follower); /* it ends without help */
  assert_runs_on();
  end_target();
}

/* Long before its time is up. */
static void the_follower_ends_with_its_last_process(void **state) {
  (void)state;
  unlink(report_path);
  start_target("checksum");
  pid_t follower = start_follower("3600");
  for (int tries = 0; tries < 60000 && tracer() == 0; tries++) sleep_us(1000);
  end_target();
  status_of(follower);
  assert_true(reported("windows") > 0);
}

static void a_traced_process_is_refused(void **state) {
  (void)state;
  start_target("checksum");
  assert_int_equal(ptrace(PTRACE_SEIZE, target, 0, 0), 0);
  assert_int_equal(status_of(start_follower("60")), 1); /* it is refused when it first runs */
  char text[2048];
  text_of(messages_path, text, sizeof text);
  assert_non_null(strstr(text, "traces it"));
  assert_non_null(strstr(text, "remedy: detach"));
  end_target();
}

static int make_folder(void **state) {
  (void)state;
  if (mkdtemp(folder) == NULL) return -1;
  snprintf(report_path, sizeof report_path, "%s/report", folder);
  snprintf(messages_path, sizeof messages_path, "%s/messages", folder);
  return 0;
}

static int remove_folder(void **state) {
  (void)state;
  unlink(report_path);
  unlink(messages_path);
  return rmdir(folder);
}

/* Returns 0 if a process may trace another one that is not its child, as the follower does;
 * otherwise the error. */
static int refusal_to_trace(void) {
  int status;
  pid_t traced = fork();
  if (traced == 0)
    for (;;) pause();
  pid_t tracer = fork();
  if (tracer == 0) _exit(ptrace(PTRACE_SEIZE, traced, 0, 0) == 0 ? 0 : errno);
  int ended = waitpid(tracer, &status, 0) == tracer && WIFEXITED(status);
  kill(traced, SIGKILL);
  waitpid(traced, NULL, 0);
  return ended ? WEXITSTATUS(status) : ECHILD;
}

int main(int count, char **arguments) {
  if (count != 3) return 2;
  follower_path = arguments[1];
  target_path = arguments[2];
  int refusal = refusal_to_trace();
  if (refusal == EPERM || refusal == EACCES) {
    printf("skipped: processes may not be traced here: %s\n", strerror(refusal));
    return 0;
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_long_walk_misses_l1_at_each_line),
      cmocka_unit_test(a_short_walk_hits),
      cmocka_unit_test(avx2_and_fma_are_emulated),
      cmocka_unit_test(avx512_is_run_natively),
      cmocka_unit_test(new_pages_are_copied_while_the_target_stands),
      cmocka_unit_test(the_scout_has_given_up_its_rights),
      cmocka_unit_test(one_word_goes_to_and_fro),
      cmocka_unit_test(two_words_of_a_line_go_to_and_fro),
      cmocka_unit_test(words_of_two_lines_stay),
      cmocka_unit_test(memory_stays_as_it_is),
      cmocka_unit_test(a_killed_follower_leaves_the_target_running),
      cmocka_unit_test(a_stopped_stopper_is_replaced),
      cmocka_unit_test(a_killed_watchdog_takes_the_stopper_along),
      cmocka_unit_test(the_follower_ends_with_its_last_process),
      cmocka_unit_test(a_traced_process_is_refused),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
