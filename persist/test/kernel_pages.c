/*
 * A kernel with larger pages than this machine's, as far as a program sees it by its calls: for the tests of
 * stores on 16 and 64 KB pages. Linked before the C library into all programs of a build with
 * -DP3L_KERNEL_PAGES=ON; P3L_KERNEL_PAGE, in bytes, is the size of a page.
 *
 *   the library ── mmap, munmap, mprotect, madvise, mincore, mremap, sysconf ──> this file ──> the kernel
 *
 * Invariants:
 *  1. An address or an offset in a file that is not a multiple of the page is EINVAL, a length is rounded up,
 *     and a new mapping begins and ends at pages. So protection, and what traps, is by these pages.
 *  2. Without P3L_KERNEL_PAGE every call is the kernel's.
 *
 * Not as on such a kernel: the C library's own calls, the stack and malloc(); and of a page in which a file ends,
 * bytes in whole pages of the machine behind the end, which trap here and are zeros there.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static size_t machine_page; /* what the kernel has */
static size_t page;         /* what the program sees */

/* Also called before this file's constructor, by those of other libraries. */
static size_t page_bytes(void) {
  if (page != 0) return page;
  const char *wanted = getenv("P3L_KERNEL_PAGE");
  machine_page = getauxval(AT_PAGESZ);
  size_t bytes = wanted == NULL ? 0 : strtoul(wanted, NULL, 10);
  if (bytes < machine_page || (bytes & (bytes - 1)) != 0) bytes = machine_page;
  return page = bytes;
}

static size_t up(size_t bytes) { return (bytes + page_bytes() - 1) & ~(page_bytes() - 1); }
static bool misplaced(const void *address) {
  return ((uintptr_t)address & (page_bytes() - 1)) != 0;
}

static int refuse(void) {
  errno = EINVAL;
  return -1;
}

static void *map(void *at, size_t bytes, int protection, int flags, int file, off_t offset) {
  return (void *)syscall(SYS_mmap, at, bytes, protection, flags, file, offset);
}

/* A place for a mapping: twice what is needed, without what is outside of the aligned part. */
static uint8_t *reserve(size_t bytes) {
  size_t wide = bytes + page_bytes();
  uint8_t *all = map(NULL, wide, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (all == MAP_FAILED) return NULL;
  uint8_t *begin = (uint8_t *)up((uintptr_t)all), *end = begin + bytes;
  if (begin > all) syscall(SYS_munmap, all, (size_t)(begin - all));
  if (end < all + wide) syscall(SYS_munmap, end, (size_t)(all + wide - end));
  return begin;
}

void *mmap(void *at, size_t bytes, int protection, int flags, int file, off_t offset) {
  const int fixed = MAP_FIXED | MAP_FIXED_NOREPLACE;
  bool anonymous = (flags & MAP_ANONYMOUS) != 0;
  if (page_bytes() == machine_page) return map(at, bytes, protection, flags, file, offset);
  if ((!anonymous && misplaced((void *)(uintptr_t)offset)) ||
      ((flags & fixed) != 0 && misplaced(at)) || bytes == 0) {
    errno = EINVAL;
    return MAP_FAILED;
  }
  bytes = up(bytes);
  if ((flags & fixed) != 0) return map(at, bytes, protection, flags, file, offset);
  if (at != NULL) { /* a hint */
    void *hint = (void *)up((uintptr_t)at);
    void *there = map(hint, bytes, protection, flags | MAP_FIXED_NOREPLACE, file, offset);
    if (there != MAP_FAILED) return there;
  }
  void *place = reserve(bytes);
  if (place == NULL) return MAP_FAILED;
  void *there = map(place, bytes, protection, flags | MAP_FIXED, file, offset);
  int failed = errno;
  if (there == MAP_FAILED) syscall(SYS_munmap, place, bytes);
  errno = failed;
  return there;
}

int munmap(void *at, size_t bytes) {
  if (misplaced(at)) return refuse();
  return (int)syscall(SYS_munmap, at, up(bytes));
}

int mprotect(void *at, size_t bytes, int protection) {
  if (misplaced(at)) return refuse();
  return (int)syscall(SYS_mprotect, at, up(bytes), protection);
}

int madvise(void *at, size_t bytes, int advice) {
  if (misplaced(at)) return refuse();
  return (int)syscall(SYS_madvise, at, up(bytes), advice);
}

int mincore(void *at, size_t bytes, unsigned char *resident) {
  if (misplaced(at)) return refuse();
  unsigned char one[64];
  size_t in_page = page_bytes() / machine_page;
  for (size_t done = 0; done < bytes; done += page_bytes()) {
    /* The last page may be mapped in part, as the end of a file is. */
    size_t left = bytes - done, length = left < page_bytes() ? left : page_bytes();
    size_t count = (length + machine_page - 1) / machine_page;
    if (count > sizeof(one) || count > in_page) return refuse();
    if (syscall(SYS_mincore, (uint8_t *)at + done, length, one) != 0) return -1;
    /* One that was touched anywhere is in memory whole. */
    unsigned char any = 0;
    for (size_t i = 0; i < count; i++) any |= one[i] & 1;
    resident[done / page_bytes()] = any;
  }
  return 0;
}

void *mremap(void *at, size_t before, size_t after, int flags, ...) {
  va_list more;
  va_start(more, flags);
  void *target = (flags & MREMAP_FIXED) != 0 ? va_arg(more, void *) : NULL;
  va_end(more);
  if (misplaced(at) || misplaced(target)) {
    errno = EINVAL;
    return MAP_FAILED;
  }
  before = up(before), after = up(after);
  if (page_bytes() != machine_page && (flags & MREMAP_MAYMOVE) != 0 && target == NULL) {
    void *there = (void *)syscall(SYS_mremap, at, before, after, flags & ~MREMAP_MAYMOVE);
    if (there != MAP_FAILED) return there;
    target = reserve(after);
    if (target == NULL) return MAP_FAILED;
    flags |= MREMAP_FIXED;
  }
  return (void *)syscall(SYS_mremap, at, before, after, flags, target);
}

int getpagesize(void) { return (int)page_bytes(); }

/* The C library's own, for all other names. */
extern long __sysconf(int name);
long sysconf(int name) {
  switch (name) {
    case _SC_PAGESIZE: return (long)page_bytes();
    case _SC_PHYS_PAGES:
    case _SC_AVPHYS_PAGES: return __sysconf(name) / (long)(page_bytes() / machine_page);
    default: return __sysconf(name);
  }
}
