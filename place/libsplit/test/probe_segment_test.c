/*
 * probe.segment as another user, an older version or a full disk may leave it: refused with a
 * reason. Needs no cache.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "probe_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <sys/stat.h>

enum { PAGES = 40 };

static struct published place;
static char path[128];

static int begin(void **state) {
  (void)state;
  if (make_folder(&place) != 0) return -1;
  snprintf(path, sizeof(path), "%s/%s", place.folder, SPLIT_PROBE_FILE);
  return 0;
}
static int end(void **state) {
  (void)state;
  remove_folder(&place);
  return 0;
}

/* A valid header: 2 colours of 16 ways, pages in order. */
static struct split_probe_header sound(void) {
  struct split_probe_header header = {
      .magic = SPLIT_PROBE_MAGIC,
      .version = SPLIT_PROBE_VERSION,
      .header_size = SPLIT_PROBE_HEADER_SIZE,
      .generation = 4,
      .pages = PAGES,
      .ways = 16,
      .colours = 2,
      .lines_per_set = 16,
      .sets = 4,
      .timing.limit = 110,
      .cost_cycles = 20000,
      .points = 2,
      .point = {{256, 90, 0.3f, 0.2f, 0.4f}, {1024, 90, 0.75f, 0.6f, 0.8f}}};
  split_probe_boot_id(header.boot_id);
  for (uint16_t i = 0; i < 34; i++) header.page[i / 17][i % 17] = i;
  return header;
}

static void write_file(const struct split_probe_header *header, size_t length, off_t size) {
  unlink(path);
  const int file = open(path, O_CREAT | O_EXCL | O_WRONLY, 0644);
  assert_true(file >= 0);
  assert_int_equal(fchmod(file, 0644), 0);
  assert_int_equal(write(file, header, length), length);
  assert_int_equal(ftruncate(file, size), 0);
  close(file);
}
static const off_t whole = SPLIT_PROBE_HEADER_SIZE + PAGES * SPLIT_PROBE_PAGE;

static void refused(const struct split_probe_header *header, off_t size, const char *because) {
  write_file(header, sizeof(*header), size);
  const char *reason = NULL;
  errno = 1234;
  assert_null(split_probe_open(place.folder, &reason));
  assert_int_equal(errno, 1234);
  assert_non_null(reason);
  assert_non_null(strstr(reason, because));
}

static void need_clock(void) {
  const char *problem = split_probe_clock_problem();
  if (problem == NULL) return;
  print_message("skipped: %s\n", problem);
  skip();
}

static void a_sound_file_is_taken(void **state) {
  (void)state;
  need_clock();
  const struct split_probe_header header = sound();
  write_file(&header, sizeof(header), whole);
  const char *reason = "untouched";
  struct split_probe *probe = split_probe_open(place.folder, &reason);
  assert_non_null(probe);
  assert_null(reason);
  assert_int_equal(split_probe_generation(probe), 4);
  assert_int_equal(split_probe_cost_cycles(probe), 20000);
  uint32_t lines = 0;
  split_probe_prime(probe, UINT32_MAX); /* any turn */
  assert_true(split_probe_count(probe, UINT32_MAX, &lines) <= lines);
  assert_int_equal(lines, 64);
  /*
   * Computed by hand: 0.3 + 0.6 * 0.45; 0.525 is halfway between the medians, as 640 KB is between
   * the sizes.
   */
  assert_true(fabs(split_probe_threshold(probe, 256, 1024) - 0.57) < 1e-6);
  assert_true(split_probe_threshold(probe, 256, 2048) < 0);
  assert_true(fabs(split_probe_kilobytes(probe, 0.525) - 640) < 0.1);
  assert_true(fabs(split_probe_kilobytes(probe, 0.15) - 128) < 0.1);
  assert_true(fabs(split_probe_kilobytes(probe, 1) - 1024) < 0.1);
  split_probe_close(probe);
}

static const struct split_probe_timing by_chains = {
    .limit = 222, .most = 222, .hit = 50, .miss = 140};

/*
 * Pages contain zeros, unless a process wrote to them: the loaded value must not determine the next
 * address.
 */
static void chains_go_nowhere_else_whatever_the_pages_hold(void **state) {
  (void)state;
  need_clock();
  struct split_probe_header header = sound();
  header.timing = by_chains;
  for (uint8_t i = 0; i < 34; i++) header.line[i / 17][i % 17] = i * 5 % 64;
  write_file(&header, sizeof(header), whole);
  const int file = open(path, O_WRONLY);
  unsigned char ones[SPLIT_PROBE_PAGE];
  memset(ones, 0xff, sizeof(ones));
  for (off_t at = SPLIT_PROBE_HEADER_SIZE; at < whole; at += SPLIT_PROBE_PAGE)
    assert_int_equal(pwrite(file, ones, sizeof(ones), at), sizeof(ones));
  close(file);
  const char *reason = NULL;
  struct split_probe *probe = split_probe_open(place.folder, &reason);
  assert_non_null(probe);
  uint32_t lines = 0;
  for (uint32_t turn = 0; turn < 100; turn++) {
    split_probe_prime(probe, turn);
    assert_true(split_probe_count(probe, turn, &lines) <= lines);
    assert_int_equal(lines, 16); /* four of each of 4 sets */
  }
  split_probe_close(probe);
}

static void what_is_not_there_is_said(void **state) {
  (void)state;
  need_clock();
  unlink(path);
  const char *reason = NULL;
  assert_null(split_probe_open(place.folder, &reason));
  assert_non_null(strstr(reason, "no probe.segment yet"));
  assert_null(split_probe_open("/nowhere/at/all", &reason));
  assert_non_null(strstr(reason, "folder"));
}

#define REFUSED(change, because)                \
  do {                                          \
    struct split_probe_header header = sound(); \
    change;                                     \
    refused(&header, whole, because);           \
  } while (0)

static void each_field_is_checked(void **state) {
  (void)state;
  need_clock();
  REFUSED(header.magic ^= 1, "not a probe segment");
  REFUSED(header.version++, "version");
  REFUSED(header.header_size = 8192, "version");
  REFUSED(header.generation = 0, "not finished");
  REFUSED(header.generation = 5, "not finished");
  REFUSED(header.pages = 0, "size");
  REFUSED(header.pages = PAGES + 1, "size");
  REFUSED(header.pages = UINT32_MAX, "size");
  REFUSED(header.ways = 0, "geometry");
  REFUSED(header.ways = SPLIT_PROBE_WAYS_MAX + 1, "geometry");
  REFUSED(header.colours = 0, "geometry");
  REFUSED(header.colours = SPLIT_PROBE_COLOURS_MAX + 1, "geometry");
  REFUSED(header.lines_per_set = 17, "geometry");
  REFUSED(header.lines_per_set = 0, "geometry");
  REFUSED(header.sets = 0, "geometry");
  REFUSED(header.sets = SPLIT_PROBE_SETS_MAX + 1, "geometry");
  REFUSED(header.timing.limit = 0, "times");
  REFUSED(header.timing.limit = 100001, "times");
  REFUSED((header.timing = by_chains, header.timing.most = 100001), "times");
  REFUSED((header.timing = by_chains, header.timing.hit = NAN), "times");
  REFUSED((header.timing = by_chains, header.timing.hit = -1), "times");
  REFUSED((header.timing = by_chains, header.timing.miss = 50), "times");
  REFUSED((header.timing = by_chains, header.timing.miss = 223), "times");
  REFUSED((header.timing = by_chains, header.lines_per_set = 3), "geometry");
  REFUSED(header.random_lines = 2, "geometry");
  REFUSED(header.page[1][16] = PAGES, "beyond its end");
  REFUSED(header.page[0][0] = UINT16_MAX, "beyond its end");
  REFUSED(header.line[1][16] = 64, "beyond its end");
  REFUSED(header.boot_id[3] ^= 1, "another boot");
  REFUSED(header.points = SPLIT_PROBE_POINTS + 1, "calibration");
  REFUSED(header.point[1].displaced_median = NAN, "calibration");
  REFUSED(header.point[1].displaced_p90 = 1.5f, "calibration");
  REFUSED(header.point[0].displaced_p10 = -1, "calibration");
  REFUSED(header.point[1].kilobytes = 256, "calibration");
}

static void a_file_cut_off_is_refused(void **state) {
  (void)state;
  need_clock();
  const struct split_probe_header header = sound();
  refused(&header, whole - 1, "size");
  refused(&header, whole + SPLIT_PROBE_PAGE, "size");
  refused(&header, SPLIT_PROBE_HEADER_SIZE, "size");
  refused(&header, SPLIT_PROBE_HEADER_SIZE - 1, "cut off");
  refused(&header, 0, "cut off");
}

static void a_file_of_another_user_is_refused(void **state) {
  (void)state;
  need_clock();
  const struct split_probe_header header = sound();
  write_file(&header, sizeof(header), whole);
  const char *reason = NULL;
  assert_int_equal(chmod(path, 0666), 0);
  assert_null(split_probe_open(place.folder, &reason));
  assert_non_null(strstr(reason, "changed by others"));
  unlink(path);
  assert_int_equal(symlink("/etc/passwd", path), 0);
  assert_null(split_probe_open(place.folder, &reason));
  assert_non_null(strstr(reason, "opened"));
  unlink(path);
  assert_int_equal(mkfifo(path, 0644), 0); /* must not wait for a writer */
  assert_null(split_probe_open(place.folder, &reason));
  assert_non_null(strstr(reason, "not a file"));
  if (geteuid() != 0) return;
  write_file(&header, sizeof(header), whole);
  assert_int_equal(chown(path, 65534, 65534), 0);
  assert_null(split_probe_open(place.folder, &reason));
  assert_non_null(strstr(reason, "belongs to another user"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_sound_file_is_taken),
      cmocka_unit_test(chains_go_nowhere_else_whatever_the_pages_hold),
      cmocka_unit_test(what_is_not_there_is_said),
      cmocka_unit_test(each_field_is_checked),
      cmocka_unit_test(a_file_cut_off_is_refused),
      cmocka_unit_test(a_file_of_another_user_is_refused),
  };
  return cmocka_run_group_tests(tests, begin, end);
}
