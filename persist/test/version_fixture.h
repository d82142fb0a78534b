/*
 * A store whose every version is known: in version v, page n is filled with a word derived from the
 * last version, up to v, that changed page n. For tests of readers through every interface.
 */
#ifndef P3L_VERSION_FIXTURE_H
#define P3L_VERSION_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <dirent.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "images.h"
#include "pager.h"
#include "readers.h"

enum { WORDS = sizeof(((p3l_page *)0)->payload) / 8 };
enum { PAGES = 40, VERSIONS = 120, READERS = 6 };

static char folder[64], path[80];

static inline void make_folder(void) {
  strcpy(folder, "/tmp/p3l-readers-XXXXXX");
  assert_non_null(mkdtemp(folder));
  snprintf(path, sizeof(path), "%s/s", folder);
}

/*
 * Counts the files whose names are the store's name followed by `what`, and removes them on
 * request.
 */
static inline int files(const char *what, bool remove_them) {
  int count = 0;
  DIR *opened = opendir(folder);
  struct dirent *entry;
  assert_non_null(opened);
  while ((entry = readdir(opened)) != NULL) {
    char name[400];
    if (entry->d_name[0] == '.' || strncmp(entry->d_name, what, strlen(what)) != 0) continue;
    count++;
    snprintf(name, sizeof(name), "%s/%s", folder, entry->d_name);
    if (remove_them) unlink(name);
  }
  closedir(opened);
  return count;
}

static inline void remove_folder(void) {
  files("", true);
  assert_int_equal(rmdir(folder), 0);
}

static inline void must(p3l_code code, const p3l_error *error) {
  if (code != P3L_OK) fail_msg("%s", error->message);
}

/* ---- versions ---- */

static uint64_t random_state;
static inline unsigned draw(unsigned below) {
  random_state += UINT64_C(0x9e3779b97f4a7c15);
  uint64_t x = random_state;
  x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
  return (unsigned)((x ^ x >> 31) >> 33) % below;
}

/* changed[v][n]: the last version up to v that changed page n. */
static unsigned changed[VERSIONS + 1][PAGES + 1];

static inline p3l_pager *open_pager(bool read_only) {
  p3l_pager *pager;
  p3l_error error;
  p3l_pager_options options = {.read_only = read_only, .checkpoint_bytes = 64 << 10};
  must(p3l_pager_open(path, &options, &pager, NULL, &error), &error);
  return pager;
}

static inline void change_page(p3l_pager_transaction *transaction, unsigned number,
                               unsigned version) {
  p3l_page *page;
  p3l_error error;
  must(p3l_page_for_writing(transaction, (p3l_page_number){number}, &page, &error), &error);
  uint64_t value = (uint64_t)version << 32 | number;
  for (unsigned i = 0; i < WORDS; i++) memcpy(page->payload + i * 8, &value, 8);
  p3l_page_changed(transaction, page, 32, WORDS * 8);
}

/* Commits version v: page 1 contains v. Every changed page is filled with the version's word. */
static inline void commit_version(p3l_pager *pager, unsigned version) {
  p3l_pager_transaction *transaction;
  p3l_error error;
  memcpy(changed[version], changed[version - 1], sizeof(changed[version]));
  must(p3l_pager_begin(pager, &transaction, &error), &error);
  if (version == 1) {
    p3l_page_number number;
    p3l_page *page;
    for (unsigned n = 1; n <= PAGES; n++)
      must(p3l_page_allocate(transaction, &number, &page, &error), &error);
  }
  for (unsigned n = 1; n <= PAGES; n++) {
    if (n > 1 && version > 1 && draw(8) != 0) continue;
    change_page(transaction, n, version);
    changed[version][n] = version;
  }
  must(p3l_pager_commit(transaction, &error), &error);
}

static inline unsigned version_of(p3l_pager *pager) {
  p3l_page page;
  p3l_error error;
  uint64_t value;
  must(p3l_pager_read(pager, (p3l_page_number){1}, &page, &error), &error);
  memcpy(&value, page.payload, 8);
  return (unsigned)(value >> 32);
}

static inline void check_page(const p3l_page *page, unsigned number, unsigned version) {
  uint64_t expected = (uint64_t)changed[version][number] << 32 | number;
  for (unsigned i = 0; i < WORDS; i++) {
    uint64_t value;
    memcpy(&value, page->payload + i * 8, 8);
    if (value != expected)
      fail_msg("page %u of version %u is of version %llu", number, version,
               (unsigned long long)(value >> 32));
  }
}

static inline p3l_code visit(void *state, size_t index, const p3l_page *page, p3l_error *error) {
  (void)error;
  check_page(page, (unsigned)index + 1, *(unsigned *)state);
  return P3L_OK;
}

/* Checks all pages, by each way of reading them. */
static inline void check_version(p3l_pager *pager, unsigned version) {
  static p3l_page pages[PAGES];
  p3l_page_number numbers[PAGES];
  p3l_error error;
  assert_int_equal(version_of(pager), version);
  for (unsigned n = 1; n <= PAGES; n++) {
    numbers[n - 1] = (p3l_page_number){n};
    must(p3l_pager_read(pager, numbers[n - 1], &pages[0], &error), &error);
    check_page(&pages[0], n, version);
  }
  must(p3l_pager_read_run(pager, (p3l_page_number){1}, PAGES, pages, &error), &error);
  for (unsigned n = 1; n <= PAGES; n++) check_page(&pages[n - 1], n, version);
  must(p3l_pager_read_many(pager, numbers, PAGES, visit, &version, &error), &error);
}

static inline void refresh_to(p3l_pager *reader, unsigned from, unsigned to) {
  p3l_news news;
  p3l_error error;
  must(p3l_pager_refresh(reader, &news, &error), &error);
  assert_int_equal(news.changed, from != to);
  /* The list contains every page that changed. */
  for (unsigned n = 1, at = 0; n <= PAGES && from != to; n++) {
    if (changed[from][n] == changed[to][n]) continue;
    while (!news.everywhere && at < news.count && news.pages[at].number < n) at++;
    assert_true(news.everywhere ? p3l_pager_is_news(reader, &news, (p3l_page_number){n})
                                : at < news.count && news.pages[at].number == n);
  }
  p3l_news_free(&news);
  check_version(reader, to);
}

#endif
