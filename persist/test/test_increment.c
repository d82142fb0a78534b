/*
 * The commands for increments, restoring and following, beside a process that writes: a restored
 * store is one complete committed version; kills leave no partial file; wrong files are refused.
 */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>

#include "programs.h"

/* Accounts with transfers between them: the sum of the balances is 0. And a list that grows by EACH
 * items at a time, and sometimes loses its first one. */
typedef struct account {
  int64_t holds;
} account;
P3L_PLAIN_TYPE(account, account, 1);
typedef struct item {
  uint64_t number;
  struct item *next;
} item;
P3L_TYPE(item, item, 1, P3L_POINTERS(item, next));

enum { ACCOUNTS = 3000, EACH = 7 };
static char copies[PATH_MAX + 32];

static void make_folders(void) {
  make_folder();
  snprintf(copies, sizeof(copies), "%s/copies", program_folder);
  assert_int_equal(mkdir(copies, 0700), 0);
}

static void drop_folders(void) {
  char line[PATH_MAX + 64];
  snprintf(line, sizeof(line), "rm -r %s", program_folder);
  assert_int_equal(system(line), 0);
}

static void change(p3l_store *store, uint64_t n) {
  p3l_error error;
  account *accounts = p3l_root(store, "accounts");
  begin_in(store);
  if (accounts == NULL) {
    accounts = p3l_new_array(store, account, ACCOUNTS);
    p3l_set_root(store, "accounts", accounts);
  }
  uint64_t from = n * 7919 % ACCOUNTS, to = n * 104729 % ACCOUNTS;
  P3L_SET(accounts[from].holds, accounts[from].holds - (int64_t)n);
  P3L_SET(accounts[to].holds, accounts[to].holds + (int64_t)n);
  for (int i = 0; i < EACH; i++) {
    item *made = p3l_new(store, item), *last = p3l_root(store, "last");
    made->number = last == NULL ? 1 : last->number + 1;
    made->next = last;
    p3l_set_root(store, "last", made);
  }
  if (n % 3 == 0) {
    item *last = p3l_root(store, "last"), *gone = P3L_LD(last->next);
    P3L_SET(last->next, P3L_LD(gone->next));
    p3l_delete(store, gone);
  }
  EXPECT(p3l_commit(store, &error) == P3L_OK);
}

static p3l_store *open_for_changes(void) {
  p3l_store *store;
  p3l_error error;
  p3l_options options = {.create = true, .checkpoint_bytes = 128 << 10};
  EXPECT(p3l_open(program_path, &options, &store, &error) == P3L_OK);
  return store;
}

static uint64_t first_change, changes;
static void make_changes(void) {
  p3l_store *store = open_for_changes();
  for (uint64_t n = first_change; n < first_change + changes; n++) change(store, n);
  close_store(store);
}

static void run_changes(uint64_t count) {
  first_change += changes;
  changes = count;
  run_program(make_changes);
}

/* Makes changes until it is killed, and reports the first one. */
static pid_t start_writer(void) {
  int ends[2];
  char ready;
  assert_int_equal(pipe(ends), 0);
  fflush(NULL);
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    p3l_store *store = open_for_changes();
    for (uint64_t n = 1;; n++) {
      change(store, n);
      if (n == 1) EXPECT(write(ends[1], "!", 1) == 1);
    }
  }
  assert_int_equal(read(ends[0], &ready, 1), 1);
  close(ends[0]);
  close(ends[1]);
  return child;
}

static void end_writer(pid_t writer) {
  kill(writer, SIGKILL);
  waitpid(writer, NULL, 0);
}

/* ---- the command ---- */

static char printed[65536];

/* Runs `words`, with @ for the folder of copies and % for the store. @return the exit status. */
static int run(const char *words) {
  char line[8 * PATH_MAX];
  size_t used = (size_t)snprintf(line, sizeof(line), "exec 2>&1; %s ", P3L_COMMAND);
  for (; *words != 0; words++) {
    const char *text = *words == '@' ? copies : *words == '%' ? program_path : NULL;
    assert_true(used + PATH_MAX < sizeof(line));
    if (text != NULL)
      used += (size_t)snprintf(line + used, sizeof(line) - used, "%s", text);
    else
      line[used++] = *words;
  }
  line[used] = 0;
  FILE *from = popen(line, "r");
  assert_non_null(from);
  size_t length = fread(printed, 1, sizeof(printed) - 1, from);
  printed[length] = 0;
  return WEXITSTATUS(pclose(from));
}

static void must_run(const char *words) {
  if (run(words) != 0) fail_msg("p3l %s: %s", words, printed);
}

static void must_fail(const char *words, const char *sentence) {
  assert_int_equal(run(words), 1);
  if (strstr(printed, sentence) == NULL) fail_msg("\"%s\" does not say \"%s\"", printed, sentence);
}

static bool exists(const char *name) {
  char path[2 * PATH_MAX];
  snprintf(path, sizeof(path), "%s/%s", copies, name);
  return access(path, F_OK) == 0;
}

static uint64_t printed_version(void) {
  const char *at = strstr(printed, "version ");
  assert_non_null(at);
  return strtoull(at + 8, NULL, 10);
}

/* The restored store is one complete version. */
static void look_at_restored(void) {
  char path[PATH_MAX + 64];
  p3l_store *store;
  p3l_error error;
  snprintf(path, sizeof(path), "%s/restored", copies);
  if (p3l_open(path, &(p3l_options){.read_only = true}, &store, &error) != P3L_OK) {
    fprintf(stderr, "%s\n", error.message);
    _exit(1);
  }
  const account *accounts = p3l_root(store, "accounts");
  int64_t sum = 0;
  for (int i = 0; i < ACCOUNTS; i++) sum += accounts[i].holds;
  EXPECT(sum == 0);
  item *at = p3l_root(store, "last");
  EXPECT(at->number % EACH == 0);
  for (uint64_t before = at->number + 1; at != NULL; before = at->number, at = P3L_LD(at->next))
    EXPECT(at->number < before && at->number + 2 >= before);
  close_store(store);
}

static void drop_restored(void) {
  char path[PATH_MAX + 64];
  snprintf(path, sizeof(path), "%s/restored", copies);
  unlink(path);
  strcat(path, "-log");
  unlink(path);
}

/* The restored store has the original's pages: p3l dump prints the same of both. */
static void is_as_the_original(void) {
  char line[8 * PATH_MAX];
  snprintf(line, sizeof(line), "%s dump %s | cmp - <(%s dump %s/restored)", P3L_COMMAND,
           program_path, P3L_COMMAND, copies);
  setenv("COMPARE", line, 1);
  assert_int_equal(system("bash -c \"$COMPARE\""), 0);
}

/* ---- increments ---- */

static void chains_of_increments(void **state) {
  (void)state;
  make_folders();
  run_changes(300);
  must_run("backup % @/full");
  run_changes(5);
  must_run("backup --since @/full % @/1");
  assert_non_null(strstr(printed, "checked"));
  uint64_t first = printed_version();
  run_changes(400);
  must_run("backup --since @/1 % @/2");
  must_run("backup --since @/full % @/both");
  must_run("backup --since @/2 % @/nothing");
  assert_non_null(strstr(printed, " 0 of "));
  must_run("restore @/full @/1 @/2 @/nothing @/restored");
  must_run("verify @/restored");
  is_as_the_original();
  run_program(look_at_restored);
  drop_restored();
  must_run("restore @/full @/both @/restored");
  is_as_the_original();
  drop_restored();
  /* An increment that begins before the end of the previous one. */
  must_run("restore @/full @/1 @/both @/restored");
  is_as_the_original();
  drop_restored();
  char words[256];
  snprintf(words, sizeof(words), "restore --at %llu @/full @/1 @/2 @/restored",
           (unsigned long long)first);
  must_run(words);
  assert_int_equal(printed_version(), first);
  run_program(look_at_restored);
  drop_restored();
  drop_folders();
}

/* Only some pages changed: an increment is smaller than a backup. */
static void an_increment_has_what_changed(void **state) {
  (void)state;
  make_folders();
  run_changes(2000);
  must_run("backup % @/full");
  run_changes(1);
  must_run("backup --since @/full % @/1");
  unsigned long long pages = 0, all = 0;
  assert_int_equal(sscanf(strstr(printed, ": "), ": %llu of %llu pages", &pages, &all), 2);
  assert_in_range(pages, 3, 20);
  assert_true(all > 60);
  struct stat status;
  char path[PATH_MAX + 64];
  snprintf(path, sizeof(path), "%s/1", copies);
  assert_int_equal(stat(path, &status), 0);
  assert_int_equal(status.st_size, (pages + 1) * 4096);
  drop_folders();
}

static void load_much(void) {
  p3l_error error;
  p3l_store *store = open_for_changes();
  EXPECT(p3l_load_begin(store, &error) == P3L_OK);
  for (uint64_t n = first_change; n < first_change + changes; n++) change(store, n);
  EXPECT(p3l_load_end(store, &error) == P3L_OK);
  close_store(store);
}

static void what_a_load_made_is_in_an_increment(void **state) {
  (void)state;
  make_folders();
  run_changes(50);
  must_run("backup % @/full");
  first_change += changes;
  changes = 3000;
  run_program(load_much);
  must_run("backup --since @/full % @/1");
  must_run("restore @/full @/1 @/restored");
  is_as_the_original();
  run_program(look_at_restored);
  drop_folders();
}

static void spoil(const char *name, off_t at) {
  char path[PATH_MAX + 64], byte;
  snprintf(path, sizeof(path), "%s/%s", copies, name);
  int file = open(path, O_RDWR);
  assert_true(file >= 0);
  assert_int_equal(pread(file, &byte, 1, at), 1);
  byte = (char)(byte ^ 0x10);
  assert_int_equal(pwrite(file, &byte, 1, at), 1);
  close(file);
}

static void cut(const char *name, off_t length) {
  char path[PATH_MAX + 64];
  snprintf(path, sizeof(path), "%s/%s", copies, name);
  assert_int_equal(truncate(path, length), 0);
}

static void write_to_full(void) {
  char path[PATH_MAX + 64];
  p3l_store *store;
  p3l_error error;
  snprintf(path, sizeof(path), "%s/full", copies);
  EXPECT(p3l_open(path, NULL, &store, &error) == P3L_OK);
  change(store, 5);
  close_store(store);
}

static void wrong_files_are_refused(void **state) {
  (void)state;
  int refused = 0;
  make_folders();
  run_changes(100);
  must_run("backup % @/full");
  run_changes(100);
  must_run("backup --since @/full % @/1");
  run_changes(100);
  must_run("backup --since @/1 % @/2");
  must_fail("restore @/full @/2 @/restored", "one between them is missing");
  must_fail("restore @/full @/2 @/1 @/restored", "one between them is missing");
  must_fail("restore @/1 @/2 @/restored", "give the backup and the increments before it first");
  must_fail("restore % @/restored", "is a store, but not a backup");
  must_fail("restore --at 1 @/full @/1 @/restored", "before the first");
  must_fail("backup --since @/1 @/full @/3", "of another store");
  must_fail("backup --since @/1 % @/2", "exists");
  must_fail("restore @/full @/1 @/2 @/full", "exists");
  must_run("restore @/full @/1 @/restored");
  must_fail("backup --since @/full @/restored @/3", "of another store");
  drop_restored();
  assert_int_equal(run("restore @/full"), 2);
  assert_int_equal(run("restore --at now @/full @/restored"), 2);
  for (off_t at = 0; at < 3 * 4096; at += 1531) {
    spoil("1", at);
    if (run("restore @/full @/1 @/2 @/restored") == 0) {
      /* A page that the next increment also has is read only from there. */
      is_as_the_original();
      drop_restored();
    } else {
      refused++;
    }
    assert_false(exists("restored") || exists("restored-log") || exists("restored-new") ||
                 exists("restored-new-log"));
    spoil("1", at);
    spoil("2", at);
    assert_int_equal(run("restore @/full @/1 @/2 @/restored"), 1);
    assert_false(exists("restored") || exists("restored-log") || exists("restored-new"));
    spoil("2", at);
  }
  assert_true(refused >= 3); /* the head's */
  must_run("restore @/full @/1 @/2 @/restored");
  is_as_the_original();
  drop_restored();
  cut("2", 4096);
  must_fail("restore @/full @/1 @/2 @/restored", "does not have the length");
  run_program(write_to_full);
  must_fail("restore @/full @/1 @/restored", "written to since");
  must_fail("backup --since @/full % @/3", "written to since");
  assert_false(exists("restored") || exists("3") || exists("3-new"));
  drop_folders();
}

/* ---- following ---- */

static pid_t start_follower(void) {
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    execl(P3L_COMMAND, P3L_COMMAND, "follow", "--quiet", program_path, copies, (char *)NULL);
    _exit(1);
  }
  return child;
}

static int shipped_files(void) {
  int count = 0;
  DIR *entries = opendir(copies);
  assert_non_null(entries);
  for (struct dirent *entry; (entry = readdir(entries)) != NULL;)
    count += strstr(entry->d_name, ".p3l-version") != NULL;
  closedir(entries);
  return count;
}

static void remove_shipped(void) {
  char line[PATH_MAX + 64];
  snprintf(line, sizeof(line), "rm -f %s/*", copies);
  assert_int_equal(system(line), 0);
}

/* Followers are killed after 1, 2, 4 ... ms: the files that they left can be restored. */
static void followers_are_killed(void **state) {
  (void)state;
  make_folders();
  pid_t writer = start_writer();
  int begun = 0;
  for (int i = 0; i < 24; i++) {
    if (i % 8 == 7) remove_shipped(); /* kills of the first, whole version, too */
    pid_t follower = start_follower();
    usleep(500u << i % 8);
    kill(follower, SIGKILL);
    waitpid(follower, NULL, 0);
    if (shipped_files() == 0) {
      must_fail("restore @ @/restored", "has written nothing there yet");
      continue;
    }
    begun++;
    must_run("restore @ @/restored");
    run_program(look_at_restored);
    drop_restored();
  }
  must_run("follow --once % @");
  end_writer(writer);
  must_run("follow --once % @");
  must_run("restore @ @/restored");
  must_run("verify @/restored");
  is_as_the_original();
  printf("           %d of 24 killed followers had shipped a version, %d files\n", begun,
         shipped_files());
  drop_folders();
}

static void wait_for_files(int count) {
  for (int waited = 0; shipped_files() < count; waited++) {
    assert_true(waited < 120000);
    usleep(1000);
  }
}

/* Each shipped version can be restored; a follower ends cleanly on request. */
static void every_version_can_be_restored(void **state) {
  (void)state;
  make_folders();
  pid_t writer = start_writer();
  pid_t follower = start_follower();
  wait_for_files(6);
  kill(follower, SIGTERM);
  int status;
  assert_int_equal(waitpid(follower, &status, 0), follower);
  assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  end_writer(writer);
  DIR *entries = opendir(copies);
  assert_non_null(entries);
  unsigned long long versions[1024];
  int count = 0;
  for (struct dirent *entry; (entry = readdir(entries)) != NULL && count < 1024;)
    if (strstr(entry->d_name, ".p3l-version") != NULL)
      versions[count++] = strtoull(entry->d_name, NULL, 10);
  closedir(entries);
  for (int i = 0; i < count && i < 10; i++) {
    char words[128];
    snprintf(words, sizeof(words), "restore --at %llu @ @/restored", versions[i]);
    must_run(words);
    assert_int_equal(printed_version(), versions[i]);
    run_program(look_at_restored);
    drop_restored();
  }
  drop_folders();
}

static void killed_restores_leave_nothing(void **state) {
  (void)state;
  make_folders();
  run_changes(300);
  must_run("backup % @/full");
  run_changes(300);
  must_run("backup --since @/full % @/1");
  for (int i = 0; i < 12; i++) {
    char full[PATH_MAX + 64], one[PATH_MAX + 64], restored[PATH_MAX + 64];
    snprintf(full, sizeof(full), "%s/full", copies);
    snprintf(one, sizeof(one), "%s/1", copies);
    snprintf(restored, sizeof(restored), "%s/restored", copies);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
      if (freopen("/dev/null", "w", stdout) == NULL) _exit(1);
      execl(P3L_COMMAND, P3L_COMMAND, "restore", full, one, restored, (char *)NULL);
      _exit(1);
    }
    usleep(250u << i % 6);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    if (!exists("restored")) must_run("restore @/full @/1 @/restored");
    is_as_the_original();
    drop_restored();
  }
  drop_folders();
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(chains_of_increments),
      cmocka_unit_test(an_increment_has_what_changed),
      cmocka_unit_test(what_a_load_made_is_in_an_increment),
      cmocka_unit_test(wrong_files_are_refused),
      cmocka_unit_test(followers_are_killed),
      cmocka_unit_test(every_version_can_be_restored),
      cmocka_unit_test(killed_restores_leave_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
