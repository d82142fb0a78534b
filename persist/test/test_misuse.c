/*
 * Wrong programs, one per function: each ends with a message, by a code or by the fault handler, or
 * turns out to be right. None continues with wrong data, and none is killed by a bare signal.
 */
#include "misuse.h"

/* ---- objects and transactions ---- */

static void new_outside_of_a_transaction(void) {
  three();
  if (p3l_new(store, item) == NULL) fprintf(stderr, "%s\n", p3l_failure(store)->message);
}
static void set_outside_of_a_transaction(void) { P3L_SET(three()->value, 7); }
static void raw_write_outside_of_a_transaction(void) {
  three()->value = 7;
  begin();
  commit();
}
static void forgotten_report(void) {
  item *first = three();
  begin();
  first->value = 7;
  commit();
}
static void forgotten_report_of_a_pointer(void) {
  item *first = three();
  begin();
  first->next = NULL;
  commit();
}
static void begin_twice(void) {
  three();
  begin();
  begin();
}
static void commit_without_begin(void) {
  three();
  commit();
}
static void begin_within_a_scope(void) {
  three();
  p3l_enter(store);
  begin();
}
static void evict_within_a_scope(void) {
  three();
  p3l_enter(store);
  must(p3l_evict(store, 0, &error));
}
static void an_array_of_none(void) {
  three();
  begin();
  if (p3l_new_array(store, item, 0) == NULL) commit();
}
static void near_to_a_local(void) {
  item local = {0};
  three();
  begin();
  if (p3l_new_near(store, item, &local) == NULL) commit();
}

/* ---- pointers ---- */

static void store_pointer(void *pointer) {
  item *first = p3l_root(store, "first");
  begin();
  P3L_SET(first->next, pointer);
  commit();
}
static void pointer_to_a_local(void) {
  item local = {0};
  three();
  store_pointer(&local);
}
static void pointer_to_the_heap(void) {
  three();
  store_pointer(malloc(16));
}
static void pointer_that_is_minus_one(void) {
  three();
  store_pointer((void *)-1);
}
static void pointer_to_another_store(void) {
  three();
  p3l_store *other = another();
  must(p3l_begin(other, &error));
  item *foreign = p3l_new(other, item);
  must(p3l_commit(other, &error));
  store_pointer(foreign);
}
static void a_wild_surrogate(void) {
  three();
  void *wild = (void *)(uintptr_t)(P3L_SURROGATE_BIT | UINT64_C(1000000) * 4096);
  (void)P3L_LD(wild);
}
static void a_surrogate_of_one_of_two_stores(void) {
  void *kept = p3l_surrogate(three());
  another();
  (void)P3L_LD(kept);
}
static void surrogate_of_a_local(void) {
  item local;
  three();
  (void)p3l_surrogate(&local);
}
static void prefetch_from_a_local(void) {
  item local;
  three();
  (void)p3l_prefetch(store, &local, 3);
}

/* ---- deleted objects ---- */

static void a_slot_to_what_was_deleted(void) {
  item *first = three();
  begin();
  p3l_delete(store, first->next);
  commit();
  reopen();
  first = p3l_root(store, "first");
  fprintf(stderr, "read %llu\n", (unsigned long long)P3L_LD(first->next)->value);
}
static void a_slot_to_what_was_replaced(void) {
  delete_and_replace(three());
  reopen();
  item *first = p3l_root(store, "first");
  fprintf(stderr, "read %llu\n", (unsigned long long)P3L_LD(first->next)->value);
}
static void a_surrogate_of_what_was_replaced(void) {
  item *first = three();
  void *kept = p3l_surrogate(first->next);
  delete_and_replace(first);
  fprintf(stderr, "read %llu\n", (unsigned long long)((item *)P3L_LD(kept))->value);
}
static void a_root_of_what_was_replaced(void) {
  item *first = three();
  begin();
  must(p3l_set_root(store, "second", first->next));
  commit();
  delete_and_replace(first);
  reopen();
  fprintf(stderr, "read %llu\n", (unsigned long long)((item *)p3l_root(store, "second"))->value);
}
static void a_copied_slot_to_what_was_replaced(void) {
  item *first = three();
  delete_and_replace(first);
  begin();
  item *copy = p3l_new(store, item);
  *copy = *first;
  must(p3l_set_root(store, "copy", copy));
  commit();
  reopen();
  copy = p3l_root(store, "copy");
  fprintf(stderr, "read %llu\n", (unsigned long long)P3L_LD(copy->next)->value);
}
static void deleted_twice(void) {
  item *first = three();
  begin();
  p3l_delete(store, first);
  p3l_delete(store, first);
}
static void deleted_again_later(void) {
  item *second = three()->next;
  begin();
  p3l_delete(store, second);
  commit();
  begin();
  p3l_delete(store, second);
}
static void deleted_from_its_middle(void) {
  item *first = three();
  begin();
  p3l_delete(store, &first->next);
}
static void a_local_deleted(void) {
  item local;
  three();
  begin();
  p3l_delete(store, &local);
}
static void deleted_outside_of_a_transaction(void) {
  item *first = three(); /* sets `store`: the order of arguments is the compiler's */
  p3l_delete(store, first);
}

/* ---- stores, roots, loads ---- */

static void opened_twice_for_writing(void) {
  three();
  open_at(program_path, (p3l_options){0});
}
static void made_and_only_read(void) {
  open_at(program_path, (p3l_options){.create = true, .read_only = true});
}
static void little_memory(void) {
  open_at(program_path, (p3l_options){.create = true, .memory_bytes = 1000});
}
static void written_by_a_reader(void) {
  three();
  must(p3l_close(store, &error));
  store = open_at(program_path, (p3l_options){.read_only = true});
  begin();
}
static void refreshed_within_a_scope(void) {
  three();
  must(p3l_close(store, &error));
  store = open_at(program_path, (p3l_options){.read_only = true});
  p3l_enter(store);
  must(p3l_refresh(store, &error));
}
static void used_by_a_forked_child(void) {
  int status;
  three();
  fflush(NULL);
  pid_t child = fork();
  if (child == 0) begin();
  if (child > 0) waitpid(child, &status, 0);
}
static void root_without_a_name(void) {
  item *first = three();
  begin();
  p3l_set_root(store, "", first); /* the program does not check the code */
  commit();
}
static void root_outside_of_a_transaction(void) {
  item *first = three();
  if (p3l_set_root(store, "late", first) != P3L_OK)
    fprintf(stderr, "%s\n", p3l_failure(store)->message);
}
static void root_of_a_local(void) {
  item local;
  three();
  begin();
  p3l_set_root(store, "local", &local);
  commit();
}
static void loaded_twice(void) {
  three();
  must(p3l_load_begin(store, &error));
  must(p3l_load_begin(store, &error));
}
static void a_load_ended_that_was_not_begun(void) {
  three();
  must(p3l_load_end(store, &error));
}
static void a_load_within_a_transaction(void) {
  three();
  begin();
  must(p3l_load_begin(store, &error));
}

/* ---- correct programs that look wrong ---- */

static void the_end_of_an_array_of_one(void) {
  three();
  begin();
  item *one = p3l_new_array(store, item, 1);
  p3l_new(store, item)->value = 77; /* the object after it */
  one->next = one + 1;
  must(p3l_set_root(store, "one", one));
  commit();
  reopen();
  one = p3l_root(store, "one");
  fprintf(stderr, P3L_LD(one->next) == one + 1 ? "right\n" : "wrong\n");
}
static void a_change_reported_and_not_made(void) {
  item *first = three();
  begin();
  p3l_dirty(first, sizeof(*first));
  commit();
  fprintf(stderr, "right\n");
}
static void an_aborted_change(void) {
  item *first = three();
  begin();
  P3L_SET(first->value, 7);
  p3l_abort(store);
  fprintf(stderr, first->value == 1 ? "right\n" : "wrong\n");
}

static const wrong programs[] = {
    WRONG(new_outside_of_a_transaction, "outside of a transaction"),
    WRONG(set_outside_of_a_transaction, "transaction"),
    WRONG(raw_write_outside_of_a_transaction, "was changed and not reported"),
    WRONG(forgotten_report, "byte 0 of the item"),
    WRONG(forgotten_report_of_a_pointer, "of the item at page 2, byte 80 was changed and not"),
    WRONG(begin_twice, "within a transaction of this thread"),
    WRONG(commit_without_begin, "a commit without p3l_begin()"),
    WRONG(begin_within_a_scope, "would wait for itself"),
    WRONG(evict_within_a_scope, "p3l_evict() within a scope"),
    WRONG(an_array_of_none, "an array of no item"),
    WRONG(near_to_a_local, "which is not an object of this store"),
    WRONG(pointer_to_a_local, "next of the item at page 2, byte 80 cannot be stored"),
    WRONG(pointer_to_the_heap, "is not a persistent object"),
    WRONG(pointer_that_is_minus_one, "is not an address of a store"),
    WRONG(pointer_to_another_store, "is an object of"),
    WRONG(a_wild_surrogate, "behind the last page of the store"),
    WRONG(a_surrogate_of_one_of_two_stores, "several stores are open"),
    WRONG(surrogate_of_a_local, "which is not a persistent object"),
    WRONG(prefetch_from_a_local, "which is not an object in it"),
    WRONG(a_slot_to_what_was_deleted, "where no object is"),
    WRONG(a_slot_to_what_was_replaced, "where another object is now"),
    WRONG(a_surrogate_of_what_was_replaced, "where another object is now"),
    WRONG(a_root_of_what_was_replaced, "where another object is now"),
    WRONG(a_copied_slot_to_what_was_replaced, "where another object is now"),
    WRONG(deleted_twice, "it was deleted before"),
    WRONG(deleted_again_later, "no object of this store is there"),
    WRONG(deleted_from_its_middle, "it is within an object"),
    WRONG(a_local_deleted, "no object of this store is there"),
    WRONG(deleted_outside_of_a_transaction, "outside of a transaction"),
    WRONG(opened_twice_for_writing, "is open in another process"),
    WRONG(made_and_only_read, "a store that is made is empty"),
    WRONG(little_memory, "less than the least"),
    WRONG(written_by_a_reader, "is open for reading only"),
    WRONG(refreshed_within_a_scope, "p3l_refresh() within a scope"),
    WRONG(used_by_a_forked_child, "was opened by the process that this one was forked from"),
    WRONG(root_without_a_name, "a root's name has 1 to 55 bytes"),
    WRONG(root_outside_of_a_transaction, "outside of a transaction"),
    WRONG(root_of_a_local, "is not a persistent object"),
    WRONG(loaded_twice, "is being loaded already"),
    WRONG(a_load_ended_that_was_not_begun, "there is nothing to end"),
    WRONG(a_load_within_a_transaction, "within a transaction of this thread"),
    WRONG(the_end_of_an_array_of_one, "right"),
    WRONG(a_change_reported_and_not_made, "right"),
    WRONG(an_aborted_change, "right"),
};

WRONG_MAIN(programs)
