/*
 * Failures outside of the store: a full disk, files that are read-only, not a store, or changed in
 * the meantime. Each is reported with file, page and cause, and harms nothing else. The tests use
 * real files, each in a child process, so that limits and mounts end with the process.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "log.h"
#include "pager.h"

static char folder[64], path[80], log_path[80];

static int make_folder(void **state) {
  (void)state;
  strcpy(folder, "/tmp/p3l-faults-XXXXXX");
  if (mkdtemp(folder) == NULL) return -1;
  snprintf(path, sizeof(path), "%s/s", folder);
  snprintf(log_path, sizeof(log_path), "%s/s-log", folder);
  return 0;
}

static int remove_folder(void **state) {
  (void)state;
  unlink(path);
  unlink(log_path);
  return rmdir(folder);
}

/* ---- children ---- */

/* NULL: passed; SKIPPED...: impossible on this machine. */
typedef const char *(*child)(void);
#define SKIPPED "skipped: "

static char sentence[1024];
#define CHECK(condition)                                                            \
  do {                                                                              \
    if (!(condition)) {                                                             \
      snprintf(sentence, sizeof(sentence), "line %d: %s: %s", __LINE__, #condition, \
               error.message);                                                      \
      return sentence;                                                              \
    }                                                                               \
  } while (0)

static void in_child(child run) {
  int ends[2];
  char said[1024] = "";
  assert_int_equal(pipe(ends), 0);
  pid_t pid = fork();
  assert_true(pid >= 0);
  if (pid == 0) {
    const char *failure = run();
    if (failure != NULL && write(ends[1], failure, strlen(failure)) < 0) _exit(2);
    _exit(0);
  }
  close(ends[1]);
  ssize_t length = read(ends[0], said, sizeof(said) - 1);
  close(ends[0]);
  int status;
  waitpid(pid, &status, 0);
  if (strncmp(said, SKIPPED, strlen(SKIPPED)) == 0) {
    print_message("%s\n", said);
    skip();
  }
  if (length > 0) fail_msg("%s", said);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) fail_msg("the child ended by %d", status);
}

static bool says(const p3l_error *error, const char *a, const char *b, const char *c) {
  return strstr(error->message, a) != NULL && strstr(error->message, b) != NULL &&
         strstr(error->message, c) != NULL;
}

/* ---- a store of some pages, each full of its number ---- */

enum { PAGES = 20 };

static p3l_code write_page(p3l_pager *pager, uint64_t number, uint8_t value, p3l_error *error) {
  p3l_pager_transaction *transaction;
  p3l_page_number allocated = {number};
  p3l_page *page;
  p3l_code code = p3l_pager_begin(pager, &transaction, error);
  if (code != P3L_OK) return code;
  code = number < p3l_pager_page_count(pager)
             ? p3l_page_for_writing(transaction, allocated, &page, error)
             : p3l_page_allocate(transaction, &allocated, &page, error);
  if (code != P3L_OK) {
    p3l_pager_abort(transaction);
    return code;
  }
  memset(page->payload, value, sizeof(page->payload));
  p3l_page_changed(transaction, page, 0, P3L_PAGE_SIZE);
  return p3l_pager_commit(transaction, error);
}

static p3l_code open_store(bool read_only, p3l_pager **pager, p3l_error *error) {
  p3l_pager_options options = {.read_only = read_only};
  return p3l_pager_open(path, &options, pager, NULL, error);
}

static p3l_code make_store(p3l_error *error) {
  p3l_pager *pager;
  p3l_code code = p3l_store_create(path, error);
  if (code == P3L_OK) code = open_store(false, &pager, error);
  if (code != P3L_OK) return code;
  for (uint64_t number = 1; number <= PAGES && code == P3L_OK; number++)
    code = write_page(pager, number, (uint8_t)number, error);
  p3l_code closed = p3l_pager_close(pager, code == P3L_OK ? error : NULL);
  return code == P3L_OK ? closed : code;
}

/* The pages are as make_store() left them, apart from `except`. */
static p3l_code check_pages(p3l_pager *pager, uint64_t except, p3l_error *error) {
  p3l_page page;
  for (uint64_t number = 1; number <= PAGES; number++) {
    if (number == except) continue;
    p3l_code code = p3l_pager_read(pager, (p3l_page_number){number}, &page, error);
    if (code != P3L_OK) return code;
    if (page.payload[0] != number || page.payload[4000] != number)
      return p3l_fail(error, P3L_MISUSE, "page %d has something else in it", (int)number);
  }
  return P3L_OK;
}

static bool change_file(const char *name, off_t at, const void *bytes, size_t length) {
  int file = open(name, O_WRONLY);
  bool done = file >= 0 && pwrite(file, bytes, length, at) == (ssize_t)length;
  if (file >= 0) close(file);
  return done;
}

/* ---- full disks ---- */

/* Fills the store until a lack of space is reported. Earlier commits stay. */
static const char *fill_up(const char *cause) {
  p3l_error error = {.message = ""};
  p3l_pager *pager;
  p3l_page page;
  uint64_t last = PAGES;
  CHECK(open_store(false, &pager, &error) == P3L_OK);
  p3l_code code;
  while ((code = write_page(pager, last + 1, 77, &error)) == P3L_OK) last++;
  CHECK(code == P3L_NO_SPACE);
  CHECK(says(&error, log_path, "appending", cause));
  CHECK(last > PAGES); /* there was space for some pages */
  CHECK(p3l_pager_page_count(pager) == last + 1);
  CHECK(check_pages(pager, 0, &error) == P3L_OK);
  CHECK(p3l_pager_read(pager, (p3l_page_number){last}, &page, &error) == P3L_OK);
  CHECK(page.payload[0] == 77);
  /* Closing needs space in the file for the pages in the log. Without it, they stay in the log. */
  code = p3l_pager_close(pager, &error);
  CHECK(code == P3L_OK || (code == P3L_NO_SPACE && says(&error, path, "writing", cause)));
  CHECK(open_store(true, &pager, &error) == P3L_OK);
  CHECK(p3l_pager_page_count(pager) == last + 1);
  CHECK(check_pages(pager, 0, &error) == P3L_OK);
  CHECK(p3l_pager_close(pager, &error) == P3L_OK);
  return NULL;
}

static const char *file_size_limit(void) {
  p3l_error error = {.message = ""};
  struct rlimit limit = {300 << 10, RLIM_INFINITY};
  CHECK(make_store(&error) == P3L_OK);
  signal(SIGXFSZ, SIG_IGN);
  CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
  const char *failure = fill_up("File too large");
  if (failure != NULL) return failure;
  /* The limit is removed, and the store continues. */
  p3l_pager *pager;
  limit.rlim_cur = RLIM_INFINITY;
  CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
  CHECK(open_store(false, &pager, &error) == P3L_OK);
  CHECK(write_page(pager, 1000, 78, &error) == P3L_OK);
  CHECK(p3l_pager_close(pager, &error) == P3L_OK);
  return NULL;
}

static const char *full_tmpfs(void) {
  p3l_error error = {.message = ""};
  if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
      mount("none", folder, "tmpfs", 0, "size=512k") != 0)
    return SKIPPED "this process may not mount a small file system";
  CHECK(make_store(&error) == P3L_OK);
  const char *failure = fill_up("No space left on device");
  if (failure != NULL) return failure;
  p3l_pager *pager;
  CHECK(mount("none", folder, "tmpfs", MS_REMOUNT, "size=4m") == 0);
  CHECK(open_store(false, &pager, &error) == P3L_OK);
  CHECK(write_page(pager, 1000, 78, &error) == P3L_OK);
  CHECK(p3l_pager_close(pager, &error) == P3L_OK);
  /* Creating a store does not leave an incomplete one either. */
  CHECK(mount("none", folder, "tmpfs", MS_REMOUNT, "size=1m") == 0);
  char name[100];
  snprintf(name, sizeof(name), "%s/filler", folder);
  int filler = open(name, O_CREAT | O_WRONLY, 0600);
  static const char block[4096];
  while (write(filler, block, sizeof(block)) > 0) continue;
  snprintf(name, sizeof(name), "%s/another", folder);
  CHECK(p3l_store_create(name, &error) == P3L_NO_SPACE);
  CHECK(says(&error, name, "No space left", ""));
  CHECK(access(name, F_OK) != 0);
  return NULL;
}

static void a_full_disk_is_told_and_nothing_is_lost(void **state) {
  (void)state;
  in_child(file_size_limit);
}
static void a_full_file_system_too(void **state) {
  (void)state;
  in_child(full_tmpfs);
}

/* ---- files that may not be written ---- */

static const char *no_permission(void) {
  p3l_error error = {.message = ""};
  p3l_pager *pager;
  CHECK(make_store(&error) == P3L_OK);
  CHECK(chmod(path, 0444) == 0 && chmod(log_path, 0444) == 0 && chmod(folder, 0755) == 0);
  if (geteuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0))
    return SKIPPED "this user namespace has root alone, who may write to every file";
  CHECK(open_store(false, &pager, &error) == P3L_IO);
  CHECK(says(&error, path, "opening it", "Permission denied"));
  CHECK(open_store(true, &pager, &error) == P3L_OK);
  CHECK(check_pages(pager, 0, &error) == P3L_OK);
  CHECK(write_page(pager, 1, 99, &error) == P3L_READ_ONLY);
  CHECK(says(&error, path, "reading only", ""));
  CHECK(p3l_pager_checkpoint(pager, &error) == P3L_READ_ONLY);
  CHECK(p3l_pager_close(pager, &error) == P3L_OK);
  return NULL;
}

static const char *read_only_file_system(void) {
  p3l_error error = {.message = ""};
  p3l_pager *pager;
  if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
      mount("none", folder, "tmpfs", 0, "size=1m") != 0)
    return SKIPPED "this process may not mount a small file system";
  CHECK(make_store(&error) == P3L_OK);
  CHECK(mount("none", folder, "tmpfs", MS_REMOUNT | MS_RDONLY, "size=1m") == 0);
  CHECK(open_store(false, &pager, &error) == P3L_READ_ONLY);
  CHECK(says(&error, path, "Read-only file system", ""));
  CHECK(open_store(true, &pager, &error) == P3L_OK);
  CHECK(check_pages(pager, 0, &error) == P3L_OK);
  CHECK(p3l_pager_close(pager, &error) == P3L_OK);
  return NULL;
}

static void a_file_that_may_not_be_written_can_be_read(void **state) {
  (void)state;
  in_child(no_permission);
}
static void a_read_only_file_system_too(void **state) {
  (void)state;
  in_child(read_only_file_system);
}

/* ---- files that belong to no store ---- */

static const char *foreign_files(void) {
  p3l_error error = {.message = ""};
  p3l_pager *pager;
  uint32_t version = 3, order = 0x04030201, pages = 16384;
  const struct {
    const char *name;
    off_t at;
    const void *bytes;
    size_t length;
    p3l_code code;
    const char *cause;
  } cases[] = {
      {path, 32, "SQLite format 3", 16, P3L_NOT_A_STORE,
       "its first bytes are not those of a store"},
      {path, 48, &version, 4, P3L_WRONG_VERSION, "has version 3 of the format"},
      {path, 52, &order, 4, P3L_WRONG_MACHINE, "another byte order"},
      {path, 56, &pages, 4, P3L_WRONG_MACHINE, "has pages of 16384 bytes"},
      {path, 60, "\4", 1, P3L_WRONG_MACHINE, "pointer size"},
      {path, 70, "another store", 13, P3L_NOT_A_STORE, "is the log of another store"},
      {path, 200, "x", 1, P3L_CORRUPT, "page 0 does not have the checksum"},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
    unlink(path);
    unlink(log_path);
    CHECK(make_store(&error) == P3L_OK);
    CHECK(change_file(cases[i].name, cases[i].at, cases[i].bytes, cases[i].length));
    struct stat before, after;
    CHECK(stat(path, &before) == 0);
    for (int read_only = 0; read_only < 2; read_only++) {
      CHECK(open_store(read_only, &pager, &error) == cases[i].code);
      CHECK(says(&error, path, cases[i].cause, ""));
    }
    CHECK(stat(path, &after) == 0); /* the file was not changed */
    CHECK(before.st_size == after.st_size && before.st_mtim.tv_nsec == after.st_mtim.tv_nsec);
  }
  return NULL;
}

static const char *foreign_logs(void) {
  p3l_error error = {.message = ""};
  p3l_pager *pager;
  char kept[100];
  snprintf(kept, sizeof(kept), "%s-log", path);
  CHECK(make_store(&error) == P3L_OK);
  CHECK(truncate(log_path, 0) == 0);
  CHECK(open_store(false, &pager, &error) == P3L_CORRUPT);
  CHECK(says(&error, log_path, "no readable header", "restore"));
  unlink(log_path);
  CHECK(open_store(false, &pager, &error) == P3L_CORRUPT);
  CHECK(says(&error, log_path, "is missing", "put it back"));
  CHECK(access(log_path, F_OK) != 0); /* no new log was created */
  unlink(path);
  CHECK(mkfifo(path, 0600) == 0);
  CHECK(open_store(false, &pager, &error) == P3L_NOT_A_STORE);
  CHECK(says(&error, path, "not a regular file", ""));
  unlink(path);
  CHECK(mkdir(path, 0700) == 0);
  CHECK(open_store(true, &pager, &error) == P3L_IO);
  CHECK(says(&error, path, "Is a directory", ""));
  rmdir(path);
  CHECK(open_store(true, &pager, &error) == P3L_IO);
  CHECK(says(&error, path, "No such file", ""));
  return NULL;
}

static void foreign_files_are_told_by_what_they_are(void **state) {
  (void)state;
  in_child(foreign_files);
}
static void foreign_and_missing_logs_are_told(void **state) {
  (void)state;
  in_child(foreign_logs);
}

/* ---- two writers ---- */

static const char *second_process(void) {
  p3l_error error = {.message = ""};
  p3l_pager *pager;
  CHECK(open_store(false, &pager, &error) == P3L_BUSY);
  CHECK(says(&error, path, "another process", "writes to it"));
  p3l_pager_options alone = {.read_only = true, .excludes_writers = true};
  CHECK(p3l_pager_open(path, &alone, &pager, NULL, &error) == P3L_BUSY);
  CHECK(says(&error, path, "open for writing by another process", "without excluding writers"));
  CHECK(open_store(true, &pager, &error) == P3L_OK);
  CHECK(p3l_pager_close(pager, &error) == P3L_OK);
  return NULL;
}

static const char *after_the_writer_died(void) {
  p3l_error error = {.message = ""};
  p3l_pager *pager;
  CHECK(open_store(false, &pager, &error) == P3L_OK);
  CHECK(check_pages(pager, 5, &error) == P3L_OK);
  p3l_page page;
  CHECK(p3l_pager_read(pager, (p3l_page_number){5}, &page, &error) == P3L_OK);
  CHECK(page.payload[0] == 55);
  CHECK(p3l_pager_close(pager, &error) == P3L_OK);
  return NULL;
}

static void a_second_writer_is_told_and_harms_nothing(void **state) {
  (void)state;
  p3l_error error;
  p3l_pager *pager;
  int ends[2], status;
  char ready;
  assert_int_equal(make_store(&error), P3L_OK);
  assert_int_equal(pipe(ends), 0);
  pid_t writer = fork();
  if (writer == 0) { /* commits, then waits until it is killed */
    if (open_store(false, &pager, &error) != P3L_OK || write_page(pager, 5, 55, &error) != P3L_OK ||
        write(ends[1], "!", 1) != 1)
      _exit(1);
    pause();
    _exit(0);
  }
  close(ends[1]);
  assert_int_equal(read(ends[0], &ready, 1), 1);
  close(ends[0]);
  in_child(second_process);
  kill(writer, SIGKILL);
  waitpid(writer, &status, 0);
  in_child(after_the_writer_died);
}

/* ---- pages that were changed while the store was closed ---- */

static void count_fault(void *state, const char *said) {
  if (strstr(said, "page 7 does not have the checksum") != NULL) (*(int *)state)++;
}

static const char *corrupt_page(void) {
  p3l_error error = {.message = ""};
  p3l_pager *pager;
  p3l_page page;
  p3l_verification verification;
  int told = 0;
  CHECK(make_store(&error) == P3L_OK);
  CHECK(change_file(path, 7 * P3L_PAGE_SIZE + 1234, "x", 1));
  CHECK(open_store(false, &pager, &error) == P3L_OK);
  CHECK(p3l_pager_read(pager, (p3l_page_number){7}, &page, &error) == P3L_CORRUPT);
  CHECK(says(&error, path, "page 7", "checksum"));
  CHECK(check_pages(pager, 7, &error) == P3L_OK);
  CHECK(p3l_pager_verify(pager, count_fault, &told, &verification, &error) == P3L_OK);
  CHECK(told == 1 && verification.faults == 1);
  /* The damaged page cannot be changed, but the others can. */
  CHECK(write_page(pager, 7, 70, &error) == P3L_CORRUPT);
  CHECK(write_page(pager, 8, 8, &error) == P3L_OK);
  CHECK(write_page(pager, PAGES + 1, 21, &error) == P3L_OK);
  CHECK(p3l_pager_close(pager, &error) == P3L_OK);
  CHECK(open_store(true, &pager, &error) == P3L_OK);
  CHECK(check_pages(pager, 7, &error) == P3L_OK);
  CHECK(p3l_pager_read(pager, (p3l_page_number){7}, &page, &error) == P3L_CORRUPT);
  CHECK(p3l_pager_close(pager, &error) == P3L_OK);
  return NULL;
}

static const char *cut_off_file(void) {
  p3l_error error = {.message = ""};
  p3l_pager *pager;
  p3l_page page;
  CHECK(make_store(&error) == P3L_OK);
  CHECK(truncate(path, PAGES * P3L_PAGE_SIZE + 100) == 0); /* half of the last page */
  CHECK(open_store(true, &pager, &error) == P3L_OK);
  CHECK(p3l_pager_read(pager, (p3l_page_number){PAGES}, &page, &error) == P3L_CORRUPT);
  CHECK(says(&error, path, "page 20 is missing", "too short"));
  CHECK(check_pages(pager, PAGES, &error) == P3L_OK);
  CHECK(p3l_pager_close(pager, &error) == P3L_OK);
  CHECK(truncate(path, 5 * P3L_PAGE_SIZE) == 0);
  CHECK(open_store(false, &pager, &error) == P3L_CORRUPT);
  CHECK(says(&error, path, "counts 21 pages", "restore it from a copy"));
  CHECK(truncate(path, 100) == 0);
  CHECK(open_store(false, &pager, &error) == P3L_NOT_A_STORE);
  CHECK(says(&error, path, "too short", ""));
  return NULL;
}

static void a_corrupt_page_harms_no_other(void **state) {
  (void)state;
  in_child(corrupt_page);
}
static void a_file_that_was_cut_off_is_told(void **state) {
  (void)state;
  in_child(cut_off_file);
}

/* ---- no memory ---- */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
static const char *little_memory(void) {
  return SKIPPED "a sanitizer needs more memory than the limit would leave";
}
#else
static const char *little_memory(void) {
  p3l_error error = {.message = ""};
  p3l_pager *pager;
  p3l_pager_transaction *transaction;
  p3l_page_number number;
  p3l_page *page;
  struct rlimit limit = {64 << 20, RLIM_INFINITY}, now;
  CHECK(make_store(&error) == P3L_OK);
  CHECK(open_store(false, &pager, &error) == P3L_OK);
  CHECK(setrlimit(RLIMIT_AS, &limit) == 0 && getrlimit(RLIMIT_AS, &now) == 0);
  if (now.rlim_cur != limit.rlim_cur)
    return SKIPPED "a limit of addresses (RLIMIT_AS) has no effect, as in qemu-user";
  CHECK(p3l_pager_begin(pager, &transaction, &error) == P3L_OK);
  p3l_code code;
  while ((code = p3l_page_allocate(transaction, &number, &page, &error)) == P3L_OK) continue;
  CHECK(code == P3L_NO_MEMORY);
  CHECK(says(&error, path, "no memory", "page"));
  p3l_pager_abort(transaction);
  CHECK(p3l_pager_page_count(pager) == PAGES + 1);
  CHECK(check_pages(pager, 0, &error) == P3L_OK);
  CHECK(write_page(pager, 5, 5, &error) == P3L_OK);
  CHECK(p3l_pager_close(pager, &error) == P3L_OK);
  return NULL;
}
#endif

static void no_memory_costs_the_transaction(void **state) {
  (void)state;
  in_child(little_memory);
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)

int main(void) {
  const struct CMUnitTest tests[] = {IN_FOLDER(a_full_disk_is_told_and_nothing_is_lost),
                                     IN_FOLDER(a_full_file_system_too),
                                     IN_FOLDER(a_file_that_may_not_be_written_can_be_read),
                                     IN_FOLDER(a_read_only_file_system_too),
                                     IN_FOLDER(foreign_files_are_told_by_what_they_are),
                                     IN_FOLDER(foreign_and_missing_logs_are_told),
                                     IN_FOLDER(a_second_writer_is_told_and_harms_nothing),
                                     IN_FOLDER(a_corrupt_page_harms_no_other),
                                     IN_FOLDER(a_file_that_was_cut_off_is_told),
                                     IN_FOLDER(no_memory_costs_the_transaction)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
