/* Runs the fuzzer's entry point without the fuzzer, on the stored inputs and mutations of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include "verify_fuzz.c"

enum { INPUTS = 200, MUTATIONS = 3000 };

typedef struct input {
  uint8_t *bytes;
  size_t length;
} input;

static input inputs[INPUTS];
static int input_count;

static int read_corpus(void **state) {
  const char *folder = P3L_SOURCE "/fuzz/corpus";
  char path[4096];
  DIR *entries = opendir(folder);
  (void)state;
  if (entries == NULL) return -1;
  for (struct dirent *entry; (entry = readdir(entries)) != NULL && input_count < INPUTS;) {
    if (entry->d_name[0] == '.') continue;
    snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
    FILE *from = fopen(path, "r");
    if (from == NULL) return -1;
    input *input = &inputs[input_count++];
    input->bytes = malloc(1 << 20);
    input->length = fread(input->bytes, 1, 1 << 20, from);
    fclose(from);
  }
  closedir(entries);
  return 0;
}

/* The commands print the faults of each store on standard error, where they are irrelevant here. */
static void mute(bool on) {
  static int before = -1;
  if (before < 0) before = dup(STDERR_FILENO);
  int to = on ? open("/dev/null", O_WRONLY) : before;
  fflush(stderr);
  dup2(to, STDERR_FILENO);
  if (on) close(to);
}

static int free_corpus(void **state) {
  (void)state;
  for (int i = 0; i < input_count; i++) free(inputs[i].bytes);
  return 0;
}

static void what_is_kept_is_survived(void **state) {
  (void)state;
  assert_true(input_count >= 9); /* at least those of make_corpus.c */
  mute(true);
  for (int i = 0; i < input_count; i++) LLVMFuzzerTestOneInput(inputs[i].bytes, inputs[i].length);
  mute(false);
}

/* Checks that the harness reaches the parser: its own stores are opened without a fault. */
static void stores_of_the_corpus_open(void **state) {
  (void)state;
  int whole = 0;
  mute(true);
  for (int i = 0; i < input_count; i++) {
    size_t pages = inputs[i].bytes[2] | (size_t)inputs[i].bytes[3] << 8;
    if (inputs[i].length < HEAD + pages * P3L_PAGE_SIZE) continue;
    const uint8_t *file = inputs[i].bytes + HEAD, *log = file + pages * P3L_PAGE_SIZE;
    memory_device *devices[] = {
        memory_device_of(file, pages * P3L_PAGE_SIZE),
        memory_device_of(log, inputs[i].length - HEAD - pages * P3L_PAGE_SIZE)};
    p3l_pager *pager;
    p3l_pager_options options = {.read_only = true};
    char *text = NULL;
    size_t length;
    FILE *to = open_memstream(&text, &length);
    if (p3l_pager_open_devices(&devices[0]->device, &devices[1]->device, &options, &pager, NULL,
                               NULL) == P3L_OK) {
      if (p3l_verify_store(pager, to) == 0) whole++;
      p3l_pager_close(pager, NULL);
    }
    fclose(to);
    free(text);
    memory_device_free(devices[0]);
    memory_device_free(devices[1]);
  }
  mute(false);
  assert_true(whole >= 9);
}

static uint64_t random_state = 12345;
static uint32_t random_below(uint32_t limit) {
  random_state ^= random_state << 13;
  random_state ^= random_state >> 7;
  random_state ^= random_state << 17;
  return (uint32_t)(random_state >> 33) % limit;
}

/*
 * Writes values that often break parsers at places with numbers: the first bytes of pages and
 * frames.
 */
static void mutate(input *to) {
  static const uint64_t values[] = {0,
                                    1,
                                    2,
                                    3,
                                    7,
                                    80,
                                    4000,
                                    4096,
                                    65535,
                                    UINT64_C(1) << 44,
                                    ~UINT64_C(0),
                                    UINT64_C(1) << 63 | 4176};
  for (uint32_t changes = 1 + random_below(3); changes > 0; changes--) {
    uint32_t pages = (uint32_t)(to->length / P3L_PAGE_SIZE);
    size_t at = HEAD + random_below(pages) * (size_t)P3L_PAGE_SIZE + random_below(160);
    if (random_below(3) == 0) at = random_below((uint32_t)to->length);
    if (at + 8 > to->length) continue;
    if (random_below(2) == 0)
      to->bytes[at] ^= (uint8_t)(1u << random_below(8));
    else
      memcpy(to->bytes + at, &values[random_below(sizeof(values) / sizeof(*values))],
             1u << random_below(4));
  }
  if (random_below(20) == 0) to->length = random_below((uint32_t)to->length);
  to->bytes[0] = (uint8_t)(SEAL_PAGES | SEAL_LOG | (random_below(4) << 2));
}

static void mutations_are_survived(void **state) {
  (void)state;
  mute(true);
  for (int i = 0; i < MUTATIONS; i++) {
    const input *from = &inputs[random_below((uint32_t)input_count)];
    input mutated = {malloc(from->length), from->length};
    if (from->length < 2 * P3L_PAGE_SIZE) {
      free(mutated.bytes);
      continue;
    }
    memcpy(mutated.bytes, from->bytes, from->length);
    mutate(&mutated);
    LLVMFuzzerTestOneInput(mutated.bytes, mutated.length);
    free(mutated.bytes);
  }
  mute(false);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(what_is_kept_is_survived),
                                     cmocka_unit_test(stores_of_the_corpus_open),
                                     cmocka_unit_test(mutations_are_survived)};
  return cmocka_run_group_tests(tests, read_corpus, free_corpus);
}
