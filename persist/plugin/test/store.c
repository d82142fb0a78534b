/*
 * Tests the runtime with a compiled program: a ring of 5000 parts is written, read after
 * reopening, changed, aborted and changed again, with pointers and assignments only.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "p3l_qualifier.h"

#define PARTS 5000

struct part;
typedef struct part persistent *link;
struct part {
  int64_t number;
  link next, across;
  char name[40];
};
P3L_PERSISTENT(part, struct part, 1);

/* A number, or a pointer to one of them; the numbers look like pointers. */
struct mark {
  int64_t is_pointer;
  union {
    int64_t number;
    struct mark persistent *to;
  } is;
};
static uint32_t live(const void *object, size_t element) {
  return (uint32_t)((const struct mark *)object)[element].is_pointer;
}
P3L_PERSISTENT_UNIONS(mark, struct mark, 1, NULL,
                      P3L_UNIONS(P3L_UNION(struct mark, is, live, P3L_PLAIN_ARM,
                                           P3L_ARM(struct mark, is, is.to))));
#define MARKS 1000

static p3l_error error;

static void must(p3l_code code) {
  if (code == P3L_OK) return;
  fprintf(stderr, "%s\n", error.message);
  exit(1);
}

static void expect(const char *what, int64_t found, int64_t expected) {
  if (found == expected) return;
  fprintf(stderr, "%s: %lld, expected %lld\n", what, (long long)found, (long long)expected);
  exit(1);
}

static p3l_store *open_store(const char *path) {
  p3l_store *store;
  must(p3l_open(path, &(p3l_options){.create = true}, &store, &error));
  return store;
}

static void create(p3l_store *store) {
  must(p3l_begin(store, &error));
  link first = NULL, last = NULL;
  for (int64_t i = 0; i < PARTS; i++) {
    link part = p3l_new(store, part);
    if (part == NULL) {
      fprintf(stderr, "%s\n", p3l_failure(store)->message);
      exit(1);
    }
    part->number = i;
    char name[40];
    snprintf(name, sizeof name, "part %d", (int)i);
    strcpy((char *)part->name, name);
    if (last != NULL) last->next = part;
    if (first == NULL) first = part;
    last = part;
  }
  last->next = first;
  link slow = first, fast = first;
  do {
    slow->across = fast;
    slow = slow->next;
    fast = fast->next->next;
  } while (slow != first);
  must(p3l_set_root(store, "first", first));
  must(p3l_commit(store, &error));
}

/* Walks the ring once and sums each part's number and the number of the part across. */
static int64_t sum(p3l_store *store) {
  link first = p3l_root(store, "first"), part = first;
  int64_t result = 0;
  do {
    result += part->number * 3 + part->across->number;
    part = part->next;
  } while (part != first);
  return result;
}

static void change(p3l_store *store, int64_t by) {
  link first = p3l_root(store, "first"), part = first;
  do {
    part->number += by;
    link next = part->next;
    if (part->name[5] == '7') {
      part->across = next->across;
      memset((void *)part->name, 'x', 4);
    }
    part = next;
  } while (part != first);
}

/* Names that change() has written over. */
static int64_t crossed(p3l_store *store) {
  int64_t count = 0;
  link first = p3l_root(store, "first"), part = first;
  do {
    count += strncmp((const char *)part->name, "xxxx ", 5) == 0;
    part = part->next;
  } while (part != first);
  return count;
}

static int64_t number_of(int i) { return INT64_MIN + 4096 + 64 * (int64_t)i; }

static void make_marks(p3l_store *store) {
  struct mark persistent *marks = p3l_new_array(store, mark, MARKS);
  for (int i = 0; i < MARKS; i++) marks[i].is.number = number_of(i);
  for (int i = 0; i < MARKS; i += 3) {
    marks[i].is_pointer = 1;
    marks[i].is.to = &marks[MARKS - 1 - i]; /* 999 - i: a pointer, too, since 3 divides it */
  }
  p3l_set_root(store, "marks", marks);
}

/* All that are not pointers now are what they were, and pointers lead where they led. */
static void check_marks(p3l_store *store, int numbers) {
  struct mark persistent *marks = p3l_root(store, "marks");
  int seen = 0;
  for (int i = 0; i < MARKS; i++) {
    if (marks[i].is_pointer) {
      expect("mark that it leads to", marks[i].is.to - marks, MARKS - 1 - i);
    } else {
      expect("number of a mark", marks[i].is.number, number_of(i));
      seen++;
    }
  }
  expect("numbers", seen, numbers);
}

int main(int count, char **arguments) {
  if (count != 2) return 2;
  const char *path = arguments[1];
  p3l_store *store = open_store(path);
  create(store);
  /* The numbers are 0 to 4999. The parts across have each even number twice, so the two sums
   * differ by 2500. */
  int64_t numbers = (int64_t)PARTS * (PARTS - 1) / 2;
  int64_t even = 2 * (numbers - PARTS / 2) / 2;
  expect("as created", sum(store), 3 * numbers + even);
  must(p3l_close(store, &error));

  store = open_store(path);
  expect("opened again", sum(store), 3 * numbers + even);
  p3l_statistics statistics;
  p3l_get_statistics(store, &statistics);
  if (statistics.swizzled == 0) expect("swizzled", 0, 1);
  must(p3l_begin(store, &error));
  make_marks(store);
  must(p3l_commit(store, &error));
  must(p3l_close(store, &error));

  store = open_store(path);
  check_marks(store, 666);
  must(p3l_begin(store, &error));
  change(store, 10);
  p3l_abort(store);
  expect("aborted", sum(store), 3 * numbers + even);
  expect("aborted, names", crossed(store), 0);

  must(p3l_begin(store, &error));
  struct mark persistent *marks = p3l_root(store, "marks");
  marks[3].is_pointer = 0;
  marks[3].is.number = number_of(3);
  change(store, 1);
  must(p3l_commit(store, &error));
  int64_t changed = sum(store);
  /* 7, 70..79, 700..799: the names that have a 7 after "part ". */
  expect("committed, names", crossed(store), 111);
  must(p3l_close(store, &error));

  store = open_store(path);
  check_marks(store, 667);
  expect("committed, opened again", sum(store), changed);
  expect("committed, opened again, names", crossed(store), 111);
  link first = p3l_root(store, "first");
  expect("first", first->number, 1);
  expect("by way of the last", first->across->number, 1);
  must(p3l_close(store, &error));
  return 0;
}
