/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Writing perf_event records into the segment's ring, byte for byte as a kernel
 * writes them into its own, so that one recorder drains both.
 *
 * The layout follows include/uapi/linux/perf_event.h and the order of
 * perf_output_sample() in kernel/events/core.c.
 */
#include "tool.h"

#include "pub_tool_aspacemgr.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_libcproc.h"
#include "pub_tool_machine.h"
#include "pub_tool_stacktrace.h"
#include "pub_tool_threadstate.h"

#include "libvex_guest_amd64.h"

#include "ring.h"
#include "state.h"
#include "timing.h"

/* perf_event_type, PERF_RECORD_MISC_* */
enum { RECORD_COMM = 3, RECORD_EXIT = 4, RECORD_FORK = 7, RECORD_SAMPLE = 9, RECORD_MMAP2 = 10 };
enum { MISC_USER = 2, MISC_MMAP_DATA = 1 << 13, MISC_COMM_EXEC = 1 << 13, MISC_EXACT_IP = 1 << 14 };

#define CONTEXT_USER ((uint64_t)-512)
#define REGISTERS 18 /* samples::model::Register::GENERAL */
#define ABI_64 2
#define MAX_CALLCHAIN 128

/* samples::model::SimulatedDetail documents the layout. */
#define DETAIL_MAGIC 0x31734d48u /* "HMs1" */
enum { SECTION_SHARING = 1, SECTION_STATEMENT, SECTION_STATE, SECTION_ALLOCATION, SECTION_STRIDE };

static uint32_t current_tid;

void hm_set_thread(ThreadId tid) {
  static uint32_t os_thread[512], of_pid;
  if (of_pid != hm_sim.pid) { /* first use, or after a fork */
    VG_(memset)(os_thread, 0, sizeof os_thread);
    of_pid = hm_sim.pid;
  }
  if (tid >= sizeof os_thread / sizeof os_thread[0]) {
    current_tid = (uint32_t)VG_(gettid)();
    return;
  }
  /* Thread numbers are reused: a new thread sends its own record (thread_begins). */
  if (os_thread[tid] == 0 || hm_sim.waited) os_thread[tid] = (uint32_t)VG_(gettid)();
  current_tid = os_thread[tid];
}

/* --- A record ---------------------------------------------------------------- */

struct record {
  uint64_t words[640];
  uint32_t length; /* in words */
};

static struct record record;

static void begin(uint32_t type, uint16_t misc) {
  record.words[0] = (uint64_t)type | (uint64_t)misc << 32;
  record.length = 1;
}

static void put(uint64_t word) { record.words[record.length++] = word; }
static void put_pair(uint32_t low, uint32_t high) { put((uint64_t)low | (uint64_t)high << 32); }

static void put_text(const HChar *text) {
  SizeT length = VG_(strlen)(text);
  SizeT room = (sizeof record.words / sizeof(uint64_t) - record.length - 8) * sizeof(uint64_t);
  if (length >= room) length = room - 1;
  SizeT words = length / sizeof(uint64_t) + 1; /* at least one NUL */
  VG_(memset)(&record.words[record.length], 0, words * sizeof(uint64_t));
  VG_(memcpy)(&record.words[record.length], text, length);
  record.length += (uint32_t)words;
}

/* The trailer of every record but samples (sample_id_all). */
static void put_sample_id(void) {
  put_pair(hm_sim.pid, current_tid);
  put(hm_record_nanoseconds(hm_cycles()));
  put_pair(hm_sim.cpu, 0);
  put(0); /* no id: readers attribute it to the first event of the file */
}

static Bool anything_is_sampled(void) {
  for (int event = 0; event < HM_EVENTS; event++)
    if (hm_sim.config.period[event] != 0) return True;
  return False;
}

static void submit(void) {
  if (!anything_is_sampled()) return; /* counted only: the ring is not drained */
  uint64_t bytes = (uint64_t)record.length * sizeof(uint64_t);
  record.words[0] |= bytes << 48;
  hm_deliver_record(record.words, bytes);
}

/* --- Processes and mappings ----------------------------------------------------- */

void hm_record_exec(const HChar *name) {
  const HChar *base = VG_(strrchr)(name, '/');
  HChar comm[16];
  VG_(strncpy)(comm, base != NULL ? base + 1 : name, sizeof comm - 1);
  comm[sizeof comm - 1] = 0;
  current_tid = (uint32_t)VG_(gettid)();
  begin(RECORD_COMM, MISC_COMM_EXEC);
  put_pair(hm_sim.pid, current_tid);
  put_text(comm);
  put_sample_id();
  submit();
}

void hm_record_fork(uint32_t parent_pid, uint32_t parent_tid, uint32_t pid, uint32_t tid) {
  begin(RECORD_FORK, 0);
  put_pair(pid, parent_pid);
  put_pair(tid, parent_tid);
  put(hm_record_nanoseconds(hm_cycles()));
  put_sample_id();
  submit();
}

void hm_record_exit(void) {
  begin(RECORD_EXIT, 0);
  put_pair(hm_sim.pid, hm_sim.pid);
  put_pair(hm_sim.pid, hm_sim.pid);
  put(hm_record_nanoseconds(hm_cycles()));
  put_sample_id();
  submit();
}

static void record_segment(NSegment const *segment, Addr address, SizeT length, const HChar *name,
                           Bool shared) {
  begin(RECORD_MMAP2, MISC_USER | (segment->hasX ? 0 : MISC_MMAP_DATA));
  put_pair(hm_sim.pid, current_tid);
  put(address);
  put(length);
  put(segment->kind == SkFileC ? (uint64_t)segment->offset + (address - segment->start) : 0);
  put_pair((uint32_t)(segment->dev >> 8 & 0xfff), (uint32_t)(segment->dev & 0xff));
  put(segment->ino);
  put(0); /* inode generation */
  put_pair((segment->hasR ? VKI_PROT_READ : 0u) | (segment->hasW ? VKI_PROT_WRITE : 0u) |
               (segment->hasX ? VKI_PROT_EXEC : 0u),
           shared ? VKI_MAP_SHARED : VKI_MAP_PRIVATE);
  put_text(name);
  put_sample_id();
  submit();
}

/* Files, and anonymous code of JIT compilers; other anonymous memory is not recorded. */
void hm_record_mapping(Addr address, SizeT length) {
  NSegment const *segment = VG_(am_find_nsegment)(address);
  if (segment == NULL) return;
  if (segment->kind == SkFileC) {
    const HChar *name = VG_(am_get_filename)(segment);
    if (name != NULL) record_segment(segment, address, length, name, False);
  } else if (segment->kind == SkAnonC && segment->hasX) {
    record_segment(segment, address, length, "//anon", False);
  }
}

void hm_record_shared_memory(Addr address, SizeT length) {
  NSegment const *segment = VG_(am_find_nsegment)(address);
  /* The kernel's own name for anonymous shared memory. */
  if (segment != NULL) record_segment(segment, address, length, "/dev/zero (deleted)", True);
}

/* --- Samples ----------------------------------------------------------------------- */

/* Fields of perf_mem_data_src, each shifted to its position. */
#define LEVEL_BITS(bits) ((uint64_t)(bits) << 5)
#define LEVEL_NUMBER(number) ((uint64_t)(number) << 33)
enum { LEVEL_HIT = 0x02, LEVEL_MISS = 0x04, LEVEL_L1 = 0x08, LEVEL_OTHER_SOCKETS_CACHE = 0x400 };
#define IS_REMOTE (1ull << 37)
#define SNOOP_NONE (0x02ull << 19)
#define SNOOP_HITM (0x10ull << 19)

/* The level that served the access, as Intel's kernels encode it: for a store, only whether L1
 * had the line (the number has the level nevertheless); a line that another core's cache
 * supplies modified is an L3 hit with HITM, or, if no level is shared, a hit in another socket's
 * cache. `perf c2c` counts these. */
static uint64_t level_and_snoop(const struct hm_access *access, uint32_t kind) {
  static const uint64_t bits[] = {[HM_LEVEL_NONE] = 0x01,
                                  [HM_LEVEL_L1] = LEVEL_L1 | LEVEL_HIT,
                                  [HM_LEVEL_L2] = 0x20 | LEVEL_HIT,
                                  [HM_LEVEL_L3] = 0x40 | LEVEL_HIT,
                                  [HM_LEVEL_MEMORY] = 0x80 | LEVEL_HIT};
  static const uint64_t number[] = {[HM_LEVEL_NONE] = 0xf,
                                    [HM_LEVEL_L1] = 1,
                                    [HM_LEVEL_L2] = 2,
                                    [HM_LEVEL_L3] = 3,
                                    [HM_LEVEL_MEMORY] = 0xd};
  uint64_t level = LEVEL_BITS(bits[access->level]) | LEVEL_NUMBER(number[access->level]);
  if (access->modified_elsewhere && access->level == HM_LEVEL_MEMORY)
    level = LEVEL_BITS(LEVEL_OTHER_SOCKETS_CACHE | LEVEL_HIT) | LEVEL_NUMBER(3) | IS_REMOTE;
  if (kind == HM_STORE && access->level > HM_LEVEL_L1)
    level = (level & ~LEVEL_BITS(0x3fff)) | LEVEL_BITS(LEVEL_L1 | LEVEL_MISS);
  return level | (access->modified_elsewhere ? SNOOP_HITM : SNOOP_NONE);
}

/* A read-modify-write counts as a store for an event of stores. Its miss is counted at the load,
 * not a second time at the invalidation. */
static uint32_t kind_for_event(const struct hm_access *access, enum hm_event event) {
  uint32_t kind = HM_SITE_KIND(access->site);
  Bool of_stores = event == HM_STORES || event == HM_INVALIDATION;
  return kind == HM_MODIFY && of_stores ? HM_STORE : kind;
}

static uint64_t data_source(const struct hm_access *access, enum hm_event event) {
  static const uint64_t operation[] = {[HM_LOAD] = 0x02,
                                       [HM_STORE] = 0x04,
                                       [HM_MODIFY] = 0x02,
                                       [HM_FETCH] = 0x10,
                                       [HM_BRANCH] = 0x01};
  /* A walk is encoded as Intel's kernels do: "L2 miss". */
  static const uint64_t tlb[] = {
      [HM_TLB_NONE] = 0x01, [HM_TLB_L1] = 0x0a, [HM_TLB_STLB] = 0x12, [HM_TLB_WALK] = 0x14};
  uint64_t locked = HM_SITE_LOCKED(access->site) ? 0x2 : 0x1;
  uint32_t kind = kind_for_event(access, event);
  return operation[kind] | level_and_snoop(access, kind) | locked << 24 |
         tlb[access->translation] << 26;
}

static void put_registers(const VexGuestAMD64State *guest, Addr ip) {
  const uint64_t values[REGISTERS] = {guest->guest_RAX,
                                      guest->guest_RBX,
                                      guest->guest_RCX,
                                      guest->guest_RDX,
                                      guest->guest_RSI,
                                      guest->guest_RDI,
                                      guest->guest_RBP,
                                      guest->guest_RSP,
                                      ip,
                                      LibVEX_GuestAMD64_get_rflags(guest),
                                      guest->guest_R8,
                                      guest->guest_R9,
                                      guest->guest_R10,
                                      guest->guest_R11,
                                      guest->guest_R12,
                                      guest->guest_R13,
                                      guest->guest_R14,
                                      guest->guest_R15};
  put(ABI_64);
  for (int i = 0; i < REGISTERS; i++) put(values[i]);
}

static void put_callchain(ThreadId tid, Addr ip) {
  Addr frames[MAX_CALLCHAIN];
  UInt wanted = hm_sim.config.callchain_depth;
  if (wanted > MAX_CALLCHAIN) wanted = MAX_CALLCHAIN;
  UInt found = VG_(get_StackTrace)(tid, frames, wanted, NULL, NULL, 0);
  if (found == 0) found = 1;
  frames[0] = ip;
  /* Beyond _start the unwinder continues into the arguments. */
  for (UInt i = 1; i < found; i++) {
    NSegment const *segment = VG_(am_find_nsegment)(frames[i]);
    if (segment == NULL || !segment->hasX) found = i;
  }
  put(found + 1);
  put(CONTEXT_USER);
  for (UInt i = 0; i < found; i++) put(frames[i]);
}

/* With set sampling, events of cache lines are counted on one line in N; events of the code are
 * counted completely. */
static uint64_t events_of_sample(const struct hm_sample *sample) {
  switch (sample->event) {
    case HM_LOADS:
    case HM_STORES:
    case HM_INSTRUCTIONS:
    case HM_BRANCH_MISS: return sample->period;
    default: return sample->period * hm_sim.config.set_sampling;
  }
}

static void put_section(uint32_t kind, uint32_t bytes) { put_pair(kind | bytes << 16, 0); }

/* What the profiled program itself was doing: its statement, and other state. */
static void put_state(uint64_t thread_pointer, uint64_t address) {
  struct hm_state state;
  hm_read_state(hm_sim.header, thread_pointer, address, &state);
  if (state.statement != 0) {
    put_section(SECTION_STATEMENT, 2 * sizeof(uint64_t));
    put(state.statement);
    put(state.statement_over);
  }
  for (uint32_t i = 0; i < state.values; i++) {
    const struct hm_state_value *value = &state.value[i];
    uint32_t words = (value->length + 7) / 8;
    put_section(SECTION_STATE, sizeof(uint64_t) + value->length);
    put_pair(value->id, value->length);
    record.words[record.length + words - 1] = 0; /* the padding */
    VG_(memcpy)(&record.words[record.length], value->bytes, value->length);
    record.length += words;
  }
}

static void put_sharing(const struct hm_sharing *other) {
  put_section(SECTION_SHARING, 2 * sizeof(uint64_t));
  put_pair(other->verdict | (uint32_t)other->offset << 8 | (uint32_t)other->size << 16 |
               (uint32_t)other->stored << 24,
           other->pid);
  put(other->ip);
}

/* The heap block of a data access. */
static void put_block(const struct hm_access *access) {
  struct hm_block block;
  if (hm_find_block == NULL || access->physical_line == 0 ||
      HM_SITE_KIND(access->site) == HM_FETCH || !hm_find_block(access->address, &block))
    return;
  put_section(SECTION_ALLOCATION, 3 * sizeof(uint64_t));
  put(block.start);
  put(block.size);
  put(block.site);
}

/* RAW: a length, then that many bytes; the total is a multiple of 8. */
static void put_detail(const struct hm_access *access, enum hm_event event,
                       uint64_t thread_pointer) {
  const struct hm_sharing *other = hm_sharing_of(access, event);
  uint32_t begin = record.length;
  uint64_t wall = hm_wall_nanoseconds();
  put_pair(0, DETAIL_MAGIC);
  put_pair(HM_SITE_SIZE(access->site) | (uint32_t)hm_cause_to_record(access, event) << 8 |
               (uint32_t)access->level << 16 | (uint32_t)access->pattern << 24,
           access->set[hm_level_of(event)]);
  put(wall);
  if (other != NULL) put_sharing(other);
  if (atomic_load_explicit(&hm_sim.header->state_rules, memory_order_relaxed) != 0)
    put_state(thread_pointer, access->address);
  put_block(access);
  if (access->stride != 0) {
    put_section(SECTION_STRIDE, sizeof(uint64_t));
    put((uint64_t)access->stride);
  }
  uint32_t size = (record.length - begin) * (uint32_t)sizeof(uint64_t) - sizeof(uint32_t);
  record.words[begin] |= size;
}

/* WEIGHT_STRUCT. With a time model the first field is the exposed latency, and the second, for
 * the whole instruction, the full latency. */
static uint64_t weight(const struct hm_access *access) {
  if (!hm_timing_is_on()) return access->latency;
  uint64_t whole = access->latency > 0xffff ? 0xffff : access->latency;
  return access->exposed | whole << 32;
}

/* Called by the simulator, on the core, when the counter of an event expires. */
void hm_host_sample(const struct hm_sample *sample) {
  const struct hm_access *access = sample->access;
  ThreadId tid = VG_(get_running_tid)();
  VexGuestAMD64State guest;
  VG_(get_shadow_regs_area)(tid, (UChar *)&guest, 0, 0, sizeof guest);
  Addr ip = HM_SITE_IP(access->site);

  begin(RECORD_SAMPLE, MISC_USER | MISC_EXACT_IP);
  put(sample->event + 1u); /* IDENTIFIER */
  put(ip);
  put_pair(hm_sim.pid, current_tid);
  put(hm_record_nanoseconds(sample->cycles));
  put(access->address);
  put_pair(sample->cpu, 0);
  put(events_of_sample(sample));
  if (hm_sim.config.callchain_depth != 0) put_callchain(tid, ip);
  put_detail(access, sample->event, guest.guest_FS_CONST);
  put(weight(access));
  put(data_source(access, sample->event));
  put_registers(&guest, ip);
  /* An instruction or a branch accesses no memory and has no physical address. */
  put(access->physical_line == 0 ? 0
                                 : (uint64_t)access->physical_line << HM_LINE_BITS |
                                       (access->address & (HM_LINE_SIZE - 1)));
  submit();
}
