/*
 * Explains accesses to persistent memory that trap in the debug library.
 *
 *   SIGSEGV ──> in the range? ── no ──> a pointer in its stored form? ── no ──> the handler of before
 *                  │ yes                   │ yes
 *                  └───────────────────────┴──> a sentence, the calls ──> the handler of before: core, debugger
 *
 * Invariants:
 *  1. The instruction that trapped traps again after the sentence, under the handler that was there
 *     before: a debugger stops at it, a core file shows it.
 *  2. No lock is taken: a fault may come while the thread has any. What is read of segments may be
 *     changing; then the sentence may name another object, and the calls are right.
 */
#ifdef P3L_DEBUG

#include "guard_trap.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <ucontext.h>

#include "guard_calls.h"
#include "segment_places.h"
#include "store.h"
#include "surrogate.h"
#include "types.h"

static struct sigaction before;

/* ---- the processor ---- */

typedef enum access { READS, WRITES, USES } access_kind;

#if defined(__aarch64__)

/* What a load or store of the A64 instruction set does: the groups of its table of encodings "Loads and
 * stores". */
static access_kind access_by(uint32_t instruction) {
  if ((instruction & 0x0a000000) != 0x08000000) return USES;  /* neither */
  if ((instruction & 0x3b000000) == 0x18000000) return READS; /* of a literal */
  uint32_t bit22 = instruction >> 22 & 1, bit23 = instruction >> 23 & 1, vector = 1u << 26;
  if ((instruction & 0x3a000000) != 0x38000000) return bit22 ? READS : WRITES;
  /* One register. An atomic operation; else a load, also one that extends a sign (bit 23), but of
   * vectors that bit without the other one is a store of 16 bytes. */
  if ((instruction & 0x01200c00) == 0x00200000) return WRITES;
  return bit22 || (bit23 && (instruction & vector) == 0) ? READS : WRITES;
}

/* The kernel's record of the exception syndrome register, where it has one. */
static bool syndrome_of(const ucontext_t *context, uint64_t *syndrome) {
  const uint8_t *at = context->uc_mcontext.__reserved;
  const uint8_t *end = at + sizeof(context->uc_mcontext.__reserved);
  struct esr_context record;
  while (at + sizeof(record) <= end) {
    memcpy(&record, at, sizeof(record));
    if (record.head.magic == ESR_MAGIC) {
      *syndrome = record.esr;
      return true;
    }
    if (record.head.magic == 0 || record.head.size < sizeof(record.head)) return false;
    at += record.head.size;
  }
  return false;
}

static uintptr_t instruction_of(const ucontext_t *context) { return context->uc_mcontext.pc; }

static access_kind access_of(const ucontext_t *context) {
  const uint64_t writes = 1u << 6; /* WnR of a data abort */
  uint64_t syndrome;
  if (syndrome_of(context, &syndrome)) return (syndrome & writes) != 0 ? WRITES : READS;
  uint32_t instruction; /* an emulator may leave the record out */
  memcpy(&instruction, (const void *)instruction_of(context), sizeof(instruction));
  return access_by(instruction);
}

/* A register that holds a pointer in its stored form. The processor ignores the top byte of an address, so
 * the kernel reports the object's address in the store as the one that is not mapped. */
static uint64_t stored_pointer_in(const ucontext_t *context, const siginfo_t *information) {
  if (information->si_code <= 0) return 0;
  for (int at = 0; at < 31; at++) {
    uint64_t value = context->uc_mcontext.regs[at], address = p3l_surrogate_address(value).byte;
    if (p3l_surrogate_possible(value) && address >= P3L_PAGE_SIZE &&
        (uintptr_t)information->si_addr - address < P3L_SEGMENT_BYTES)
      return value;
  }
  return 0;
}

#elif defined(__x86_64__)

static access_kind access_of(const ucontext_t *context) {
  return (context->uc_mcontext.gregs[REG_ERR] & 2) != 0 ? WRITES : READS;
}

static uintptr_t instruction_of(const ucontext_t *context) {
  return (uintptr_t)context->uc_mcontext.gregs[REG_RIP];
}

/* A register that holds a pointer in its stored form: such an address is not canonical, so the kernel does
 * not say which it was. */
static uint64_t stored_pointer_in(const ucontext_t *context, const siginfo_t *information) {
  if (information->si_code != SI_KERNEL) return 0;
  for (int at = REG_R8; at < REG_RSP; at++) {
    uint64_t value = (uint64_t)context->uc_mcontext.gregs[at];
    uint64_t address = p3l_surrogate_address(value).byte;
    if (p3l_surrogate_possible(value) && address >= P3L_PAGE_SIZE && address >> 48 == 0)
      return value;
  }
  return 0;
}

#else

static access_kind access_of(const ucontext_t *context) {
  (void)context;
  return USES;
}

static uintptr_t instruction_of(const ucontext_t *context) {
  (void)context;
  return 0;
}

static uint64_t stored_pointer_in(const ucontext_t *context, const siginfo_t *information) {
  (void)context, (void)information;
  return 0;
}

#endif

/* ---- sentences ---- */

static const char *const verbs[] = {"reads", "writes to", "uses"};

static void say_object(const p3l_place *place, const uint8_t *address) {
  const p3l_stored_type *type = p3l_types_of(place->segment->store, place->type);
  uint64_t at = (uint64_t)(address - place->memory);
  p3l_guard_print("byte %llu of the %s at page %llu, byte %llu", (unsigned long long)at,
                  type == NULL ? "object" : type->name,
                  (unsigned long long)(place->address.byte / P3L_PAGE_SIZE),
                  (unsigned long long)(place->address.byte % P3L_PAGE_SIZE));
  if (at >= place->bytes)
    p3l_guard_print(", which has %llu bytes", (unsigned long long)place->bytes);
}

/* The object that begins last at or before the address; it may be dead, or end before it. */
static bool object_before(p3l_segment *segment, const uint8_t *address, p3l_place *place) {
  uint64_t offset = (uint64_t)(address - segment->memory);
  if (segment->kind == P3L_FRAMES) return false;
  *place = (p3l_place){.segment = segment};
  if (segment->kind == P3L_LARGE) {
    place->memory = segment->memory;
    place->resident = &segment->large.object;
    place->bytes = segment->large.bytes;
  } else {
    uint32_t start;
    if (!p3l_arena_start(segment, (uint32_t)(offset / P3L_GRANULE), &start)) return false;
    place->resident = &segment->arena.objects[p3l_arena_rank(segment, start)];
    place->memory = segment->memory + (uint64_t)start * P3L_GRANULE;
    place->bytes = (uint64_t)place->resident->granules * P3L_GRANULE;
  }
  place->address.byte = place->resident->address;
  place->type = place->resident->type;
  return true;
}

static const char *reason(const p3l_store *store, const p3l_place *place, const uint8_t *address,
                          access_kind kind) {
  if ((place->resident->flags & P3L_RESIDENT_DEAD) != 0)
    return ": it was deleted, or the transaction that made it was aborted. Keep no pointers to "
           "what is deleted; a kept<T> or a pointer in an object would say P3L_DANGLING";
  if ((uint64_t)(address - place->memory) >= place->bytes) return ": that is behind its end";
  if (kind == READS) return "";
  if (store->options.read_only) return ", of a store that is open for reading";
  if (store->changes == NULL)
    return " outside of a transaction: the store does not have the change, and the next run would "
           "not see it. Begin a transaction, and report the change (edit(), p3l_dirty(), P3L_SET)";
  return " and has not reported it: the store would not have the change, and the next run would "
         "not see it. Report it before it is made (edit(), p3l_dirty(), P3L_SET)";
}

static void explain(const uint8_t *address, access_kind kind) {
  p3l_segment *segment = p3l_segment_of(address);
  p3l_place place;
  if (segment == NULL || !object_before(segment, address, &place)) {
    p3l_guard_print(
        "p3l-debug: the program %s %p, where persistent objects may be and none is: it was evicted "
        "or deleted, or its store is closed. Keep a pin<T> or kept<T>\n",
        verbs[kind], (const void *)address);
    return;
  }
  p3l_guard_print("p3l-debug: %s: the program %s ", segment->store->path, verbs[kind]);
  say_object(&place, address);
  p3l_guard_print("%s\n", reason(segment->store, &place, address, kind));
}

static void explain_stored(uint64_t value) {
  p3l_address address = p3l_surrogate_address(value);
  p3l_guard_print(
      "p3l-debug: the program follows a pointer in its stored form, to page %llu, byte %llu, which "
      "was loaded without a check: by a plain pointer instead of a pptr<T>, without P3L_LD, or out "
      "of a copy of an object\n",
      (unsigned long long)(address.byte / P3L_PAGE_SIZE),
      (unsigned long long)(address.byte % P3L_PAGE_SIZE));
}

/* ---- the signal ---- */

static void trap(int signal, siginfo_t *information, void *state) {
  const ucontext_t *context = state;
  bool persistent = information->si_code > 0 && information->si_code != SI_KERNEL &&
                    p3l_is_persistent(information->si_addr);
  uint64_t stored = persistent ? 0 : stored_pointer_in(context, information);
  if (persistent) explain(information->si_addr, access_of(context));
  if (stored != 0) explain_stored(stored);
  if (persistent || stored != 0) p3l_guard_print_calls(instruction_of(context));
  if (!persistent && stored == 0 && (before.sa_flags & SA_SIGINFO) != 0)
    before.sa_sigaction(signal, information, state);
  else if (!persistent && stored == 0 && before.sa_handler != SIG_DFL &&
           before.sa_handler != SIG_IGN)
    before.sa_handler(signal);
  else
    sigaction(signal, &before, NULL); /* invariant 1 */
}

static void take_signal(void) {
  struct sigaction action = {.sa_sigaction = trap, .sa_flags = SA_SIGINFO | SA_ONSTACK};
  sigemptyset(&action.sa_mask);
  sigaction(SIGSEGV, &action, &before);
}

void p3l_guard_explain_traps(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, take_signal);
}

#endif
