/* The files: who creates them, who may replace them, and which content is refused. */
#include "fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>

static const char *path_of(const char *name) {
  static char path[128];
  snprintf(path, sizeof path, "%s/%s", fixture_folder, name);
  return path;
}

static split_app_id begin(void) { return split_init_named("test", TEST_APP, 0xb2, SPLIT_KEY_TEXT); }

static void one_section(void) {
  split_start(0, "k");
  split_end();
}

static uint32_t code_of(const char *key) {
  return split_kind_of_key(split_mapping_in_use(), key, strlen(key));
}

/* Changes one word of the file, as damage or another version would. */
static void overwrite(const char *name, size_t at, uint64_t value, size_t length) {
  int file = open(path_of(name), O_RDWR);
  assert_true(file >= 0);
  assert_int_equal(pwrite(file, &value, length, (off_t)at), length);
  close(file);
}

/* Another process that uses the segment until it is ended. */
static pid_t neighbour(int *tell) {
  int up[2], down[2];
  assert_int_equal(pipe(up), 0);
  assert_int_equal(pipe(down), 0);
  pid_t child = fork();
  if (child == 0) {
    char byte = begin() ? 'y' : 'n';
    close(down[1]);
    one_section();
    if (write(up[1], &byte, 1) != 1) _exit(1);
    while (read(down[0], &byte, 1) > 0) continue;
    _exit(0);
  }
  char byte = 0;
  assert_int_equal(read(up[0], &byte, 1), 1);
  assert_int_equal(byte, 'y');
  close(up[0]);
  close(up[1]);
  close(down[0]);
  *tell = down[1];
  return child;
}

static void the_layout(void **state) {
  (void)state;
  assert_int_equal(begin(), TEST_APP);
  struct stat status;
  assert_int_equal(stat(path_of("app-a1.segment"), &status), 0);
  const struct split_header *h = header();
  assert_int_equal(status.st_size, h->size);
  assert_int_equal(h->size % 4096, 0);
  assert_int_equal(h->kinds_at, 4096);
  assert_int_equal(h->kinds, 1024);
  assert_int_equal(h->decisions_at, 4096 + 1024 * sizeof(struct split_kind));
  assert_true(h->records_at % 64 == 0 && h->traces_at % 64 == 0);
  assert_string_equal(h->name, "test");
  assert_true((uint64_t)status.st_blocks * 512 >= h->size); /* no holes */
  assert_true(h->cycles_per_second > 10000000);
}

static void processes_share_it(void **state) {
  (void)state;
  int tell;
  pid_t child = neighbour(&tell);
  assert_int_equal(begin(), TEST_APP);
  one_section();
  assert_int_equal(total_of(code_of("k")).count, 2);
  close(tell);
  waitpid(child, NULL, 0);
}

/* Statistics survive a restart if the segment's layout did not change. */
static void a_restart_goes_on(void **state) {
  (void)state;
  assert_int_equal(begin(), TEST_APP);
  one_section();
  split_close();
  assert_string_equal(split_problem(), "split_close was called");
  one_section(); /* off: no effect */
  assert_int_equal(begin(), TEST_APP);
  one_section();
  assert_int_equal(total_of(code_of("k")).count, 2);
}

static void of_another_version_and_in_use(void **state) {
  (void)state;
  int tell;
  pid_t child = neighbour(&tell);
  overwrite("app-a1.segment", offsetof(struct split_header, version), 99, 4);
  assert_int_equal(begin(), 0);
  assert_non_null(strstr(split_problem(), "another version"));
  assert_int_equal(split_start(0, "k"), SPLIT_CODE_NONE); /* and no other call has an effect */
  split_end();
  close(tell);
  waitpid(child, NULL, 0);
  assert_int_equal(begin(), TEST_APP); /* no process uses it any more: replaced */
  one_section();
  assert_int_equal(total_of(code_of("k")).count, 1);
}

static void damaged_and_in_use(void **state) {
  (void)state;
  static const struct {
    size_t at, length;
    uint64_t value;
  } damages[] = {
      {offsetof(struct split_header, magic), 8, 0},
      {offsetof(struct split_header, kinds), 4, UINT32_MAX},
      {offsetof(struct split_header, cpus), 4, 0},
      {offsetof(struct split_header, threads), 4, 1u << 30},
      {offsetof(struct split_header, record_size), 4, 8},
      {offsetof(struct split_header, records_at), 8, UINT64_MAX - 4095},
      {offsetof(struct split_header, traces_at), 8, 64},
      {offsetof(struct split_header, size), 8, UINT64_C(1) << 60},
      {offsetof(struct split_header, cycles_per_second), 8, 0},
      {offsetof(struct split_header, app_id), 4, 0xa2},
  };
  for (size_t i = 0; i < sizeof damages / sizeof *damages; i++) {
    int tell;
    pid_t child = neighbour(&tell);
    overwrite("app-a1.segment", damages[i].at, damages[i].value, damages[i].length);
    assert_int_equal(begin(), 0);
    assert_non_null(strstr(split_problem(), "damaged"));
    close(tell);
    waitpid(child, NULL, 0);
    assert_int_equal(begin(), TEST_APP); /* replaced */
    split_close();
  }
}

static void too_short_is_replaced(void **state) {
  (void)state;
  FILE *file = fopen(path_of("app-a1.segment"), "w");
  fputs("hello", file);
  fclose(file);
  assert_int_equal(begin(), TEST_APP);
  assert_int_equal(header()->magic, SPLIT_SEGMENT_MAGIC);
}

static void of_another_boot_is_replaced(void **state) {
  (void)state;
  assert_int_equal(begin(), TEST_APP);
  one_section();
  split_close();
  overwrite("app-a1.segment", offsetof(struct split_header, boot_id), 0x3030303030303030, 8);
  assert_int_equal(begin(), TEST_APP);
  one_section();
  assert_int_equal(total_of(code_of("k")).count, 1);
}

static void links_are_not_followed(void **state) {
  (void)state;
  char target[96];
  snprintf(target, sizeof target, "%s/victim", fixture_folder);
  assert_int_equal(symlink(target, path_of("app-a1.segment")), 0);
  assert_int_equal(begin(), 0);
  assert_non_null(strstr(split_problem(), "symbolic link"));
  assert_int_equal(access(target, F_OK), -1);
}

static void a_pipe_is_no_segment(void **state) {
  (void)state;
  assert_int_equal(mkfifo(path_of("app-a1.segment"), 0600), 0);
  assert_int_equal(begin(), 0);
  assert_non_null(strstr(split_problem(), "not a plain file"));
}

/* In a folder like /tmp, another user could truncate his file while it is mapped. */
static void files_of_others_in_a_crowded_folder(void **state) {
  (void)state;
  if (geteuid() != 0) skip(); /* only root can create one */
  assert_int_equal(chmod(fixture_folder, 01777), 0);
  assert_int_equal(begin(), TEST_APP);
  struct stat status;
  assert_int_equal(stat(path_of("app-a1.segment"), &status), 0);
  assert_int_equal(status.st_mode & 0777, 0600);
  split_close();
  assert_int_equal(chown(path_of("app-a1.segment"), 12345, 12345), 0);
  assert_int_equal(begin(), 0);
  assert_non_null(strstr(split_problem(), "belongs to another user (12345)"));
  assert_int_equal(chmod(fixture_folder, 0777), 0); /* users who may write here are trusted */
  assert_int_equal(begin(), TEST_APP);
  /* machine.segment is not trusted either: then only the process's own sections are known. */
  split_close();
  assert_int_equal(chmod(fixture_folder, 01777), 0);
  assert_int_equal(chown(path_of("app-a1.segment"), 0, 0), 0);
  assert_int_equal(chown(path_of("machine.segment"), 12345, 12345), 0);
  assert_int_equal(begin(), TEST_APP);
  assert_true(atomic_load(&header()->without) & SPLIT_WITHOUT_MACHINE);
  one_section();
  assert_int_equal(total_of(code_of("k")).count, 1);
}

static void a_folder_for_those_who_may_write_to_it(void **state) {
  (void)state;
  assert_int_equal(chmod(fixture_folder, 0770), 0);
  assert_int_equal(begin(), TEST_APP);
  struct stat status;
  assert_int_equal(stat(path_of("app-a1.segment"), &status), 0);
  assert_int_equal(status.st_mode & 0777, 0660);
}

/* A full disk is an error, not a SIGBUS later; an incomplete file never gets the name. */
static void without_room_it_stays_off(void **state) {
  (void)state;
  pid_t child = fork();
  if (child == 0) {
    struct rlimit limit = {100000, 100000};
    setrlimit(RLIMIT_FSIZE, &limit);
    _exit(begin() == 0 && strstr(split_problem(), "limit of file sizes") &&
                  access(path_of("app-a1.segment"), F_OK) != 0
              ? 0
              : 1);
  }
  int status;
  waitpid(child, &status, 0);
  assert_true(WIFEXITED(status));
  assert_int_equal(WEXITSTATUS(status), 0);
  split_configure("/proc/self");
  assert_int_equal(begin(), 0);
  assert_non_null(strstr(split_problem(), "/proc/self"));
  split_configure("/nowhere/at/all");
  assert_int_equal(begin(), 0);
  assert_non_null(strstr(split_problem(), "SPLIT_DIRECTORY"));
}

/* The same on a real file system that is too small, in a separate mount namespace. */
static void on_a_full_file_system_it_stays_off(void **state) {
  (void)state;
  pid_t child = fork();
  if (child == 0) {
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("none", fixture_folder, "tmpfs", 0, "size=256k,mode=700") != 0) {
      _exit(77);
    }
    split_app_id id = begin();
    _exit(id == 0 && strstr(split_problem(), "No space left on device") &&
                  access(path_of("app-a1.segment"), F_OK) != 0
              ? 0
              : 1);
  }
  int status;
  waitpid(child, &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
    print_message("skipped: no right to mount\n");
    skip();
  }
  assert_int_equal(status, 0);
}

static void locked_by_another_program(void **state) {
  (void)state;
  assert_int_equal(begin(), TEST_APP);
  split_close();
  int file = open(path_of("app-a1.segment"), O_RDWR);
  assert_int_equal(flock(file, LOCK_EX), 0);
  assert_int_equal(begin(), 0);
  assert_non_null(strstr(split_problem(), "locked"));
  close(file);
  assert_int_equal(begin(), TEST_APP);
}

static void bad_arguments(void **state) {
  (void)state;
  assert_int_equal(split_init(1u << 24, 0, SPLIT_KEY_TEXT), 0);
  assert_non_null(strstr(split_problem(), "1 to 16777215"));
  assert_int_equal(split_init(1, 0, (enum split_key_type)7), 0);
  assert_non_null(strstr(split_problem(), "key type"));
  split_app_id derived = split_init(SPLIT_APP_ANY, 0, SPLIT_KEY_TEXT);
  assert_true(derived > 0 && derived < 1u << 24);
  assert_string_equal(header()->name, program_invocation_short_name);
}

/*
 * Killed in a section, and even while writing a record: the other processes continue, and the next
 * one that needs the record repairs it.
 */
static void killed_inside(void **state) {
  (void)state;
  assert_int_equal(begin(), TEST_APP);
  one_section();
  uint32_t code = code_of("k");
  pid_t child = fork();
  if (child == 0) {
    struct split_mapping *mapping = split_mapping_in_use();
    split_start(0, "k");
    for (uint32_t cpu = 0; cpu < mapping->cpu_count; cpu++) {
      struct split_record *record = split_record_of(mapping, cpu, code);
      atomic_store(&record->owner, (uint32_t)gettid());
      atomic_fetch_add(&record->sequence, 1);
    }
    raise(SIGKILL);
  }
  int status;
  waitpid(child, &status, 0);
  assert_true(WIFSIGNALED(status));
  for (int i = 0; i < 10; i++) one_section();
  assert_int_equal(total_of(code).count, 11);
  assert_int_equal(atomic_load(&header()->contended), 0);
  uint32_t whole = 0;
  for (uint32_t cpu = 0; cpu < split_mapping_in_use()->cpu_count; cpu++) {
    const struct split_record *record = split_record_of(split_mapping_in_use(), cpu, code);
    if (record->owner == 0) {
      whole++;
      assert_int_equal(atomic_load(&record->sequence) % 2, 0);
    }
  }
  assert_true(whole > 0);
}

/* Bytes of the segment are damaged while it is used: none is used as an index or a size. */
static void damaged_while_it_runs(void **state) {
  (void)state;
  assert_int_equal(begin(), TEST_APP);
  one_section();
  struct split_mapping *mapping = split_mapping_in_use();
  size_t size = mapping->header->size;
  uint64_t collect = mapping->header->collect;
  memset(mapping->header, 0xff, size);
  atomic_store(&mapping->header->collect, (uint32_t)collect);
  char key[16];
  for (int i = 0; i < 2000; i++) {
    snprintf(key, sizeof key, "k%d", i);
    split_section section;
    split_begin(&section, 0, key, strlen(key));
    split_note_section(&section, SPLIT_NOTE_TEXT, "x", 1);
    split_finish(&section);
  }
  struct split_counts counts;
  struct split_kind_counts kind;
  split_counts(&counts);
  for (uint32_t code = 0; code < 2000; code++) split_kind_counts(code, &kind);
  split_release_stale();
}

static void counts_for_views(void **state) {
  (void)state;
  struct split_counts counts;
  struct split_kind_counts kind;
  assert_false(split_counts(&counts));
  assert_false(split_kind_counts(0, &kind));
  assert_int_equal(begin(), TEST_APP);
  for (int i = 0; i < 5; i++) one_section();
  assert_true(split_counts(&counts));
  assert_int_equal(counts.sections, 5);
  assert_int_equal(counts.kinds, 3);
  assert_false(counts.analyzer);
  heartbeat();
  split_counts(&counts);
  assert_true(counts.analyzer);
  assert_true(split_kind_counts(code_of("k"), &kind));
  assert_int_equal(kind.count, 5);
  assert_string_equal(kind.label, "k");
  assert_false(split_kind_counts(1024, &kind));
  assert_false(split_kind_counts(UINT32_MAX, &kind));
}

#define IN(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)

int main(void) {
  const struct CMUnitTest tests[] = {
      IN(the_layout),
      IN(processes_share_it),
      IN(a_restart_goes_on),
      IN(of_another_version_and_in_use),
      IN(damaged_and_in_use),
      IN(too_short_is_replaced),
      IN(of_another_boot_is_replaced),
      IN(links_are_not_followed),
      IN(a_pipe_is_no_segment),
      IN(files_of_others_in_a_crowded_folder),
      IN(a_folder_for_those_who_may_write_to_it),
      IN(without_room_it_stays_off),
      IN(on_a_full_file_system_it_stays_off),
      IN(locked_by_another_program),
      IN(bad_arguments),
      IN(killed_inside),
      IN(damaged_while_it_runs),
      IN(counts_for_views),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
