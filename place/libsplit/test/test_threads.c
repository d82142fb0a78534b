/* Many threads and processes at once: all their sections are counted. */
#include "fixture.h"

#include <sys/mman.h>

enum { THREADS = 4, SECTIONS = 20000 };

static void *work(void *unused) {
  (void)unused;
  for (int i = 0; i < SECTIONS; i++) {
    split_start(0, "same");
    split_end();
  }
  return NULL;
}

/* All on one CPU and in one record: each section is counted, or counted as contended. */
static void one_record(void **state) {
  (void)state;
  cpu_set_t before, one;
  sched_getaffinity(0, sizeof before, &before);
  CPU_ZERO(&one);
  CPU_SET((unsigned)sched_getcpu(), &one);
  sched_setaffinity(0, sizeof one, &one);
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, work, NULL);
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  sched_setaffinity(0, sizeof before, &before);
  uint32_t code = split_kind_of_key(split_mapping_in_use(), "same", 4);
  struct total total = total_of(code);
  uint64_t contended = atomic_load(&header()->contended);
  assert_int_equal(total.count + contended, THREADS * SECTIONS);
  /*
   * Threads without other work are often preempted while writing a record, and keep it until they
   * run again.
   */
  assert_true(total.count > 0);
  uint64_t in_buckets = 0;
  for (uint32_t cpu = 0; cpu < split_mapping_in_use()->cpu_count; cpu++) {
    const struct split_record *record = split_record_of(split_mapping_in_use(), cpu, code);
    assert_int_equal(record->sequence % 2, 0);
    assert_int_equal(record->owner, 0);
    for (int i = 0; i < SPLIT_BUCKETS; i++) in_buckets += record->histogram[i];
  }
  assert_int_equal(in_buckets, total.count);
}

static void threads_come_and_go(void **state) {
  (void)state;
  for (int round = 0; round < 5; round++) {
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, work, NULL);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  }
  uint32_t code = split_kind_of_key(split_mapping_in_use(), "same", 4);
  assert_int_equal(total_of(code).count + atomic_load(&header()->contended),
                   5 * THREADS * SECTIONS);
}

static void *leave_open(void *unused) {
  (void)unused;
  split_start(0, "open");
  split_start(0, "open");
  return NULL;
}

static void sections_that_never_end_are_dropped(void **state) {
  (void)state;
  pthread_t thread;
  pthread_create(&thread, NULL, leave_open, NULL);
  pthread_join(thread, NULL);
  assert_int_equal(atomic_load(&header()->dropped), 2);
  pthread_create(&thread, NULL, work, NULL); /* may get the same state */
  pthread_join(thread, NULL);
  uint32_t code = split_kind_of_key(split_mapping_in_use(), "same", 4);
  assert_int_equal(total_of(code).count + atomic_load(&header()->contended), SECTIONS);
}

/* Like a forking server: the parent starts the library, the children work. */
static void children_count_into_the_same_segment(void **state) {
  (void)state;
  split_section inherited;
  split_begin(&inherited, 0, "parent", 6);
  pid_t children[3];
  for (int i = 0; i < 3; i++) {
    children[i] = fork();
    if (children[i] == 0) {
      split_end();
      split_finish(&inherited); /* the parent's section */
      work(NULL);
      _exit(split_self_here->tid == (uint32_t)gettid() ? 0 : 1);
    }
  }
  for (int i = 0; i < 3; i++) {
    int status;
    waitpid(children[i], &status, 0);
    assert_int_equal(status, 0);
  }
  split_finish(&inherited);
  struct split_mapping *mapping = split_mapping_in_use();
  assert_int_equal(
      total_of(split_kind_of_key(mapping, "same", 4)).count + atomic_load(&header()->contended),
      3 * SECTIONS);
  assert_int_equal(total_of(split_kind_of_key(mapping, "parent", 6)).count, 1);
  assert_int_equal(atomic_load(&header()->dropped), 0);
}

/* A thread that writes a record while split_close() replaces the segment by empty memory writes into that memory. The record's lock
 * is free there, so a second thread may write at the same time. No thread reads this memory. The sanitizer still checks locks. */
#ifdef __SANITIZE_THREAD__
void AnnotateIgnoreWritesBegin(const char *file, int line);
void AnnotateIgnoreWritesEnd(const char *file, int line);
#else
#define AnnotateIgnoreWritesBegin(file, line) ((void)0)
#define AnnotateIgnoreWritesEnd(file, line) ((void)0)
#endif

static void *work_while_closing(void *unused) {
  AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
  work(unused);
  AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
  return NULL;
}

static void *close_and_begin(void *unused) {
  (void)unused;
  for (int i = 0; i < 20; i++) {
    split_close();
    split_init_named("test", TEST_APP, 0xb2, SPLIT_KEY_TEXT);
  }
  return NULL;
}

/* The library ends and starts again while threads are in sections: no thread crashes. */
static void closing_under_load(void **state) {
  (void)state;
  pthread_t threads[THREADS], closer;
  for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, work_while_closing, NULL);
  pthread_create(&closer, NULL, close_and_begin, NULL);
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  pthread_join(closer, NULL);
  assert_non_null(split_mapping_in_use());
  split_start(0, "after");
  split_end();
  uint32_t code = split_kind_of_key(split_mapping_in_use(), "after", 5);
  assert_int_equal(total_of(code).count, 1);
}

static void forking_under_load(void **state) {
  (void)state;
  pthread_t threads[2];
  for (int i = 0; i < 2; i++) pthread_create(&threads[i], NULL, work, NULL);
  for (int i = 0; i < 20; i++) {
    pid_t child = fork();
    if (child == 0) {
      split_start(0, "child");
      split_end();
      _exit(0);
    }
    int status;
    waitpid(child, &status, 0);
    assert_int_equal(status, 0);
  }
  for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
  uint32_t code = split_kind_of_key(split_mapping_in_use(), "child", 5);
  assert_int_equal(total_of(code).count, 20);
}

#define IN(test) cmocka_unit_test_setup_teardown(test, begin_with_text, remove_folder)

int main(void) {
  const struct CMUnitTest tests[] = {
      IN(one_record),
      IN(threads_come_and_go),
      IN(sections_that_never_end_are_dropped),
      IN(children_count_into_the_same_segment),
      IN(closing_under_load),
      IN(forking_under_load),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
