/*
 * A process's view of an application's segment. Its geometry is checked once, when the segment is
 * mapped, and never read from shared memory again: a process that damages the segment can spoil
 * statistics, but not this process.
 */
#ifndef SPLIT_MAPPING_H
#define SPLIT_MAPPING_H

#include "folder.h"
#include "segment.h"

struct split_mapping {
  struct split_header *header;
  struct split_kind *kinds;
  struct split_decision *decisions;
  struct split_thread *threads;
  struct split_request *requests; /* SPLIT_REQUESTS of them */
  struct split_cpu *cpus;
  struct split_record *records;
  struct split_trace *traces;
  struct split_last *last; /* from machine.segment, or for this process and its children only */
  uint32_t kind_count, cpu_count, thread_count, trace_count;
  uint32_t app_id, related_app_id, key_type;
  uint32_t homes; /* number of kinds without the two reserved ones */
  uint64_t who;   /* the application, in the form of split_last.who */
  double cycles_per_ns;
  /* The hash of each kind that this process knows, 0: not known. Most look-ups then touch little
   * memory, and none that other processes write. */
  _Atomic uint64_t *known;
  uint64_t size, last_size; /* sizes of both in bytes */
  char directory[200];
  struct split_mapping *earlier; /* of this process; it was left */
};

/* The host's options. */
struct split_wish {
  const char *directory;
  uint32_t app_id, related_app_id, key_type, kinds;
  bool kinds_asked; /* set by name, not by default */
  char name[32];
};

/* Offsets in a segment. */
struct split_layout {
  uint64_t kinds_at, decisions_at, threads_at, requests_at, cpus_at, records_at, traces_at, size;
};
struct split_layout split_layout_of(uint64_t kinds, uint64_t cpus, uint64_t threads,
                                    uint64_t traces);

/* Opens or creates both segments. NULL: `reason` has the reason. A mapped file stays locked: the
 * sign of life of this process and its children, even if the host closes every descriptor. */
struct split_mapping *split_mapping_open(const struct split_wish *wish, char reason[SPLIT_REASON]);
/* Releases the files, and with them the locks. Threads may be using them at any time: the files
 * are replaced by memory that no other process sees. */
void split_mapping_leave(struct split_mapping *mapping);

/* machine.segment of a folder, for this number of CPUs; `size` of the mapping. NULL: there is
 * none that can be used. */
struct split_last *split_machine_open(const struct split_folder *folder, uint32_t cpus,
                                      uint64_t *size, char reason[SPLIT_REASON]);

/* The kernel's id of this boot. */
void split_boot_id(char id[40]);

/* True if sections are measured: neither the application nor `hardmeter split off` has switched
 * it off. */
static inline bool split_collects(const struct split_mapping *mapping) {
  return atomic_load_explicit(&mapping->header->collect, memory_order_relaxed) != 0;
}

static inline struct split_record *split_record_of(const struct split_mapping *mapping,
                                                   uint32_t cpu, uint32_t code) {
  return &mapping->records[(uint64_t)cpu * mapping->kind_count + code];
}

#endif
