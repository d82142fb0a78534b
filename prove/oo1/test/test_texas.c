/* Swizzling at page fault time: pages read, pointers swizzled, number of mappings. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "files.h"
#include "image.h"
#include "texas.h"

/* An object that fills a page, so that each page after the first has one. */
typedef struct link {
  struct link *next;
  uint64_t number;
  uint8_t rest[IMAGE_PAGE - IMAGE_OBJECTS - 16];
} link_object;
static const image_field fields[] = {{0, 1}, {0, 0}};

#define LINKS 2048u

/* A chain by way of every second page, 1, 3, 5 ..., to its end, and back by 2, 4, 6 ... */
static void make(char *path) {
  strcpy(path, "/tmp/oo1-texas-XXXXXX");
  close(mkstemp(path));
  unlink(path);
  int file = image_create(path);
  image_header header;
  oo1_read_all(file, path, &header, sizeof header, 0);
  static image_page pages[LINKS];
  memset(pages, 0, sizeof pages);
  uint64_t at[LINKS];
  for (uint32_t i = 0; i < LINKS; i++) {
    at[i] = image_place(&header.end, sizeof(link_object));
    assert_int_equal(at[i], (i + 1) * IMAGE_PAGE + IMAGE_OBJECTS);
    image_note(&pages[i], at[i], fields);
  }
  for (uint32_t i = 0; i < LINKS; i++) {
    uint32_t next = i + 2 < LINKS ? i + 2 : i % 2 == 0 ? 1 : UINT32_MAX;
    uint64_t words[2] = {next == UINT32_MAX ? 0 : at[next], i};
    memcpy(pages[i].objects, words, sizeof words);
  }
  header.root = at[0];
  oo1_write_all(file, path, &header, sizeof header, 0);
  oo1_write_all(file, path, pages, sizeof pages, IMAGE_PAGE);
  close(file);
}

static void clean_up(const char *path) {
  char log_path[80];
  sprintf(log_path, "%s.log", path);
  unlink(path), unlink(log_path);
}

static uint32_t mappings(void) {
  uint32_t count = 0;
  FILE *maps = fopen("/proc/self/maps", "r");
  for (int c; (c = fgetc(maps)) != EOF;) count += c == '\n';
  fclose(maps);
  return count;
}

static void follow(uint32_t steps, uint32_t first) {
  const link_object *at = texas_root();
  for (uint32_t i = 0; i < steps; i++, at = at->next)
    assert_int_equal(at->number, first + 2 * i < LINKS ? first + 2 * i : 2 * i - LINKS + 1);
}

static void a_fault_reads_and_swizzles_its_page(void **state) {
  (void)state;
  char path[64];
  make(path);
  texas_open(path, TEXAS_MPROTECT, false);
  follow(10, 0);
  texas_figures figures = texas_look();
  assert_int_equal(figures.faults, 11); /* the header's page, too */
  assert_int_equal(figures.pages_read, 11);
  assert_int_equal(figures.swizzled, 10);
  follow(10, 0);
  assert_int_equal(texas_look().faults, 11);
  texas_close();
  clean_up(path);
}

/* It stays at half of the limit: groups of sixteen fill gaps, single pages create new ones. */
static void gaps_that_are_filled_are_no_mappings(void **state) {
  (void)state;
  char path[64];
  make(path);
  texas_open(path, TEXAS_MPROTECT, false);
  uint32_t before = mappings();
  follow(LINKS / 2, 0);
  assert_in_range(mappings() - before, LINKS - 8, LINKS + 8);
  follow(LINKS, 0);
  assert_in_range(mappings(), before - 2, before + 8);
  assert_int_equal(texas_look().pages_read, LINKS + 1);
  texas_close();
  clean_up(path);
}

static void neighbours_are_read_before_mappings_run_out(void **state) {
  (void)state;
  char path[64];
  make(path);
  texas_open(path, TEXAS_MPROTECT, false);
  texas_allow(400);
  uint32_t before = mappings();
  follow(LINKS / 2, 0);
  /* only single pages would be 1025: header, chain */
  assert_in_range(mappings() - before, 190, 210);
  texas_figures figures = texas_look();
  assert_true(figures.pages_read > figures.faults);
  assert_true(figures.faults < LINKS / 2); /* not committed */
  texas_close();
  clean_up(path);
}

static void commits_are_there_for_the_next(texas_means means) {
  char path[64];
  make(path);
  texas_open(path, means, true);
  link_object *root = texas_root(), *second = root->next;
  link_object *fresh = texas_new(sizeof *fresh, fields);
  fresh->number = 77;
  fresh->next = second;
  root->next = fresh;
  texas_commit();
  second->number = 78; /* as oo1-texas-uffd would report */
  texas_close();
  texas_open(path, means, false);
  root = texas_root();
  assert_int_equal(root->next->number, 77);
  assert_int_equal(root->next->next->number, 2);
  texas_close();
  clean_up(path);
}
static void commits_are_there_by_mprotect(void **state) {
  (void)state;
  commits_are_there_for_the_next(TEXAS_MPROTECT);
}
static void commits_are_there_by_userfaultfd(void **state) {
  (void)state;
  if (geteuid() != 0) skip(); /* as oo1-texas-uffd would say */
  commits_are_there_for_the_next(TEXAS_USERFAULTFD);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_fault_reads_and_swizzles_its_page),
      cmocka_unit_test(gaps_that_are_filled_are_no_mappings),
      cmocka_unit_test(neighbours_are_read_before_mappings_run_out),
      cmocka_unit_test(commits_are_there_by_mprotect),
      cmocka_unit_test(commits_are_there_by_userfaultfd),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
