/*
 * Threads: a reader's scope sees one commit, and several writers that wait for the disk at the same
 * time lose nothing. Also run under -fsanitize=thread.
 */
#include <pthread.h>
#include <stdatomic.h>

#include "store_fixture.h"

enum { ACCOUNTS = 64, TOTAL = ACCOUNTS * 100 };

typedef struct account {
  int64_t balance;
  struct account *next;
  uint8_t body[200];
} account;
P3L_TYPE(account, account, 1, P3L_POINTERS(account, next));

typedef struct bank {
  fixture f;
  atomic_bool stop;
  atomic_uint scopes;
} bank;

static void build(bank *bank) {
  bank->f = fixture_new();
  begin(&bank->f);
  account *next = NULL;
  for (int i = 0; i < ACCOUNTS; i++) {
    account *made = p3l_new(bank->f.store, account);
    made->balance = TOTAL / ACCOUNTS;
    made->next = next;
    next = made;
  }
  p3l_set_root(bank->f.store, "accounts", next);
  commit(&bank->f);
  fixture_reopen(&bank->f); /* so that threads make the objects resident concurrently */
}

static int64_t sum(p3l_store *store, int *count) {
  int64_t total = 0;
  *count = 0;
  for (account *at = p3l_root(store, "accounts"); at != NULL; at = P3L_LD(at->next)) {
    total += at->balance;
    ++*count;
  }
  return total;
}

static void *read_sums(void *argument) {
  bank *bank = argument;
  uintptr_t wrong = 0;
  while (!atomic_load(&bank->stop)) {
    int count;
    p3l_enter(bank->f.store);
    int64_t first = sum(bank->f.store, &count);
    p3l_enter(bank->f.store); /* scopes nest */
    int64_t second = sum(bank->f.store, &count);
    p3l_leave(bank->f.store);
    p3l_leave(bank->f.store);
    wrong += first != TOTAL || second != TOTAL || count != ACCOUNTS;
    atomic_fetch_add(&bank->scopes, 1);
  }
  return (void *)wrong;
}

static account *nth(p3l_store *store, unsigned n) {
  account *at = p3l_root(store, "accounts");
  while (n-- > 0) at = P3L_LD(at->next);
  return at;
}

/* Moves money, sometimes replaces an account by a new one, and aborts one time in four. */
static void transfer(p3l_store *store, unsigned *random) {
  p3l_error error;
  unsigned draw = *random = *random * 1664525u + 1013904223u;
  account *from = nth(store, (draw >> 8) % ACCOUNTS), *to = nth(store, (draw >> 16) % ACCOUNTS);
  P3L_SET(from->balance, from->balance - (int64_t)(draw % 50));
  P3L_SET(to->balance, to->balance + (int64_t)(draw % 50));
  account *next = P3L_LD(from->next);
  if (draw >> 24 & 1 && next != NULL) {
    account *replaced = p3l_new_near(store, account, next);
    replaced->balance = next->balance;
    replaced->next = P3L_LD(next->next);
    P3L_SET(from->next, replaced);
    p3l_delete(store, next);
  }
  if ((draw >> 26) % 4 == 0)
    p3l_abort(store);
  else if (p3l_commit(store, &error) != P3L_OK)
    fail_msg("%s", error.message);
}

static void every_scope_sees_one_commit(void **state) {
  (void)state;
  bank bank = {.scopes = 0};
  build(&bank);
  pthread_t readers[3];
  for (int i = 0; i < 3; i++) pthread_create(&readers[i], NULL, read_sums, &bank);
  unsigned random = 1;
  /* Runs until both threads have run. */
  for (int i = 0; i < 300 || atomic_load(&bank.scopes) < 100; i++) {
    begin(&bank.f);
    transfer(bank.f.store, &random);
  }
  atomic_store(&bank.stop, true);
  for (int i = 0; i < 3; i++) {
    void *wrong;
    pthread_join(readers[i], &wrong);
    assert_int_equal((uintptr_t)wrong, 0);
  }
  int count;
  fixture_reopen(&bank.f);
  assert_int_equal(sum(bank.f.store, &count), TOTAL);
  assert_int_equal(count, ACCOUNTS);
  fixture_drop(&bank.f);
}

enum { WRITERS = 4, COMMITS = 60 };

typedef struct writer {
  p3l_store *store;
  int number;
  uint64_t acknowledged;
} writer;

static void *count_up(void *argument) {
  writer *writer = argument;
  char name[16];
  snprintf(name, sizeof(name), "counter %d", writer->number);
  for (int i = 0; i < COMMITS; i++) {
    p3l_error error;
    if (p3l_begin(writer->store, &error) != P3L_OK) return NULL;
    account *mine = p3l_root(writer->store, name), *all = p3l_root(writer->store, "all");
    P3L_SET(mine->balance, mine->balance + 1);
    P3L_SET(all->balance, all->balance + 1);
    account *made = p3l_new(writer->store, account);
    made->balance = mine->balance;
    made->next = P3L_LD(mine->next);
    P3L_SET(mine->next, made);
    if (p3l_commit(writer->store, &error) != P3L_OK) return NULL;
    writer->acknowledged++;
  }
  return NULL;
}

static void writers_side_by_side_lose_nothing(void **state) {
  (void)state;
  fixture f = fixture_new();
  f.options.checkpoint_bytes = 100000; /* some checkpoints in between */
  fixture_reopen(&f);
  begin(&f);
  p3l_set_root(f.store, "all", p3l_new(f.store, account));
  for (int i = 0; i < WRITERS; i++) {
    char name[16];
    snprintf(name, sizeof(name), "counter %d", i);
    p3l_set_root(f.store, name, p3l_new(f.store, account));
  }
  commit(&f);
  writer writers[WRITERS];
  pthread_t threads[WRITERS];
  for (int i = 0; i < WRITERS; i++) {
    writers[i] = (writer){f.store, i, 0};
    pthread_create(&threads[i], NULL, count_up, &writers[i]);
  }
  for (int i = 0; i < WRITERS; i++) pthread_join(threads[i], NULL);
  fixture_reopen(&f);
  assert_int_equal(((account *)p3l_root(f.store, "all"))->balance, WRITERS * COMMITS);
  for (int i = 0; i < WRITERS; i++) {
    char name[16];
    snprintf(name, sizeof(name), "counter %d", i);
    assert_int_equal(writers[i].acknowledged, COMMITS);
    account *counter = p3l_root(f.store, name);
    assert_int_equal(counter->balance, COMMITS);
    int expected = COMMITS;
    for (account *at = P3L_LD(counter->next); at != NULL; at = P3L_LD(at->next))
      assert_int_equal(at->balance, expected--);
    assert_int_equal(expected, 0);
  }
  fixture_drop(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_scope_sees_one_commit),
      cmocka_unit_test(writers_side_by_side_lose_nothing),
  };
  return fixture_run(tests);
}
