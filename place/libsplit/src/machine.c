/* machine.segment: the section that ran last on each CPU, of any application. */
#include "mapping.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

void split_boot_id(char id[40]) {
  memset(id, 0, 40);
  int descriptor = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return; /* no /proc: all boots look alike */
  ssize_t length = read(descriptor, id, 36);
  close(descriptor);
  if (length != 36) memset(id, 0, 40);
}

union first_line {
  struct split_machine_header header;
  char line[SPLIT_LINE];
};
_Static_assert(sizeof(struct split_machine_header) <= SPLIT_LINE, "the header has a line");

static bool fill(int descriptor, void *context) {
  union first_line first;
  memset(&first, 0, sizeof first);
  first.header.magic = SPLIT_MACHINE_MAGIC;
  first.header.version = SPLIT_MACHINE_VERSION;
  first.header.cpus = *(const uint32_t *)context;
  split_boot_id(first.header.boot_id);
  return pwrite(descriptor, &first, sizeof first, 0) == (ssize_t)sizeof first;
}

static uint64_t size_for(uint32_t cpus) { return (1 + (uint64_t)cpus) * SPLIT_LINE; }

static bool fits(int descriptor, uint64_t size, bool alone, void *context,
                 char reason[SPLIT_REASON]) {
  (void)alone;
  union first_line first;
  char boot[40];
  uint32_t cpus = *(const uint32_t *)context;
  split_boot_id(boot);
  if (size == size_for(cpus) &&
      pread(descriptor, &first, sizeof first, 0) == (ssize_t)sizeof first &&
      first.header.magic == SPLIT_MACHINE_MAGIC && first.header.version == SPLIT_MACHINE_VERSION &&
      first.header.cpus == cpus && memcmp(first.header.boot_id, boot, sizeof boot) == 0) {
    return true;
  }
  snprintf(reason, SPLIT_REASON, "machine.segment is in use by another version of libsplit");
  return false;
}

struct split_last *split_machine_open(const struct split_folder *folder, uint32_t cpus,
                                      uint64_t *size, char reason[SPLIT_REASON]) {
  struct split_file file = {
      .name = "machine.segment",
      .size = size_for(cpus),
      .fits = fits,
      .fill = fill,
      .context = &cpus,
  };
  int descriptor = split_file_join(folder, &file, reason);
  if (descriptor < 0) return NULL;
  void *shared = mmap(NULL, file.size, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (shared == MAP_FAILED) snprintf(reason, SPLIT_REASON, "machine.segment: %s", strerror(errno));
  close(descriptor);
  *size = file.size;
  return shared == MAP_FAILED ? NULL : (struct split_last *)((char *)shared + SPLIT_LINE);
}
