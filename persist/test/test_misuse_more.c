/*
 * More wrong programs: of objects that are not described, unions, several stores and threads, pins,
 * scopes, files that are no stores. test_misuse.c has the rules.
 */
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>

#include "misuse.h"

/* ---- pointers that are not described ---- */

typedef struct careless {
  uint64_t value;
  struct item *forgotten;
} careless;
P3L_PLAIN_TYPE(careless, careless, 1);

static careless *make_careless(void *pointer) {
  three();
  begin();
  careless *made = p3l_new(store, careless);
  made->forgotten = pointer;
  must(p3l_set_root(store, "careless", made));
  return made;
}
static void a_pointer_that_is_not_described(void) {
  careless *made = make_careless(NULL);
  made->forgotten = p3l_root(store, "first");
  commit();
}
static void a_pointer_that_is_not_described_set_later(void) {
  careless *made = make_careless(NULL);
  commit();
  begin();
  P3L_SET(made->forgotten, ((item *)p3l_root(store, "first"))->next);
  commit();
}
static void an_integer_that_is_an_address(void) {
  three();
  begin();
  item *first = p3l_root(store, "first");
  P3L_SET(first->value, (uint64_t)(uintptr_t)first->next);
  commit();
}
static void a_number_that_looks_like_a_surrogate(void) {
  item *first = three();
  begin();
  P3L_SET(first->value, (uint64_t)(uintptr_t)p3l_surrogate(first->next));
  commit();
  reopen();
  first = p3l_root(store, "first");
  bool same = first->value == (uint64_t)(uintptr_t)p3l_surrogate(P3L_LD(first->next));
  fprintf(stderr, same ? "right\n" : "wrong\n");
}

/* ---- unions ---- */

typedef struct either {
  uint64_t tag; /* 0: number, 1: pointer */
  union {
    int64_t number;
    struct item *to;
  } is;
} either;
static uint32_t live(const void *object, size_t element) {
  return (uint32_t)((const either *)object)[element].tag;
}
P3L_TYPE_UNIONS(either, either, 1, NULL,
                P3L_UNIONS(P3L_UNION(either, is, live, P3L_PLAIN_ARM, P3L_ARM(either, is, is.to))),
                P3L_NO_POINTERS);

static either *make_either(void) {
  three();
  begin();
  either *made = p3l_new(store, either);
  made->tag = 1;
  made->is.to = p3l_root(store, "first");
  must(p3l_set_root(store, "either", made));
  commit();
  return made;
}
static void an_arm_that_is_not_there(void) {
  either *made = make_either();
  begin();
  P3L_SET(made->tag, 2);
  commit();
}
static void a_tag_changed_without_a_report(void) {
  either *made = make_either();
  begin();
  made->tag = 0;
  commit();
}
static void a_number_under_the_tag_of_a_pointer(void) {
  either *made = make_either();
  begin();
  P3L_SET(made->is.number, 1234);
  commit();
}
/* The tag alone: the word is now the number that the pointer's address is in this run. */
static void a_pointer_that_becomes_a_number(void) {
  either *made = make_either();
  begin();
  P3L_SET(made->tag, 0);
  int64_t number = made->is.number;
  commit();
  reopen();
  made = p3l_root(store, "either");
  fprintf(stderr, made->is.number == number ? "right\n" : "wrong\n");
}

/* ---- types ---- */

static const p3l_field no_pointers[] = {{NULL, 0, 0}};
static void a_type_registered_in_two_ways(void) {
  static const p3l_type other = {"item", 1, 64, no_pointers, NULL};
  p3l_register_type(&other);
  three();
}
static void a_type_without_a_name(void) {
  static const p3l_type other = {"", 1, 64, no_pointers, NULL};
  p3l_register_type(&other);
  three();
}
static void a_pointer_behind_the_end_of_its_type(void) {
  static const p3l_field behind[] = {{"next", 64, 1}, {NULL, 0, 0}};
  static const p3l_type other = {"short", 1, 64, behind, NULL};
  p3l_register_type(&other);
  three();
}
static void a_pointer_that_is_not_aligned(void) {
  static const p3l_field askew[] = {{"next", 4, 1}, {NULL, 0, 0}};
  static const p3l_type other = {"askew", 1, 64, askew, NULL};
  p3l_register_type(&other);
  three();
}
static void an_object_of_a_type_of_no_bytes(void) {
  static const p3l_type other = {"nothing", 1, 0, no_pointers, NULL};
  three();
  begin();
  if (p3l_allocate(store, &other, 1, NULL) == NULL) commit();
}
static void an_array_that_is_too_long(void) {
  three();
  begin();
  if (p3l_new_array(store, item, SIZE_MAX / 8) == NULL) commit();
}

/* ---- several stores ---- */

static item *foreign(p3l_store *other) {
  must(p3l_begin(other, &error));
  item *made = p3l_new(other, item);
  must(p3l_set_root(other, "foreign", made));
  must(p3l_commit(other, &error));
  return made;
}
static void near_to_an_object_of_another_store(void) {
  three();
  item *object = foreign(another());
  begin();
  if (p3l_new_near(store, item, object) == NULL) commit();
}
static void an_object_of_another_store_deleted(void) {
  three();
  item *object = foreign(another());
  begin();
  p3l_delete(store, object);
}
static void an_object_of_another_store_as_root(void) {
  three();
  item *object = foreign(another());
  begin();
  p3l_set_root(store, "foreign", object);
  commit();
}
static void a_change_in_the_store_that_has_no_transaction(void) {
  three();
  item *object = foreign(another());
  begin();
  P3L_SET(object->value, 7);
}
static void prefetch_in_another_store(void) {
  three();
  (void)p3l_prefetch(store, foreign(another()), 3);
}

/* ---- pins, scopes, threads ---- */

static void pin_of_a_local(void) {
  item local;
  three();
  p3l_pin(&local);
}
static void unpinned_and_never_pinned(void) { p3l_unpin(three()); }
static void left_and_never_entered(void) {
  three();
  p3l_leave(store);
}
static void closed_within_a_transaction(void) {
  three();
  begin();
  P3L_SET(((item *)p3l_root(store, "first"))->value, 7);
  must(p3l_close(store, &error));
  store = open_at(program_path, (p3l_options){0});
  bool same = ((item *)p3l_root(store, "first"))->value == 1;
  fprintf(stderr, same ? "right\n" : "wrong\n");
}
static void aborted_without_begin(void) {
  item *first = three();
  p3l_abort(store);
  fprintf(stderr, first->value == 1 ? "right\n" : "wrong\n");
}
static void *commit_here(void *state) {
  (void)state;
  commit();
  return NULL;
}
static void a_commit_by_another_thread(void) {
  pthread_t thread;
  three();
  begin();
  pthread_create(&thread, NULL, commit_here, NULL);
  pthread_join(thread, NULL);
}
static void *change_here(void *first) {
  P3L_SET(((item *)first)->value, 7);
  return NULL;
}
static void a_change_by_another_thread(void) {
  pthread_t thread;
  item *first = three();
  begin();
  pthread_create(&thread, NULL, change_here, first);
  pthread_join(thread, NULL);
}
static void *begin_and_commit(void *state) {
  (void)state;
  for (int i = 0; i < 50; i++) {
    begin();
    item *first = p3l_root(store, "first");
    P3L_SET(first->value, first->value + 1);
    commit();
  }
  return NULL;
}
static void two_writers_at_once(void) {
  pthread_t threads[2];
  three();
  for (int i = 0; i < 2; i++) pthread_create(&threads[i], NULL, begin_and_commit, NULL);
  for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
  reopen();
  bool all = ((item *)p3l_root(store, "first"))->value == 101;
  fprintf(stderr, all ? "right\n" : "wrong\n");
}
static void evicted_within_a_transaction(void) {
  three();
  begin();
  must(p3l_evict(store, 0, &error));
}

/* ---- changes that miss their target ---- */

static void more_written_than_reported(void) {
  item *first = three();
  begin();
  item *second = P3L_LD(first->next);
  P3L_SET(first->value, 7);
  second->value = 9; /* in the same card, which has a copy of it */
  commit();
  reopen();
  first = p3l_root(store, "first");
  bool both = first->value == 7 && P3L_LD(first->next)->value == 9;
  fprintf(stderr, both ? "right\n" : "wrong\n");
}
static void changed_and_then_reported(void) {
  item *first = three();
  begin();
  first->value = 7;
  p3l_dirty(first, sizeof(*first));
  commit();
}
static void a_change_of_a_deleted_object(void) {
  item *first = three();
  begin();
  item *second = P3L_LD(first->next);
  p3l_delete(store, second);
  P3L_SET(first->next, NULL);
  P3L_SET(second->value, 7);
  commit();
  reopen();
  first = p3l_root(store, "first");
  fprintf(stderr, first->next == NULL ? "right\n" : "wrong\n");
}
static void a_pointer_to_what_the_same_transaction_deletes(void) {
  item *first = three();
  begin();
  p3l_delete(store, P3L_LD(first->next));
  commit();
  reopen();
  first = p3l_root(store, "first");
  fprintf(stderr, "read %llu\n", (unsigned long long)P3L_LD(first->next)->value);
}
static void a_pointer_to_what_was_aborted(void) {
  item *first = three();
  begin();
  item *made = p3l_new(store, item);
  p3l_abort(store);
  begin();
  P3L_SET(first->next, made);
  commit();
  reopen();
  first = p3l_root(store, "first");
  fprintf(stderr, "read %llu\n", (unsigned long long)P3L_LD(first->next)->value);
}
static void a_pointer_to_what_was_aborted_and_replaced(void) {
  item *first = three();
  begin();
  item *aborted = p3l_new(store, item);
  p3l_abort(store);
  begin();
  P3L_SET(first->next, aborted);
  item *made = p3l_new(store, item); /* in its place in the store */
  made->value = 99;
  must(p3l_set_root(store, "made", made));
  commit();
  reopen();
  first = p3l_root(store, "first");
  fprintf(stderr, "read %llu\n", (unsigned long long)P3L_LD(first->next)->value);
}
static void a_root_that_is_deleted(void) {
  item *first = three();
  begin();
  p3l_delete(store, first);
  commit();
  reopen();
  if (p3l_root(store, "first") == NULL) fprintf(stderr, "%s\n", p3l_failure(store)->message);
}
static void a_root_that_was_not_set_removed(void) {
  three();
  begin();
  p3l_set_root(store, "nothing", NULL);
  commit();
  reopen();
  fprintf(stderr, p3l_root(store, "nothing") == NULL ? "right\n" : "wrong\n");
}
static void a_root_with_a_long_name(void) {
  char name[100] = {0};
  item *first = three();
  memset(name, 'n', sizeof(name) - 1);
  begin();
  p3l_set_root(store, name, first);
  commit();
}

/* ---- addresses behind objects ---- */

static void the_end_of_a_single_object(void) {
  item *first = three();
  begin();
  item *last = P3L_LD(P3L_LD(first->next)->next);
  P3L_SET(last->next, last + 1); /* where no object is */
  commit();
  reopen();
  last = P3L_LD(P3L_LD(((item *)p3l_root(store, "first"))->next)->next);
  fprintf(stderr, P3L_LD(last->next) == last + 1 ? "right\n" : "wrong\n");
}
static void the_end_of_an_object_before_another(void) {
  item *first = three();
  begin();
  P3L_SET(first->next, first + 1); /* that is the second one */
  commit();
  reopen();
  first = p3l_root(store, "first");
  fprintf(stderr, P3L_LD(first->next)->value == 2 && P3L_LD(first->next) == first + 1 ? "right\n"
                                                                                      : "wrong\n");
}
static void far_behind_the_end_of_an_array(void) {
  three();
  begin();
  item *array = p3l_new_array(store, item, 1000);
  array->next = array + 5000;
  must(p3l_set_root(store, "array", array));
  commit();
}
static void the_middle_of_an_object(void) {
  item *first = three();
  begin();
  item *second = P3L_LD(first->next);
  P3L_SET(first->next, (item *)(void *)&second->next);
  must(p3l_set_root(store, "second", second));
  commit();
  reopen();
  item *again = P3L_LD(((item *)p3l_root(store, "first"))->next);
  second = p3l_root(store, "second");
  fprintf(stderr, (void *)again == (void *)&second->next ? "right\n" : "wrong\n");
}

/* ---- files ---- */

static void write_file(const char *path, const char *text) {
  FILE *file = fopen(path, "we");
  if (file == NULL || fputs(text, file) < 0 || fclose(file) != 0) exit(1);
}
static void a_text_opened_as_a_store(void) {
  write_file(program_path, "This is no store, but a text that is long enough to have a header.\n");
  open_at(program_path, (p3l_options){0});
}
static void an_empty_file_opened_as_a_store(void) {
  write_file(program_path, "");
  open_at(program_path, (p3l_options){.create = true});
}
static void a_folder_opened_as_a_store(void) { open_at(program_folder, (p3l_options){0}); }
static void a_store_that_is_not_there(void) { open_at(program_path, (p3l_options){0}); }
static void a_store_cut_short(void) {
  three();
  must(p3l_close(store, &error));
  if (truncate(program_path, 5000) != 0) exit(1);
  store = open_at(program_path, (p3l_options){0});
  item *first = p3l_root(store, "first");
  fprintf(stderr, "read %llu\n", (unsigned long long)(first == NULL ? 0 : first->value));
}
static void a_log_that_was_removed(void) {
  char log[PATH_MAX + 32];
  three();
  must(p3l_close(store, &error));
  snprintf(log, sizeof(log), "%s-log", program_path);
  unlink(log);
  store = open_at(program_path, (p3l_options){0});
  fprintf(stderr, ((item *)p3l_root(store, "first"))->value == 1 ? "right\n" : "wrong\n");
}
static void the_log_of_another_store(void) {
  char log[PATH_MAX + 32], other[PATH_MAX + 64];
  three();
  must(p3l_close(store, &error));
  p3l_store *second = another();
  (void)foreign(second);
  must(p3l_close(second, &error));
  snprintf(log, sizeof(log), "%s-log", program_path);
  snprintf(other, sizeof(other), "%s-log-other-log", program_path);
  if (rename(other, log) != 0) exit(1);
  store = open_at(program_path, (p3l_options){0});
  fprintf(stderr, ((item *)p3l_root(store, "first"))->value == 1 ? "right\n" : "wrong\n");
}
static void a_load_by_a_reader(void) {
  three();
  must(p3l_close(store, &error));
  store = open_at(program_path, (p3l_options){.read_only = true});
  must(p3l_load_begin(store, &error));
}
static void a_change_by_a_reader(void) {
  three();
  must(p3l_close(store, &error));
  store = open_at(program_path, (p3l_options){.read_only = true});
  P3L_SET(((item *)p3l_root(store, "first"))->value, 7);
}

static const wrong programs[] = {
    WRONG(a_pointer_that_is_not_described, "holds the address of an object (item), and no pointer"),
    WRONG(a_pointer_that_is_not_described_set_later, "byte 8 of the careless at page"),
    WRONG(an_integer_that_is_an_address, "byte 0 of the item at page"),
    WRONG(a_number_that_looks_like_a_surrogate, "right"),
    WRONG(an_arm_that_is_not_there, "arm 2 is live in element 0 of the either"),
    WRONG(a_tag_changed_without_a_report, "byte 0 of the either"),
    WRONG(a_number_under_the_tag_of_a_pointer, "is, by the arm that is live, byte 0 of the either"),
    WRONG(a_pointer_that_becomes_a_number, "right"),
    WRONG(a_type_registered_in_two_ways, "is registered twice, with different layouts"),
    WRONG(a_type_without_a_name, "has no name"),
    WRONG(a_pointer_behind_the_end_of_its_type, "has a pointer field behind its end"),
    WRONG(a_pointer_that_is_not_aligned, "has a pointer that is not aligned"),
    WRONG(an_object_of_a_type_of_no_bytes, "the type \"nothing\" has no size"),
    WRONG(an_array_that_is_too_long, "is more than memory has addresses for"),
    WRONG(near_to_an_object_of_another_store, "which is not an object of this store"),
    WRONG(an_object_of_another_store_deleted, "no object of this store is there"),
    WRONG(an_object_of_another_store_as_root, "is an object of"),
    WRONG(a_change_in_the_store_that_has_no_transaction, "outside of a transaction"),
    WRONG(prefetch_in_another_store, "which is not an object in it"),
    WRONG(pin_of_a_local, "is not a persistent object"),
    WRONG(unpinned_and_never_pinned, "which is not pinned"),
    WRONG(left_and_never_entered, "p3l_leave() without a p3l_enter() of this thread"),
    WRONG(closed_within_a_transaction, "right"),
    WRONG(aborted_without_begin, "right"),
    WRONG(a_commit_by_another_thread, "without p3l_begin()"),
    WRONG(a_change_by_another_thread, "outside of a transaction"),
    WRONG(two_writers_at_once, "right"),
    WRONG(evicted_within_a_transaction, "within a"),
    WRONG(more_written_than_reported, "right"),
    WRONG(changed_and_then_reported, "was changed and not reported"),
    WRONG(a_change_of_a_deleted_object, "right"),
    WRONG(a_pointer_to_what_the_same_transaction_deletes, "where no object is"),
    WRONG(a_pointer_to_what_was_aborted, "where no object is"),
    WRONG(a_pointer_to_what_was_aborted_and_replaced, "where another object is now"),
    WRONG(a_root_that_is_deleted, "where no object is"),
    WRONG(a_root_that_was_not_set_removed, "right"),
    WRONG(a_root_with_a_long_name, "a root's name has 1 to 55 bytes"),
    WRONG(the_end_of_a_single_object, "next of the item at page 2, byte 112 cannot be stored"),
    WRONG_GUARDED(the_end_of_an_object_before_another, "right", "cannot be stored"),
    WRONG(far_behind_the_end_of_an_array, "cannot be stored"),
    WRONG(the_middle_of_an_object, "right"),
    WRONG(a_text_opened_as_a_store, "is not a P3L store"),
    WRONG(an_empty_file_opened_as_a_store, "is not a P3L store: it is too short"),
    WRONG(a_folder_opened_as_a_store, "Is a directory"),
    WRONG(a_store_that_is_not_there, "No such file or directory"),
    WRONG(a_store_cut_short, "counts 4 pages and has room for 2; restore it from a copy"),
    WRONG(a_log_that_was_removed, "-log is missing: it has what was committed last"),
    WRONG(the_log_of_another_store, "is the log of another store; put the right one back"),
    WRONG(a_load_by_a_reader, "is open for reading only"),
    WRONG(a_change_by_a_reader, "outside of a transaction of this thread"),
};

WRONG_MAIN(programs)
