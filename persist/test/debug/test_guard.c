/*
 * Wrong programs with the debug library: each is terminated at its error, with a message that names
 * the object and the function.
 */
#include <signal.h>
#include <sys/mman.h>

#include "programs.h"

typedef struct item {
  uint64_t value;
  struct item *next;
} item;
P3L_TYPE(item, item, 1, P3L_POINTERS(item, next));

typedef struct block {
  uint64_t words[400]; /* several cards */
} block;
P3L_PLAIN_TYPE(block, block, 1);

typedef struct blob {
  uint64_t words[100000]; /* pages of its own */
} blob;
P3L_PLAIN_TYPE(blob, blob, 1);

static p3l_store *store;
static p3l_error error;
static uint64_t read_words;

static void must(p3l_code code) {
  if (code == P3L_OK) return;
  fprintf(stderr, "%s\n", error.message);
  _exit(1);
}

static void open_with(p3l_options options) {
  must(p3l_open(program_path, &options, &store, &error));
}
static void begin(void) { must(p3l_begin(store, &error)); }
static void commit(void) { must(p3l_commit(store, &error)); }

/* "first" -> second, "block", "blob". */
static item *make_all(void) {
  open_with((p3l_options){.create = true});
  begin();
  item *first = p3l_new(store, item);
  first->value = 1;
  first->next = p3l_new_near(store, item, first);
  first->next->value = 2;
  must(p3l_set_root(store, "first", first));
  must(p3l_set_root(store, "block", p3l_new(store, block)));
  must(p3l_set_root(store, "blob", p3l_new(store, blob)));
  commit();
  return first;
}

__attribute__((noinline)) static void look(const uint64_t *word) {
  read_words += *(const volatile uint64_t *)word;
}

__attribute__((noinline)) static void the_writer_that_forgot(item *changed) {
  *(volatile uint64_t *)&changed->value = 7;
}

/* ---- wrong programs ---- */

static void forgets_to_report(void) {
  item *first = make_all();
  begin();
  p3l_dirty(first, sizeof(*first));
  first->value = 3;
  the_writer_that_forgot(first->next); /* beside it in the store */
}

static void forgets_in_the_next_run(void) {
  make_all();
  must(p3l_close(store, &error));
  open_with((p3l_options){0});
  item *first = p3l_root(store, "first");
  begin();
  the_writer_that_forgot(P3L_LD(first->next));
}

static void forgets_the_transaction(void) { the_writer_that_forgot(make_all()); }

static void writes_after_the_commit(void) {
  item *first = make_all();
  begin();
  P3L_SET(first->value, 5);
  commit();
  the_writer_that_forgot(first);
}

static void writes_what_it_may_only_read(void) {
  make_all();
  must(p3l_close(store, &error));
  open_with((p3l_options){.read_only = true});
  the_writer_that_forgot(p3l_root(store, "first"));
}

static item *delete_second(void) {
  item *first = make_all(), *second = first->next;
  begin();
  P3L_SET(first->next, NULL);
  p3l_delete(store, second);
  commit();
  return second;
}

static void reads_what_was_deleted(void) { look(&delete_second()->value); }
static void writes_what_was_deleted(void) { the_writer_that_forgot(delete_second()); }
static void reports_what_was_deleted(void) {
  item *second = delete_second();
  begin();
  p3l_dirty(second, sizeof(*second));
}

static void reads_what_was_aborted(void) {
  make_all();
  begin();
  item *given_up = p3l_new(store, item);
  p3l_abort(store);
  look(&given_up->value);
}

static void reads_a_large_one_that_was_deleted(void) {
  make_all();
  blob *gone = p3l_root(store, "blob");
  begin();
  must(p3l_set_root(store, "blob", NULL));
  p3l_delete(store, gone);
  commit();
  look(&gone->words[99999]);
}

static void reads_what_was_evicted(void) {
  item *first = make_all();
  must(p3l_evict(store, 0, &error));
  look(&first->value);
}

static void reads_after_the_close(void) {
  item *first = make_all();
  must(p3l_close(store, &error));
  look(&first->value);
}

static void reads_behind_the_end(void) {
  item *first = make_all();
  look(&first->value + 4096 / sizeof(uint64_t) - 1);
  the_writer_that_forgot(first + 2);
}

static void follows_a_stored_pointer(void) {
  make_all();
  must(p3l_close(store, &error));
  open_with((p3l_options){0});
  item *first = p3l_root(store, "first");
  look(&first->next->value); /* P3L_LD is missing */
}

/* ---- how wrong programs are terminated ---- */

static bool has_addr2line(void) { return system("addr2line --version >/dev/null 2>&1") == 0; }

static void wrong_programs_are_explained(void **state) {
  (void)state;
  static const struct {
    void (*program)(void);
    const char *words[3];
  } programs[] = {
    {forgets_to_report,
     {"writes to byte 0 of the item at page 2, byte 96", "has not reported it",
      "the_writer_that_forgot"}},
    {forgets_in_the_next_run,
     {"writes to byte 0 of the item at page 2, byte 96", "has not reported it",
      "the_writer_that_forgot"}},
    {forgets_the_transaction,
     {"writes to byte 0 of the item at page 2, byte 80", "outside of a transaction",
      "the_writer_that_forgot"}},
    {writes_after_the_commit,
     {"writes to byte 0 of the item", "outside of a transaction", "the_writer_that_forgot"}},
    {writes_what_it_may_only_read,
     {"writes to byte 0 of the item", "open for reading", "the_writer_that_forgot"}},
    {reads_what_was_deleted, {"reads byte 0 of the item", "it was deleted", "look"}},
    {writes_what_was_deleted,
     {"writes to byte 0 of the item", "it was deleted", "the_writer_that_forgot"}},
    {reports_what_was_deleted, {"of the item", "it was deleted", "p3l_will_write"}},
    {reads_what_was_aborted, {"reads byte 0 of the item", "was aborted", "look"}},
    {reads_a_large_one_that_was_deleted, {"reads 0x", "none is", "look"}},
    {reads_what_was_evicted, {"reads 0x", "it was evicted", "look"}},
    {reads_after_the_close, {"reads 0x", "its store is closed", "look"}},
    {reads_behind_the_end,
     {"writes to byte 32 of the item", "has 16 bytes", "the_writer_that_forgot"}},
#if defined(__x86_64__) || defined(__aarch64__)
    {follows_a_stored_pointer,
     {"follows a pointer in its stored form, to page 2, byte 96", "P3L_LD", "look"}},
#endif
  };
  for (size_t at = 0; at < sizeof(programs) / sizeof(programs[0]); at++) {
    char printed[16384];
    make_folder();
    int status = run_wrong(programs[at].program, printed, sizeof(printed));
    remove_folder();
    assert_int_not_equal(status, 0);
#if !defined(__SANITIZE_ADDRESS__)
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
#endif
    for (int word = 0; word < 3; word++) {
      /* For a program without dynamic symbols addr2line finds the names of functions. */
      if (word == 2 && !has_addr2line()) continue;
      if (strstr(printed, programs[at].words[word]) == NULL)
        fail_msg("program %zu does not say \"%s\", but: %s", at, programs[at].words[word], printed);
    }
  }
  if (!has_addr2line()) printf("           no addr2line: names of functions not checked\n");
}

/* The commit detects what page protection cannot: a change in another card of the same object. */
static void other_cards_are_compared(void) {
  make_all();
  block *made = p3l_root(store, "block");
  begin();
  P3L_SET(made->words[0], 1);
  made->words[300] = 2;
  EXPECT(p3l_commit(store, &error) == P3L_MISUSE);
  EXPECT(strstr(error.message, "byte 2400 of the block") != NULL);
  begin();
  P3L_SET(made->words[0], 1);
  P3L_SET(made->words[300], 3);
  commit();
  must(p3l_close(store, &error));
  open_with((p3l_options){.read_only = true});
  made = p3l_root(store, "block");
  EXPECT(made->words[0] == 1 && made->words[300] == 3);
  must(p3l_close(store, &error));
}

static void a_large_object_is_watched_by_cards(void **state) {
  (void)state;
  make_folder();
  run_program(other_cards_are_compared);
  remove_folder();
}

/* Faults at other addresses go to the program's own handler. */
static volatile sig_atomic_t foreign;
static sigjmp_buf foreign_back;
static void foreign_handler(int number) {
  foreign = number;
  siglongjmp(foreign_back, 1);
}

static void has_a_handler_of_its_own(void) {
  signal(SIGSEGV, foreign_handler);
  make_all();
  volatile int *closed = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  EXPECT(closed != MAP_FAILED);
  if (sigsetjmp(foreign_back, 1) == 0) *closed = 1;
  EXPECT(foreign == SIGSEGV);
  must(p3l_close(store, &error));
}

static void other_faults_go_to_the_programs_handler(void **state) {
  (void)state;
  make_folder();
  run_program(has_a_handler_of_its_own);
  remove_folder();
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(wrong_programs_are_explained),
      cmocka_unit_test(a_large_object_is_watched_by_cards),
      cmocka_unit_test(other_faults_go_to_the_programs_handler),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
