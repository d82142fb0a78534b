/* Kinds: keys of every type, far too many of them, and far too long ones. */
#include "fixture.h"

#include <sys/mman.h>

static uint32_t section_of(const char *key) {
  uint32_t code = split_start(0, key);
  split_end();
  return code;
}

/* A thousand places, ten thousand keys: those without a place are counted as one, and nothing is
 * lost. */
static void ten_thousand_keys(void **state) {
  (void)state;
  char key[32];
  uint64_t as_other = 0;
  static uint32_t codes[10000];
  for (int i = 0; i < 10000; i++) {
    snprintf(key, sizeof key, "/item?id=%d", i);
    codes[i] = section_of(key);
    as_other += codes[i] == SPLIT_CODE_OTHER;
  }
  uint64_t counted = 0;
  for (uint32_t code = 0; code < 1024; code++) {
    struct total total = total_of(code);
    if (code > SPLIT_CODE_OTHER) assert_true(total.count <= 1); /* no two keys are one kind */
    counted += total.count;
  }
  assert_int_equal(counted, 10000);
  assert_int_equal(total_of(SPLIT_CODE_OTHER).count, as_other);
  assert_int_equal(atomic_load(&header()->without_room), as_other);
  assert_int_equal(atomic_load(&header()->kinds_used), 2 + 10000 - as_other);
  assert_int_equal(atomic_load(&header()->kinds_used), 1024); /* every place was found */
  assert_non_null(strstr(split_problem(), "no room for more kinds"));
  for (int i = 0; i < 10000; i++) { /* and every kind keeps its id */
    snprintf(key, sizeof key, "/item?id=%d", i);
    assert_int_equal(section_of(key), codes[i]);
  }
}

static void a_key_of_a_megabyte(void **state) {
  (void)state;
  size_t length = 1 << 20;
  char *key = malloc(length + 1);
  memset(key, 'k', length);
  key[length] = '\0';
  uint32_t code = section_of(key);
  key[SPLIT_KEY_LENGTH] = 'x'; /* beyond the part that distinguishes kinds */
  assert_int_equal(section_of(key), code);
  key[SPLIT_KEY_LENGTH - 1] = 'x';
  assert_int_not_equal(section_of(key), code);
  split_section section;
  key[SPLIT_KEY_LENGTH - 1] = 'k';
  assert_int_equal(split_begin(&section, 0, key, length), code);
  split_finish(&section);
  const struct split_kind *kind = &split_mapping_in_use()->kinds[code];
  assert_int_equal(kind->label_length, SPLIT_LABEL_LENGTH);
  assert_int_equal(kind->label[SPLIT_LABEL_LENGTH - 1], 'k');
  free(key);
}

static void keys_of_every_length(void **state) {
  (void)state;
  /* Keys of a's: they differ only in length; each byte distinguishes keys. */
  static char key[101];
  uint64_t hashes[2 * 100 + 1];
  size_t n = 0;
  for (size_t length = 0; length <= 100; length++) {
    memset(key, 'a', sizeof key);
    hashes[n++] = hm_hash_text(key, length);
    if (length == 0) continue;
    key[length / 2] = 'b';
    hashes[n++] = hm_hash_text(key, length);
  }
  for (size_t i = 0; i < n; i++)
    for (size_t j = 0; j < i; j++) assert_true(hashes[i] != hashes[j]);
}

static int by_size(const void *a, const void *b) {
  uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return x < y ? -1 : x > y;
}

/* A million similar keys: no two have the same hash (chance 3 in 10^8), and places are evenly
 * used. */
static void hashes_are_spread(void **state) {
  (void)state;
  enum { KEYS = 1000000, PLACES = 1000 };
  uint64_t *hashes = malloc(KEYS * sizeof *hashes);
  unsigned used[PLACES] = {0};
  char key[40];
  for (int i = 0; i < KEYS; i++) {
    int length = snprintf(key, sizeof key, "/ViewItem.php?itemId=%d", i);
    hashes[i] = hm_hash_text(key, (size_t)length);
    used[(hashes[i] >> 32) * PLACES >> 32]++;
  }
  /* 1000 for each place on average, and a standard deviation of 32: six of them. */
  for (int i = 0; i < PLACES; i++) assert_in_range(used[i], 810, 1190);
  qsort(hashes, KEYS, sizeof *hashes, by_size);
  for (int i = 1; i < KEYS; i++) assert_true(hashes[i] != hashes[i - 1]);
  free(hashes);
}

static uint32_t section_by_handle(const char *key) {
  split_section section;
  uint32_t code = split_begin(&section, 0, key, strlen(key));
  split_finish(&section);
  return code;
}

/* Texts that are seen again at their address are compared, not hashed: after any change there,
 * the kind is that of the text. All lengths up to three blocks and all offsets in one, the last
 * of them before an inaccessible page. */
static void texts_that_change_where_they_stand(void **state) {
  (void)state;
  const long page = sysconf(_SC_PAGESIZE);
  char *pages =
      mmap(NULL, 2 * (size_t)page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_true(pages != MAP_FAILED && mprotect(pages + page, (size_t)page, PROT_NONE) == 0);
  for (size_t length = 1; length <= 50; length++) {
    for (size_t end = 0; end < 17; end++) {
      char *key = pages + page - end - 1 - length, copy[64];
      memset(pages, '#', (size_t)page);
      memset(key, 'a', length);
      key[length] = '\0';
      memcpy(copy, key, length + 1);
      const uint32_t code = section_by_handle(copy);
      for (int i = 0; i < 4; i++) assert_int_equal(section_of(key), code);
      key[-1] = '!'; /* bytes around it are ignored */
      if (end) key[length + 1] = '!';
      assert_int_equal(section_of(key), code);
      for (size_t at = 0; at < length; at += 7) {
        key[at] = copy[at] = 'b';
        assert_int_equal(section_of(key), section_by_handle(copy));
        assert_int_not_equal(section_of(key), code);
        key[at] = copy[at] = 'a';
        assert_int_equal(section_of(key), code);
        key[at] = copy[at] = '\0'; /* shorter: the following bytes no longer belong to the key */
        assert_int_equal(section_of(key), section_by_handle(copy));
        key[at] = copy[at] = 'a';
        for (int i = 0; i < 3; i++) assert_int_equal(section_of(key), code);
      }
    }
  }
  assert_int_equal(atomic_load(&header()->without_room), 0);
  munmap(pages, 2 * (size_t)page);
}

static void numbers(void **state) {
  (void)state;
  uint64_t zero = 0, large = UINT64_MAX;
  uint32_t a = split_start(0, &zero);
  split_end();
  uint32_t b = split_start(0, &large);
  split_end();
  assert_true(a > SPLIT_CODE_OTHER && b > SPLIT_CODE_OTHER && a != b);
  const struct split_kind *kind = &split_mapping_in_use()->kinds[b];
  assert_true(kind->key_number == UINT64_MAX);
  assert_int_equal(kind->label_length, 20);
  assert_memory_equal(kind->label, "18446744073709551615", 20);
  split_section section;
  assert_int_equal(split_begin(&section, 0, &large, 4), SPLIT_CODE_NONE); /* half a number */
  split_finish(&section);
}

static void *claim_all(void *codes) {
  char key[16];
  for (int i = 0; i < 500; i++) {
    snprintf(key, sizeof key, "same %d", i);
    ((uint32_t *)codes)[i] = section_of(key);
  }
  return NULL;
}

static void threads_agree_on_codes(void **state) {
  (void)state;
  enum { THREADS = 4 };
  static uint32_t codes[THREADS][500];
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, claim_all, codes[i]);
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  for (int i = 1; i < THREADS; i++) assert_memory_equal(codes[i], codes[0], sizeof codes[0]);
  assert_int_equal(atomic_load(&header()->kinds_used), 502);
}

/* A claimant died between the hash and the label: the next thread writes it. */
static void a_kind_whose_claimant_died(void **state) {
  (void)state;
  struct split_mapping *mapping = split_mapping_in_use();
  uint64_t hash = hm_hash_text("orphan", 6);
  uint32_t code = 2 + split_kind_home(mapping, hash);
  atomic_store(&mapping->kinds[code].key_hash, hash);
  assert_int_equal(section_of("orphan"), code);
  assert_int_equal(atomic_load(&mapping->kinds[code].state), SPLIT_KIND_READY);
  assert_memory_equal(mapping->kinds[code].label, "orphan", 6);
}

#define TEXT(test) cmocka_unit_test_setup_teardown(test, begin_with_text, remove_folder)
#define NUMBER(test) cmocka_unit_test_setup_teardown(test, begin_with_numbers, remove_folder)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEXT(ten_thousand_keys),
      TEXT(a_key_of_a_megabyte),
      TEXT(texts_that_change_where_they_stand),
      cmocka_unit_test(keys_of_every_length),
      cmocka_unit_test(hashes_are_spread),
      NUMBER(numbers),
      TEXT(threads_agree_on_codes),
      TEXT(a_kind_whose_claimant_died),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
