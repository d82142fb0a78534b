/* Pages as the program sees them: what larger ones change for it. Of kernel_pages.c, or of the kernel itself. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>
#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

static sigjmp_buf back;
static void trapped(int signal) {
  (void)signal;
  siglongjmp(back, 1);
}
static bool is_writable(volatile uint8_t *byte) {
  if (sigsetjmp(back, 1) != 0) return false;
  *byte = 1;
  return true;
}

static uint8_t *map(size_t bytes) {
  uint8_t *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_ptr_not_equal(memory, MAP_FAILED);
  return memory;
}

static void pages_have_the_size_that_was_asked_for(void **state) {
  (void)state;
  const char *wanted = getenv("P3L_KERNEL_PAGE");
  long page = sysconf(_SC_PAGESIZE);
  print_message("pages of %ld bytes\n", page);
  if (wanted != NULL) assert_int_equal(page, strtol(wanted, NULL, 10));
  assert_int_equal(getpagesize(), page);
}

static void a_page_is_protected_whole_or_not_at_all(void **state) {
  (void)state;
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  void (*before)(int) = signal(SIGSEGV, trapped);
  uint8_t *memory = map(3 * page);
  assert_int_equal((uintptr_t)memory % page, 0);
  assert_int_equal(mprotect(memory + page, 1, PROT_READ), 0);
  for (size_t at = 0; at < 3 * page; at += 1024)
    assert_int_equal(is_writable(memory + at), at / page != 1);
  signal(SIGSEGV, before);
  assert_int_equal(munmap(memory, 3 * page), 0);
}

static void half_a_page_is_refused(void **state) {
  (void)state;
  size_t page = (size_t)sysconf(_SC_PAGESIZE), half = page / 2;
  unsigned char resident[2];
  uint8_t *memory = map(2 * page);
  errno = 0;
  assert_int_equal(mprotect(memory + half, half, PROT_READ), -1);
  assert_int_equal(errno, EINVAL);
  assert_int_equal(madvise(memory + half, half, MADV_DONTNEED), -1);
  assert_int_equal(mincore(memory + half, half, resident), -1);
  assert_int_equal(munmap(memory + half, half), -1);
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
  assert_ptr_equal(mmap(memory + half, half, PROT_READ, flags, -1, 0), MAP_FAILED);
  memory[0] = memory[page] = 1;
  assert_int_equal(mincore(memory, 2 * page, resident), 0);
  assert_true(resident[0] & resident[1] & 1);
  assert_int_equal(munmap(memory, page + 1), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(pages_have_the_size_that_was_asked_for),
      cmocka_unit_test(a_page_is_protected_whole_or_not_at_all),
      cmocka_unit_test(half_a_page_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
