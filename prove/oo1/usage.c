#include "usage.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

/* The number after `name` in a file of lines "name: number"; 0 if missing. */
static uint64_t figure(const char *path, const char *name) {
  uint64_t value = 0;
  char line[256];
  size_t length = strlen(name);
  FILE *file = fopen(path, "r");
  if (file == NULL) return 0;
  while (fgets(line, sizeof line, file) != NULL)
    if (strncmp(line, name, length) == 0 && sscanf(line + length, ": %" SCNu64, &value) == 1) break;
  fclose(file);
  return value;
}

oo1_usage oo1_usage_now(void) {
  struct rusage faults;
  getrusage(RUSAGE_SELF, &faults);
  return (oo1_usage){
      .minor_faults = (uint64_t)faults.ru_minflt,
      .major_faults = (uint64_t)faults.ru_majflt,
      .read_calls = figure("/proc/self/io", "syscr"),
      .read_bytes = figure("/proc/self/io", "read_bytes"),
  };
}

void oo1_memory_now(uint64_t *resident, uint64_t *peak) {
  *resident = figure("/proc/self/status", "VmRSS") * 1024;
  *peak = figure("/proc/self/status", "VmHWM") * 1024;
}
