/*
 * The C program for test_doors.cpp: `test_doors_c write STORE` creates a ring of parts, `read
 * STORE` checks it after C++ changed it. Without arguments it writes a ring and checks it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "p3l.h"

#include "test_doors.h"

struct part {
  uint32_t id;
  struct part *to[3];
  char name[12];
  struct part *from;
};
P3L_TYPE(part, struct part, 1, P3L_POINTERS(struct part, to), P3L_POINTERS(struct part, from));

static void need(bool truth, const char *what) {
  if (truth) return;
  fprintf(stderr, "test_doors_c: not so: %s\n", what);
  exit(1);
}

static void check(p3l_code code, const p3l_error *error) {
  if (code == P3L_OK) return;
  fprintf(stderr, "test_doors_c: %s\n", error->message);
  exit(1);
}

static void write_ring(const char *path) {
  p3l_error error;
  p3l_store *store;
  check(p3l_open(path, &(p3l_options){.create = true}, &store, &error), &error);
  check(p3l_begin(store, &error), &error);
  static struct part *parts[PARTS];
  for (uint32_t i = 0; i < PARTS; i++) {
    parts[i] = p3l_new(store, part);
    need(parts[i] != NULL, "room for a part");
    parts[i]->id = i;
    snprintf(parts[i]->name, sizeof parts[i]->name, "part %u", i);
  }
  for (uint32_t i = 0; i < PARTS; i++)
    for (uint32_t k = 0; k < 3; k++) {
      P3L_SET(parts[i]->to[k], parts[(i + STEPS[k]) % PARTS]);
      if (k == 0) P3L_SET(parts[(i + 1) % PARTS]->from, parts[i]);
    }
  check(p3l_set_root(store, "ring", parts[0]), &error);
  check(p3l_commit(store, &error), &error);
  check(p3l_close(store, &error), &error);
}

/* Reads the ring, and the spare part that C++ inserted at part 5. */
static void read_ring(const char *path, bool changed) {
  p3l_error error;
  p3l_store *store;
  check(p3l_open(path, NULL, &store, &error), &error);
  struct part *first = p3l_root(store, "ring"), *p = first;
  need(first != NULL, "a root");
  for (uint32_t i = 0; i < PARTS; i++) {
    char name[12];
    snprintf(name, sizeof name, "part %u", i);
    need(p->id == (changed ? i + 1000000 : i), "ids");
    need(strcmp(p->name, name) == 0, "names");
    for (uint32_t k = 1; k < 3; k++)
      need(P3L_LD(p->to[k])->id % 1000000 == (i + STEPS[k]) % PARTS, "far parts");
    struct part *next = P3L_LD(p->to[0]);
    if (changed && i == 5) {
      need(next->id == SPARE && strcmp(next->name, "spare") == 0, "the spare part");
      need(P3L_LD(next->from) == p, "its way back");
      next = P3L_LD(next->to[0]);
    }
    need(P3L_LD(P3L_LD(next->from)->to[0]) == next, "there and back");
    p = next;
  }
  need(p == first, "a ring");
  check(p3l_close(store, &error), &error);
}

int main(int argc, char **argv) {
  if (argc == 3 && strcmp(argv[1], "write") == 0) {
    write_ring(argv[2]);
  } else if (argc == 3 && strcmp(argv[1], "read") == 0) {
    read_ring(argv[2], true);
  } else {
    char folder[] = "/tmp/p3l-doors-XXXXXX", path[64], log[80];
    need(mkdtemp(folder) != NULL, "a folder");
    snprintf(path, sizeof path, "%s/store", folder);
    snprintf(log, sizeof log, "%s-log", path);
    write_ring(path);
    read_ring(path, false);
    need(unlink(path) == 0 && unlink(log) == 0 && rmdir(folder) == 0,
         "store and log, nothing else");
  }
  return 0;
}
