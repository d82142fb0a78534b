/*
 * A process's view of an application's segment. Its geometry is checked once, when the segment is mapped, and never read from shared
 * memory again: who damages the segment can spoil statistics, not this process.
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
  struct split_cpu *cpus;
  struct split_record *records;
  struct split_trace *traces;
  struct split_last *last; /* of machine.segment, or of this process and its children only */
  uint32_t kind_count, cpu_count, thread_count, trace_count;
  uint32_t app_id, related_app_id, key_type;
  uint32_t homes; /* of kinds: all but the two that are reserved */
  uint64_t who;   /* the application, as split_last.who has it */
  double cycles_per_ns;
  /* The hash of each kind as this process knows it, 0: not known. So that most lookups touch little memory, and none that others
   * write to. */
  _Atomic uint64_t *known;
  uint64_t size, last_size; /* bytes of both */
  char directory[200];
  struct split_mapping *earlier; /* of this process, which was left */
};

/* The properties requested by the host. */
struct split_wish {
  const char *directory;
  uint32_t app_id, related_app_id, key_type, kinds;
  bool kinds_asked; /* by name, and not by default */
  char name[32];
};

/* The offsets in a segment. */
struct split_layout {
  uint64_t kinds_at, decisions_at, threads_at, cpus_at, records_at, traces_at, size;
};
struct split_layout split_layout_of(uint64_t kinds, uint64_t cpus, uint64_t threads,
                                    uint64_t traces);

/* Opens or makes both segments. NULL: `reason` says why. What is mapped keeps its file locked: our sign of life, and that of our
 * children, even if the host closes every descriptor. */
struct split_mapping *split_mapping_open(const struct split_wish *wish, char reason[SPLIT_REASON]);
/* Gives up the files, and with them the locks. Threads may be within at any time: in place of the files there is memory that no other process
 * else sees. */
void split_mapping_leave(struct split_mapping *mapping);

/* machine.segment of a folder, for as many CPUs; `size` of what was mapped. NULL: there is none for us. */
struct split_last *split_machine_open(const struct split_folder *folder, uint32_t cpus,
                                      uint64_t *size, char reason[SPLIT_REASON]);

/* This boot, as the kernel names it. */
void split_boot_id(char id[40]);

/* Sections are measured: neither the application nor `hardmeter split off` has switched that off. */
static inline bool split_collects(const struct split_mapping *mapping) {
  return atomic_load_explicit(&mapping->header->collect, memory_order_relaxed) != 0;
}

static inline struct split_record *split_record_of(const struct split_mapping *mapping,
                                                   uint32_t cpu, uint32_t code) {
  return &mapping->records[(uint64_t)cpu * mapping->kind_count + code];
}

#endif
