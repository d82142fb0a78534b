/* Maps the file, and finds pages that are in the page cache. mapping.h has the invariants. */
#include "mapping.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22 /* Linux 5.14; older kernels refuse it, and pages are read instead */
#endif

#define CACHE_LINE 64u
/* Number of pages that the kernel maps with one fault: 64 KB, a whole number of the kernel's pages, which
 * may be larger than the store's. */
#define WINDOW 16u

struct p3l_mapping {
  uint8_t *memory;
  uint64_t pages;
  uint64_t kernel_page; /* bytes */
  uint8_t mapped[];     /* [window] */
};

/* For processes other than the owner, mincore() always reports that everything is in memory. */
static bool kernel_would_say(int descriptor, uint64_t bytes) {
  struct stat status;
  return fstat(descriptor, &status) == 0 && (uint64_t)status.st_size >= bytes &&
         (geteuid() == 0 || status.st_uid == geteuid());
}

p3l_mapping *p3l_mapping_open(p3l_device *file, uint64_t pages) {
  int descriptor = p3l_file_descriptor(file);
  uint64_t bytes = pages * P3L_PAGE_SIZE;
  long kernel_page = sysconf(_SC_PAGESIZE);
  if (descriptor < 0 || kernel_page < (long)P3L_PAGE_SIZE ||
      WINDOW * P3L_PAGE_SIZE % (uint64_t)kernel_page != 0 || !kernel_would_say(descriptor, bytes))
    return NULL;
  p3l_mapping *mapping = calloc(1, sizeof(*mapping) + (pages + WINDOW - 1) / WINDOW);
  if (mapping == NULL) return NULL;
  mapping->pages = pages;
  mapping->kernel_page = (uint64_t)kernel_page;
  mapping->memory = mmap(NULL, bytes, PROT_READ, MAP_SHARED, descriptor, 0);
  if (mapping->memory == MAP_FAILED) {
    free(mapping);
    return NULL;
  }
  /* Dropped pages are then read one by one, without megabytes of read-ahead. */
  madvise(mapping->memory, bytes, MADV_RANDOM);
  return mapping;
}

uint64_t p3l_mapping_pages(const p3l_mapping *mapping) { return mapping->pages; }

void p3l_mapping_close(p3l_mapping *mapping) {
  if (mapping == NULL) return;
  munmap(mapping->memory, mapping->pages * P3L_PAGE_SIZE);
  free(mapping);
}

/* True if a whole window is in memory and now in the mapping. */
static bool map_window(p3l_mapping *mapping, uint64_t window) {
  uint64_t first = window * WINDOW, left = mapping->pages - first;
  uint64_t count = left < WINDOW ? left : WINDOW;
  uint64_t bytes = count * P3L_PAGE_SIZE;
  uint8_t *memory = mapping->memory + first * P3L_PAGE_SIZE;
  unsigned char resident[WINDOW]; /* one for each of the kernel's pages, the last one in part */
  if (mincore(memory, bytes, resident) != 0) return false;
  for (uint64_t at = 0; at * mapping->kernel_page < bytes; at++)
    if ((resident[at] & 1) == 0) return false;
  return madvise(memory, bytes, MADV_POPULATE_READ) == 0;
}

const p3l_page *p3l_mapping_page(p3l_mapping *mapping, p3l_page_number number) {
  if (number.n >= mapping->pages) return NULL;
  uint8_t *mapped = &mapping->mapped[number.n / WINDOW];
  if (*mapped == 0) *mapped = map_window(mapping, number.n / WINDOW);
  if (*mapped == 0) return NULL;
  const uint8_t *page = mapping->memory + number.n * P3L_PAGE_SIZE;
  /* The whole page will be checked and is not in the processor's cache: prefetch many lines at
   * once. */
  for (uint32_t at = 0; at < P3L_PAGE_SIZE; at += CACHE_LINE) __builtin_prefetch(page + at);
  return (const p3l_page *)page;
}
