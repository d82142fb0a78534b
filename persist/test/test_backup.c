/*
 * Tests the commands p3l stat, verify and backup while another process writes: their output, and
 * the files that they leave.
 */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>

#include "programs.h"

typedef struct item {
  uint64_t number;
  struct item *next;
} item;
P3L_TYPE(item, item, 1, P3L_POINTERS(item, next));

static const char *command = P3L_COMMAND;

/* Also removes files left by a killed writer. */
static void drop_folder(void) {
  DIR *folder = opendir(program_folder);
  struct dirent *entry;
  assert_non_null(folder);
  while ((entry = readdir(folder)) != NULL)
    if (entry->d_name[0] != '.') unlinkat(dirfd(folder), entry->d_name, 0);
  closedir(folder);
  assert_int_equal(rmdir(program_folder), 0);
}

/* Creates items until it is killed, `each` per transaction, and reports when the first item
 * exists. */
static pid_t start_writer(unsigned each) {
  int ends[2];
  char ready;
  assert_int_equal(pipe(ends), 0);
  fflush(NULL);
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    p3l_store *store;
    p3l_error error;
    p3l_options options = {.create = true, .checkpoint_bytes = 128 << 10};
    EXPECT(p3l_open(program_path, &options, &store, &error) == P3L_OK);
    for (uint64_t n = 0;; n += each) {
      EXPECT(p3l_begin(store, &error) == P3L_OK);
      for (unsigned i = 0; i < each; i++) {
        item *made = p3l_new(store, item);
        made->number = n + i;
        made->next = p3l_root(store, "last");
        p3l_set_root(store, "last", made);
      }
      EXPECT(p3l_commit(store, &error) == P3L_OK);
      if (n == 0) EXPECT(write(ends[1], "!", 1) == 1);
    }
  }
  assert_int_equal(read(ends[0], &ready, 1), 1);
  close(ends[0]);
  close(ends[1]);
  return child;
}

/* Returns the exit status of `p3l WORDS`; `output` is what it printed, including errors. */
static int run(const char *words, char *output, size_t bytes) {
  char line[4 * PATH_MAX];
  snprintf(line, sizeof(line), "%s %s 2>&1", command, words);
  FILE *from = popen(line, "r");
  assert_non_null(from);
  size_t length = fread(output, 1, bytes - 1, from);
  output[length] = 0;
  return WEXITSTATUS(pclose(from));
}

static int run_on_store(const char *what, const char *more, char *output, size_t bytes) {
  char words[3 * PATH_MAX];
  snprintf(words, sizeof(words), "%s %s %s", what, program_path, more);
  return run(words, output, bytes);
}

static void expect_words(const char *output, const char *words) {
  if (strstr(output, words) == NULL) fail_msg("\"%s\" does not say \"%s\"", output, words);
}

enum { EACH = 7, TIMES = 12 };

static void stat_and_verify_beside_a_writer(void **state) {
  (void)state;
  char output[8192];
  make_folder();
  pid_t writer = start_writer(EACH);
  for (int i = 0; i < TIMES; i++) {
    int status = run_on_store("verify", "", output, sizeof(output));
    if (status != 0) fail_msg("%s", output);
    expect_words(output, "0 faults, 0 dangling");
    status = run_on_store("stat", "", output, sizeof(output));
    if (status != 0) fail_msg("%s", output);
    expect_words(output, "writer           another process");
  }
  kill(writer, SIGKILL);
  waitpid(writer, NULL, 0);
  assert_int_equal(run_on_store("stat", "", output, sizeof(output)), 0);
  assert_null(strstr(output, "another process"));
  drop_folder();
}

/* A copy contains complete transactions only: the numbers from the last one down to 0. */
static void look_at_copy(void) {
  char copy[PATH_MAX + 32];
  p3l_store *store;
  p3l_error error;
  snprintf(copy, sizeof(copy), "%s/copy", program_folder);
  if (p3l_open(copy, &(p3l_options){.read_only = true}, &store, &error) != P3L_OK) {
    fprintf(stderr, "%s\n", error.message);
    _exit(1);
  }
  item *at = p3l_root(store, "last");
  EXPECT(at != NULL && (at->number + 1) % EACH == 0);
  for (uint64_t expected = at->number; at != NULL; at = P3L_LD(at->next), expected--)
    EXPECT(at->number == expected);
  close_store(store);
}

/* Like look_at_copy(), and also writes to the copy. */
static void write_to_copy(void) {
  char copy[PATH_MAX + 32];
  p3l_store *store;
  p3l_error error;
  look_at_copy();
  snprintf(copy, sizeof(copy), "%s/copy", program_folder);
  EXPECT(p3l_open(copy, NULL, &store, &error) == P3L_OK);
  begin_in(store);
  EXPECT(p3l_set_root(store, "again", p3l_root(store, "last")) == P3L_OK);
  commit_and_close(store);
}

static bool exists(const char *name) {
  char path[PATH_MAX + 32];
  snprintf(path, sizeof(path), "%s/%s", program_folder, name);
  return access(path, F_OK) == 0;
}

static void remove_copy(void) {
  char path[PATH_MAX + 32];
  const char *names[] = {"copy", "copy-log", "copy-new", "copy-new-log"};
  for (size_t i = 0; i < 4; i++) {
    snprintf(path, sizeof(path), "%s/%s", program_folder, names[i]);
    unlink(path);
  }
}

static void backups_of_a_store_that_is_written(void **state) {
  (void)state;
  char output[8192], copy[PATH_MAX + 32];
  make_folder();
  snprintf(copy, sizeof(copy), "%s/copy", program_folder);
  pid_t writer = start_writer(EACH);
  for (int i = 0; i < TIMES; i++) {
    int status = run_on_store("backup", copy, output, sizeof(output));
    if (status != 0) fail_msg("%s", output);
    expect_words(output, "checked");
    run_program(i % 4 == 0 ? write_to_copy : look_at_copy);
    if (i == 0) {
      assert_int_equal(run_on_store("backup", copy, output, sizeof(output)), 1);
      expect_words(output, "exists");
    }
    remove_copy();
  }
  kill(writer, SIGKILL);
  waitpid(writer, NULL, 0);
  drop_folder();
}

/* After a kill at 1, 2, 4 ... ms the copy is complete or does not exist, and the next backup
 * succeeds. */
static void a_killed_backup_leaves_nothing(void **state) {
  (void)state;
  char output[8192], copy[PATH_MAX + 32];
  make_folder();
  snprintf(copy, sizeof(copy), "%s/copy", program_folder);
  pid_t writer = start_writer(EACH);
  int unfinished = 0;
  for (int i = 0; i < TIMES; i++) {
    pid_t backup = fork();
    assert_true(backup >= 0);
    if (backup == 0) {
      if (freopen("/dev/null", "w", stdout) == NULL) _exit(1);
      execl(command, command, "backup", program_path, copy, (char *)NULL);
      _exit(1);
    }
    usleep(500u << i % 6);
    kill(backup, SIGKILL);
    waitpid(backup, NULL, 0);
    if (!exists("copy")) {
      unfinished++;
      int status = run_on_store("backup", copy, output, sizeof(output));
      if (status != 0) fail_msg("%s", output);
    }
    run_program(look_at_copy);
    remove_copy();
  }
  assert_true(unfinished > 0);
  kill(writer, SIGKILL);
  waitpid(writer, NULL, 0);
  drop_folder();
}

static void arguments_are_checked(void **state) {
  (void)state;
  char output[8192];
  assert_int_equal(run("backup", output, sizeof(output)), 2);
  assert_int_equal(run("backup one", output, sizeof(output)), 2);
  assert_int_equal(run("backup one two three", output, sizeof(output)), 2);
  assert_int_equal(run("backup --help", output, sizeof(output)), 0);
  assert_int_equal(run("backup /nowhere/store /nowhere/copy", output, sizeof(output)), 1);
  expect_words(output, "/nowhere/store");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(stat_and_verify_beside_a_writer),
                                     cmocka_unit_test(backups_of_a_store_that_is_written),
                                     cmocka_unit_test(a_killed_backup_leaves_nothing),
                                     cmocka_unit_test(arguments_are_checked)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
