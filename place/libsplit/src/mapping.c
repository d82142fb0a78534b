/* Creates, checks, maps and leaves segments. mapping.h describes a mapping. */
#include "mapping.h"

#include "cycles.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <unistd.h>

static uint64_t rounded(uint64_t bytes, uint64_t to) { return (bytes + to - 1) / to * to; }

struct split_layout split_layout_of(uint64_t kinds, uint64_t cpus, uint64_t threads,
                                    uint64_t traces) {
  struct split_layout at;
  at.kinds_at = SPLIT_HEADER_SIZE;
  at.decisions_at = rounded(at.kinds_at + kinds * sizeof(struct split_kind), SPLIT_LINE);
  at.threads_at = rounded(at.decisions_at + kinds * sizeof(struct split_decision), SPLIT_LINE);
  at.requests_at = rounded(at.threads_at + threads * sizeof(struct split_thread), SPLIT_LINE);
  at.cpus_at = rounded(at.requests_at + SPLIT_REQUESTS * sizeof(struct split_request), SPLIT_LINE);
  at.records_at = rounded(at.cpus_at + cpus * sizeof(struct split_cpu), SPLIT_LINE);
  at.traces_at = rounded(at.records_at + cpus * kinds * sizeof(struct split_record), SPLIT_LINE);
  at.size = rounded(at.traces_at + cpus * traces * sizeof(struct split_trace), 4096);
  return at;
}

static uint32_t possible_cpus(void) {
  int cpus = get_nprocs_conf();
  if (cpus < 1) cpus = 1;
  return cpus > SPLIT_CPUS_MAX ? SPLIT_CPUS_MAX : (uint32_t)cpus;
}

/* The data for the beginning of a new file. */
struct beginning {
  struct split_header header;
  char rest_of_header[SPLIT_HEADER_SIZE - sizeof(struct split_header)];
  struct split_kind reserved[2];
};

static bool write_all(int descriptor, const void *bytes, size_t length) {
  size_t done = 0;
  while (done < length) {
    ssize_t n = pwrite(descriptor, (const char *)bytes + done, length - done, (off_t)done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    done += (size_t)n;
  }
  return true;
}

static void reserve(struct split_kind *kind, const char *label) {
  kind->key_hash = 1; /* reserved: 0 and 1 are never looked up */
  kind->state = SPLIT_KIND_READY;
  kind->label_length = (uint32_t)strlen(label);
  memcpy(kind->label, label, kind->label_length);
}

static bool fill(int descriptor, void *context) {
  const struct split_wish *wish = context;
  uint32_t cpus = possible_cpus();
  struct split_layout at = split_layout_of(wish->kinds, cpus, SPLIT_THREADS, SPLIT_TRACES);
  struct beginning *begin = calloc(1, sizeof *begin);
  if (!begin) return false;
  struct split_header *header = &begin->header;
  header->magic = SPLIT_SEGMENT_MAGIC;
  header->version = SPLIT_SEGMENT_VERSION;
  header->header_size = SPLIT_HEADER_SIZE;
  header->size = at.size;
  header->app_id = wish->app_id;
  header->related_app_id = wish->related_app_id;
  header->key_type = wish->key_type;
  header->kinds = wish->kinds;
  header->cpus = cpus;
  header->threads = SPLIT_THREADS;
  header->traces = SPLIT_TRACES;
  header->record_size = sizeof(struct split_record);
  header->requests = SPLIT_REQUESTS;
  header->kinds_at = at.kinds_at;
  header->decisions_at = at.decisions_at;
  header->threads_at = at.threads_at;
  header->requests_at = at.requests_at;
  header->cpus_at = at.cpus_at;
  header->records_at = at.records_at;
  header->traces_at = at.traces_at;
  header->made_ns = split_clock_ns(CLOCK_MONOTONIC);
  header->cycles_per_second = split_cycles_per_second();
  memcpy(header->name, wish->name, sizeof header->name);
  split_boot_id(header->boot_id);
  /* The defaults of split.h. */
  header->collect = 1;
  header->place = 1;
  header->analysis_interval_ms = 1000;
  header->threshold = 100;
  double weight = 0.9;
  uint64_t bits;
  memcpy(&bits, &weight, sizeof bits);
  header->weight_bits = bits;
  header->probe_budget_ppm = 5000;
  header->kinds_used = 2;
  reserve(&begin->reserved[0], "(none)");
  reserve(&begin->reserved[1], "(other)");
  bool written = write_all(descriptor, begin, sizeof *begin);
  free(begin);
  return written;
}

/*
 * Checks that a header describes a file of this size, made by this version on this machine since it
 * booted; returns the reason if not.
 */
static const char *trouble_with(const struct split_header *header, uint64_t size, uint32_t app) {
  if (header->magic != SPLIT_SEGMENT_MAGIC) return "is damaged, or no segment";
  if (header->version != SPLIT_SEGMENT_VERSION) return "was made by another version of libsplit";
  char boot[40];
  split_boot_id(boot);
  if (memcmp(header->boot_id, boot, sizeof boot) != 0) return "is of another boot";
  if (header->kinds < 16 || header->kinds > SPLIT_KINDS_MAX || header->cpus < 1 ||
      header->cpus > SPLIT_CPUS_MAX || header->threads != SPLIT_THREADS ||
      header->traces != SPLIT_TRACES || header->requests != SPLIT_REQUESTS ||
      header->record_size != sizeof(struct split_record) ||
      header->header_size != SPLIT_HEADER_SIZE || header->app_id != app) {
    return "is damaged";
  }
  struct split_layout at =
      split_layout_of(header->kinds, header->cpus, header->threads, header->traces);
  if (at.kinds_at != header->kinds_at || at.decisions_at != header->decisions_at ||
      at.threads_at != header->threads_at || at.requests_at != header->requests_at ||
      at.cpus_at != header->cpus_at || at.records_at != header->records_at ||
      at.traces_at != header->traces_at || at.size != header->size || at.size != size) {
    return "is damaged";
  }
  if (header->cycles_per_second < 1000000 || header->cycles_per_second > UINT64_C(100000000000)) {
    return "is damaged";
  }
  return NULL;
}

static bool fits(int descriptor, uint64_t size, bool alone, void *context,
                 char reason[SPLIT_REASON]) {
  const struct split_wish *wish = context;
  struct split_header header;
  const char *why = "is too short";
  if (size >= SPLIT_HEADER_SIZE &&
      pread(descriptor, &header, sizeof header, 0) == (ssize_t)sizeof header) {
    why = trouble_with(&header, size, wish->app_id);
  }
  if (!why && header.key_type != wish->key_type) why = "has keys of the other type";
  if (!why && header.cpus != possible_cpus()) why = "is for another number of processors";
  if (!why && alone &&
      ((wish->kinds_asked && header.kinds != wish->kinds) ||
       header.related_app_id != wish->related_app_id)) {
    why = "was made with other settings";
  }
  if (!why) return true;
  snprintf(reason, SPLIT_REASON,
           "%s/app-%x.segment %s, and a running server uses it: stop that one, or choose another "
           "application id or folder",
           wish->directory, wish->app_id, why);
  return false;
}

/* Address of `count` elements of `each` bytes at `at`. */
static void *within(struct split_header *header, uint64_t at) { return (char *)header + at; }

static struct split_mapping *map(int descriptor, const struct split_wish *wish,
                                 char reason[SPLIT_REASON]) {
  struct split_header header; /* the checked copy is the one that is used */
  if (pread(descriptor, &header, sizeof header, 0) != (ssize_t)sizeof header ||
      trouble_with(&header, header.size, wish->app_id)) {
    snprintf(reason, SPLIT_REASON, "%s/app-%x.segment changed under us", wish->directory,
             wish->app_id);
    return NULL;
  }
  struct split_mapping *mapping = calloc(1, sizeof *mapping);
  _Atomic uint64_t *known = calloc(header.kinds, sizeof *known);
  void *shared = mmap(NULL, header.size, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (!mapping || !known || shared == MAP_FAILED) {
    snprintf(reason, SPLIT_REASON, "%s/app-%x.segment: no memory", wish->directory, wish->app_id);
    if (shared != MAP_FAILED) munmap(shared, header.size);
    free((void *)known);
    free(mapping);
    return NULL;
  }
  madvise(shared, header.size, MADV_DONTDUMP);
  mapping->header = shared;
  mapping->kinds = within(shared, header.kinds_at);
  mapping->decisions = within(shared, header.decisions_at);
  mapping->threads = within(shared, header.threads_at);
  mapping->requests = within(shared, header.requests_at);
  mapping->cpus = within(shared, header.cpus_at);
  mapping->records = within(shared, header.records_at);
  mapping->traces = within(shared, header.traces_at);
  mapping->kind_count = header.kinds;
  mapping->homes = header.kinds - 2;
  mapping->cpu_count = header.cpus;
  mapping->thread_count = header.threads;
  mapping->trace_count = header.traces;
  mapping->app_id = header.app_id;
  mapping->who = (uint64_t)header.app_id << 32;
  mapping->related_app_id = wish->related_app_id; /* may differ from that of the file's creator */
  mapping->key_type = header.key_type;
  mapping->cycles_per_ns = (double)header.cycles_per_second / 1e9;
  mapping->known = known;
  mapping->size = header.size;
  return mapping;
}

/*
 * The last section on each CPU: of all applications, or, if that file cannot be used, of this
 * process and its children only.
 */
static bool open_last(struct split_mapping *mapping, const struct split_folder *folder) {
  char unused[SPLIT_REASON];
  mapping->last = split_machine_open(folder, mapping->cpu_count, &mapping->last_size, unused);
  if (mapping->last) {
    atomic_fetch_and(&mapping->header->without, ~(uint32_t)SPLIT_WITHOUT_MACHINE);
    return true;
  }
  atomic_fetch_or(&mapping->header->without, SPLIT_WITHOUT_MACHINE);
  void *own = mmap(NULL, mapping->cpu_count * sizeof(struct split_last), PROT_READ | PROT_WRITE,
                   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  mapping->last = own;
  return own != MAP_FAILED;
}

struct split_mapping *split_mapping_open(const struct split_wish *wish, char reason[SPLIT_REASON]) {
  struct split_folder folder;
  if (!split_folder_open(wish->directory, &folder, reason)) return NULL;
  char name[32];
  snprintf(name, sizeof name, "app-%x.segment", wish->app_id);
  uint32_t cpus = possible_cpus();
  struct split_file file = {
      .name = name,
      .size = split_layout_of(wish->kinds, cpus, SPLIT_THREADS, SPLIT_TRACES).size,
      .fits = fits,
      .fill = fill,
      .context = (void *)wish,
  };
  struct split_mapping *mapping = NULL;
  int descriptor = split_file_join(&folder, &file, reason);
  if (descriptor >= 0) {
    mapping = map(descriptor, wish, reason);
    close(descriptor);
  }
  if (mapping) {
    snprintf(mapping->directory, sizeof mapping->directory, "%s", wish->directory);
    if (!open_last(mapping, &folder)) {
      snprintf(reason, SPLIT_REASON, "no memory");
      munmap(mapping->header, mapping->size);
      free((void *)mapping->known);
      free(mapping);
      mapping = NULL;
    }
  }
  split_folder_close(&folder);
  return mapping;
}

/*
 * By a direct system call: a thread sanitizer takes mmap(2) over memory for a write to it, which is
 * not meant here.
 */
static void put_memory_at(void *place, uint64_t size) {
  syscall(SYS_mmap, place, size, PROT_READ | PROT_WRITE,
          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

void split_mapping_leave(struct split_mapping *mapping) {
  put_memory_at(mapping->header, mapping->size);
  if (mapping->last_size) put_memory_at((char *)mapping->last - SPLIT_LINE, mapping->last_size);
}
