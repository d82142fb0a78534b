/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * What is added to every block of the program.
 *
 * For each data access, in VEX's intermediate form:
 *
 *     base  = filter[slot of address]             one load
 *     guard = !((address - base) < 65 - size)     one subtract, one compare
 *     if (guard) hm_data(address, site)           rarely taken
 *
 * The filter holds addresses of lines known to hit (sim/hierarchy.c).  The
 * unsigned compare says at once "another line" and "crosses the line's end".
 * Consecutive accesses to one base register with small offsets (struct fields,
 * pushes) share one guard: if all lie on that line, none can change any
 * state, and if not, each is reported on its own.
 *
 * For each line of code a block runs through: the same with constants; and one guard
 * for both where an access follows before any register changes.  For each stretch
 * between exits: instructions, loads and stores are added to counters.
 *
 * A guard is a branch that is nearly always taken (VEX puts the call behind it), and its
 * code is most of what is added: fewer guards are fewer bytes and fewer branches.
 */
#include "block.h"

#include "pub_tool_libcassert.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_machine.h"
#include "pub_tool_mallocfree.h"

#include "libvex_guest_amd64.h"

static IRTemp assign(struct block *block, IRType type, IRExpr *value) {
  IRTemp temp = newIRTemp(block->out->tyenv, type);
  addStmtToIRSB(block->out, IRStmt_WrTmp(temp, value));
  return temp;
}

static IRExpr *constant(ULong value) { return IRExpr_Const(IRConst_U64(value)); }

static IRExpr *binary(struct block *block, IROp operation, IRExpr *left, IRExpr *right,
                      IRType type) {
  return IRExpr_RdTmp(assign(block, type, IRExpr_Binop(operation, left, right)));
}

/* The address of an object of this tool. As a constant it takes ten bytes of code at each use.
 * The guest's state has a word, with a four-byte offset, that also points into this tool; the
 * distance to it is part of the memory instruction (blocks are 3 % shorter). */
static IRExpr *address_of(struct block *block, const void *object) {
  IRExpr *word = IRExpr_Get(offsetof(VexGuestAMD64State, host_EvC_FAILADDR), Ity_I64);
  Long distance = (Long)((Addr)object - hm_landmark());
  return binary(block, Iop_Add64, IRExpr_RdTmp(assign(block, Ity_I64, word)),
                constant((ULong)distance), Ity_I64);
}

static IRExpr *negation(struct block *block, IRExpr *condition) {
  return IRExpr_RdTmp(assign(block, Ity_I1, IRExpr_Unop(Iop_Not1, condition)));
}

/* Unwinding starts from the guest's instruction pointer, which VEX does not keep up to date
 * within a block (using it misplaced most samples by some instructions; their own address is
 * therefore a constant of the site). */
static void tell_instruction_pointer(struct block *block, Addr ip) {
  if (hm_sim.config.callchain_depth == 0) return;
  addStmtToIRSB(block->out, IRStmt_Put(offsetof(VexGuestAMD64State, guest_RIP), constant(ip)));
}

static void call(struct block *block, const HChar *name, void *function, IRExpr *first,
                 IRExpr *second, IRExpr *guard) {
  IRDirty *dirty = second == NULL ? unsafeIRDirty_0_N(1, name, VG_(fnptr_to_fnentry)(function),
                                                      mkIRExprVec_1(first))
                                  : unsafeIRDirty_0_N(2, name, VG_(fnptr_to_fnentry)(function),
                                                      mkIRExprVec_2(first, second));
  if (guard != NULL) dirty->guard = guard;
  addStmtToIRSB(block->out, IRStmt_Dirty(dirty));
}

/* --- Emitting ---------------------------------------------------------------------- */

static void add_to_counter(struct block *block, uint64_t *counter, ULong amount) {
  if (amount == 0) return;
  IRExpr *address = address_of(block, counter);
  IRTemp old = assign(block, Ity_I64, IRExpr_Load(Iend_LE, Ity_I64, address));
  IRExpr *sum = binary(block, Iop_Add64, IRExpr_RdTmp(old), constant(amount), Ity_I64);
  addStmtToIRSB(block->out, IRStmt_Store(Iend_LE, address, sum));
}

/* Before every way out of the block.  One addition serves all three counts where
 * none can overflow its field before the core is left. */
static void flush_counts(struct block *block) {
  if (block->counts_fit) {
    add_to_counter(block, &hm_sim.packed_counts,
                   HM_PACK(block->instructions, block->loads, block->stores));
  } else {
    add_to_counter(block, &hm_sim.instructions, block->instructions);
    add_to_counter(block, &hm_sim.loads, block->loads);
    add_to_counter(block, &hm_sim.stores, block->stores);
  }
  block->flushed += block->instructions;
  block->instructions = block->loads = block->stores = 0;
}

/* Valgrind lets a thread run at most 100,000 blocks in a row. */
#define BLOCKS_PER_SLICE 100000

static Bool counts_fit(const struct block *block) {
  ULong instructions = 0, loads = 0, stores = 0;
  for (Int i = 0; i < block->in->stmts_used; i++)
    instructions += block->in->stmts[i]->tag == Ist_IMark;
  for (Int i = 0; i < block->accesses; i++) {
    loads += block->access[i].kind != HM_STORE;
    stores += block->access[i].kind != HM_LOAD;
  }
  return instructions * BLOCKS_PER_SLICE <= HM_PACKED_MOST(HM_PACKED_INSTRUCTION_BITS) &&
         loads * BLOCKS_PER_SLICE <= HM_PACKED_MOST(HM_PACKED_LOAD_BITS) &&
         stores * BLOCKS_PER_SLICE <= HM_PACKED_MOST(HM_PACKED_STORE_BITS);
}

static Bool sampled(enum hm_event event) { return hm_sim.config.period[event] != 0; }

static Bool every_access_is_reported(const struct access *access) {
  return (access->kind != HM_STORE && sampled(HM_LOADS)) ||
         (access->kind != HM_LOAD && sampled(HM_STORES));
}

/* The common range of a group's accesses: bytes [low, high) from one base. */
struct span {
  IRExpr *address; /* of the first byte */
  Bool is_constant;
  Long low, high;
  Bool writes;
};

static Addr line_of(Long address) { return (Addr)address & ~(Addr)(HM_LINE_SIZE - 1); }

/* Most lines are not simulated: test that first, and let hm_data_sampled do the rest. A span of
 * s bytes touches a simulated line if its last byte is less than 64 + s - 1 bytes after the
 * beginning of that line. */
static struct guard is_on_a_sampled_line(struct block *block, const struct span *span) {
  ULong mask = (ULong)hm_sim.config.set_sampling * HM_LINE_SIZE - 1;
  ULong before_last = (ULong)(span->high - span->low - 1), limit = HM_LINE_SIZE + before_last;
  if (span->is_constant)
    return (struct guard){((ULong)(span->high - 1) & mask) < limit ? ALWAYS : NEVER, NULL, 0};
  IRExpr *last = before_last == 0
                     ? span->address
                     : binary(block, Iop_Add64, span->address, constant(before_last), Ity_I64);
  return (struct guard){IF_BELOW, binary(block, Iop_And64, last, constant(mask), Ity_I64), limit};
}

static struct guard is_not_in_filter(struct block *block, const struct span *span) {
  uint64_t *filter = span->writes ? hm_filter_store : hm_filter_load;
  if (span->is_constant && line_of(span->low) == line_of(span->high - 1)) {
    IRExpr *slot = address_of(block, hm_data_slot(filter, (uint64_t)span->low));
    IRTemp held = assign(block, Ity_I64, IRExpr_Load(Iend_LE, Ity_I64, slot));
    return (struct guard){UNLESS_EQUAL, IRExpr_RdTmp(held), line_of(span->low)};
  }
  /* The filter's slot: see hm_data_slot. */
  IRExpr *shifted =
      binary(block, Iop_Shr64, span->address, IRExpr_Const(IRConst_U8(HM_FILTER_SHIFT)), Ity_I64);
  IRExpr *slot = binary(block, Iop_And64, shifted, constant(HM_FILTER_MASK(hm_sim.l1d)), Ity_I64);
  IRExpr *entry = binary(block, Iop_Add64, slot, constant((ULong)(Addr)filter), Ity_I64);
  IRTemp line = assign(block, Ity_I64, IRExpr_Load(Iend_LE, Ity_I64, entry));
  IRExpr *distance = binary(block, Iop_Sub64, span->address, IRExpr_RdTmp(line), Ity_I64);
  /* A constant on the right is part of the compare instruction. */
  ULong room = HM_LINE_SIZE + 1 - (ULong)(span->high - span->low);
  return (struct guard){UNLESS_BELOW, distance, room};
}

/* The guard of a group, computed before its first access. */
static struct guard group_guard(struct block *block, Int first) {
  struct access *head = &block->access[first];
  struct span span = {.low = head->offset, .high = head->offset + head->size};
  for (Int i = first; i < block->accesses; i++) {
    struct access *access = &block->access[i];
    if (access->group != head->group) continue;
    if (access->offset < span.low) span.low = access->offset;
    if (access->offset + access->size > span.high) span.high = access->offset + access->size;
    if (access->kind != HM_LOAD) span.writes = True;
    if (every_access_is_reported(access)) return (struct guard){ALWAYS, NULL, 0};
  }
  if (span.high - span.low > (Long)HM_LINE_SIZE) /* one access, larger than a line */
    return (struct guard){ALWAYS, NULL, 0};
  span.is_constant = head->base == IRTemp_INVALID;
  if (span.is_constant)
    span.address = constant((ULong)span.low);
  else if (span.low == head->offset)
    span.address = head->address;
  else
    span.address = binary(block, Iop_Add64, head->address,
                          constant((ULong)(span.low - head->offset)), Ity_I64);
  return hm_sim.config.set_sampling > 1 ? is_on_a_sampled_line(block, &span)
                                        : is_not_in_filter(block, &span);
}

/* NULL: always. */
static IRExpr *condition(struct block *block, const struct guard *guard) {
  IRExpr *limit = constant(guard->limit);
  switch (guard->when) {
    case UNLESS_EQUAL: return binary(block, Iop_CmpNE64, guard->value, limit, Ity_I1);
    case IF_BELOW: return binary(block, Iop_CmpLT64U, guard->value, limit, Ity_I1);
    case UNLESS_BELOW:
      return negation(block, binary(block, Iop_CmpLT64U, guard->value, limit, Ity_I1));
    default: return NULL;
  }
}

static IRExpr *both(struct block *block, IRExpr *guard, IRExpr *condition) {
  if (guard == NULL) return condition;
  if (condition == NULL) return guard;
  return binary(block, Iop_And1, guard, condition, Ity_I1);
}

/* --- Lines of code ------------------------------------------------------------------- */

static IRExpr *held_by_slot_of(struct block *block, Addr line) {
  IRExpr *entry = address_of(block, hm_code_slot(line));
  return IRExpr_RdTmp(assign(block, Ity_I64, IRExpr_Load(Iend_LE, Ity_I64, entry)));
}

/* Reports the line that is due, alone. */
static void report_due_line(struct block *block) {
  Addr line = block->due_line, ip = block->due_ip;
  if (line == 0) return;
  block->due_line = 0;
  struct guard guard = {UNLESS_EQUAL, held_by_slot_of(block, line), line};
  tell_instruction_pointer(block, ip);
  call(block, "hm_fetch", hm_fetch, constant(HM_FETCH_SITE(ip, line)), NULL,
       condition(block, &guard));
}

/* A line of code that the block has not reported yet. An access may report it, too, if the state
 * in a sample does not change until then. */
static void line_is_due(struct block *block, Addr line, Addr ip) {
  if ((line >> HM_LINE_BITS & (hm_sim.config.set_sampling - 1)) != 0) return;
  report_due_line(block);
  block->due_line = line;
  block->due_ip = ip;
  if (hm_sim.config.set_sampling > 1 || sampled(HM_INSTRUCTIONS)) report_due_line(block);
}

/* Whether a statement changes the state in a sample: the general registers and the flags; the
 * instruction pointer is a constant of the site. */
static Bool changes_registers(const IRStmt *statement) {
  switch (statement->tag) {
    case Ist_Put: {
      Int offset = statement->Ist.Put.offset;
      return offset != offsetof(VexGuestAMD64State, guest_RIP) &&
             offset < (Int)offsetof(VexGuestAMD64State, guest_FS_CONST);
    }
    case Ist_PutI:
    case Ist_Dirty:
    case Ist_Exit: return True;
    default: return False;
  }
}

/* Lets a group's guard also report the due line if possible: it needs the same bits of a site as
 * a dependence. */
static Bool takes_due_line(struct block *block, const struct access *access, struct guard *guard) {
  if (block->due_line == 0 || access->guard != NULL || access->source >= 0 ||
      access->ip - block->due_ip > HM_SITE_MOST_BEHIND)
    return False;
  if (guard->when != UNLESS_EQUAL && guard->when != UNLESS_BELOW) return False;
  IRExpr *other = binary(block, Iop_Xor64, held_by_slot_of(block, block->due_line),
                         constant(block->due_line), Ity_I64);
  IRExpr *value = guard->value;
  if (guard->when == UNLESS_EQUAL) {
    value = binary(block, Iop_Xor64, value, constant(guard->limit), Ity_I64);
    *guard = (struct guard){UNLESS_BELOW, value, HM_LINE_SIZE};
  }
  /* Lines that differ, differ in bits above those of a distance within the line. */
  guard->value = binary(block, Iop_Or64, value, other, Ity_I64);
  return True;
}

/* --- The whole block ------------------------------------------------------------------ */

static ULong dependence(const struct block *block, const struct access *access) {
  if (access->source < 0 || hm_sim.config.core.reorder_window == 0) return 0;
  ULong distance = access->flushed - block->access[access->source].flushed;
  return distance <= HM_SITE_MOST_DISTANT ? HM_SITE_DEPENDS(distance) : 0;
}

static void report_access(struct block *block, struct access *access, const struct guard *guard,
                          Bool with_line) {
  tell_instruction_pointer(block, access->ip);
  access->flushed = block->flushed;
  ULong kind = access->updates ? HM_LOAD_OF_UPDATE : (ULong)access->kind;
  ULong site = HM_SITE(access->ip, access->size, kind, access->locked);
  site |= dependence(block, access);
  if (every_access_is_reported(access)) {
    call(block, "hm_data_every", hm_data_every, access->address, constant(site), access->guard);
  } else if (with_line) {
    site |= HM_SITE_LINE(access->ip, block->due_ip, block->due_line);
    block->due_line = 0;
    call(block, "hm_fetch_and_data", hm_fetch_and_data, access->address, constant(site),
         condition(block, guard));
  } else if (guard->when != NEVER) { /* never: on a line that is not simulated */
    IRExpr *when = both(block, condition(block, guard), access->guard);
    if (hm_sim.config.set_sampling > 1)
      call(block, "hm_data_sampled", hm_data_sampled, access->address, constant(site), when);
    else
      call(block, "hm_data", hm_data, access->address, constant(site), when);
  }
  block->loads += access->kind != HM_STORE;
  block->stores += access->kind != HM_LOAD;
}

static void report_instruction(struct block *block, Addr ip, Int length, Addr *last_line) {
  for (Addr line = line_of((Long)ip); line < ip + (Addr)length; line += HM_LINE_SIZE) {
    if (line == *last_line) continue;
    line_is_due(block, line, ip);
    *last_line = line;
  }
  block->instructions++;
  if (sampled(HM_INSTRUCTIONS))
    call(block, "hm_instruction", hm_instruction, constant(HM_SITE(ip, length, HM_FETCH, 0)), NULL,
         NULL);
}

static void report_branch(struct block *block, IRStmt *exit, Addr ip) {
  if (!hm_sim.config.branch_predictor || exit->Ist.Exit.jk != Ijk_Boring) return;
  IRTemp taken = assign(block, Ity_I64, IRExpr_Unop(Iop_1Uto64, exit->Ist.Exit.guard));
  call(block, "hm_branch", hm_branch, IRExpr_RdTmp(taken), constant(HM_SITE(ip, 0, HM_BRANCH, 0)),
       NULL);
}

static void report_end(struct block *block, Addr ip) {
  IRExpr *next = block->in->next;
  /* Returns are predicted by the return stack and not simulated. */
  if (hm_sim.config.branch_predictor && next->tag == Iex_RdTmp &&
      (block->in->jumpkind == Ijk_Boring || block->in->jumpkind == Ijk_Call))
    call(block, "hm_indirect_branch", hm_indirect_branch, next,
         constant(HM_SITE(ip, 0, HM_BRANCH, 0)), NULL);
}

static void emit(struct block *block) {
  Int next_access = 0;
  Addr ip = 0, last_line = 0;
  for (Int i = 0; i < block->in->stmts_used; i++) {
    IRStmt *statement = block->in->stmts[i];
    for (; next_access < block->accesses && block->access[next_access].statement == i;
         next_access++) {
      struct access *access = &block->access[next_access];
      struct access *first = &block->access[access->group];
      Bool with_line = False;
      if (access == first) {
        access->group_guard = group_guard(block, next_access);
        with_line = takes_due_line(block, access, &access->group_guard);
      }
      if (!with_line) report_due_line(block);
      report_access(block, access, &first->group_guard, with_line);
    }
    if (changes_registers(statement)) report_due_line(block);
    if (statement->tag == Ist_Exit) {
      report_branch(block, statement, ip);
      flush_counts(block);
    }
    addStmtToIRSB(block->out, statement);
    if (statement->tag == Ist_IMark) {
      ip = statement->Ist.IMark.addr + statement->Ist.IMark.delta;
      report_instruction(block, ip, (Int)statement->Ist.IMark.len, &last_line);
    }
  }
  report_due_line(block);
  report_end(block, ip);
  flush_counts(block);
}

IRSB *hm_instrument(VgCallbackClosure *closure, IRSB *in, const VexGuestLayout *layout,
                    const VexGuestExtents *extents, const VexArchInfo *host_arch, IRType guest_word,
                    IRType host_word) {
  (void)layout;
  (void)extents;
  (void)host_arch;
  (void)guest_word;
  (void)host_word;
  IRSB *restarted = hm_without_foreign_probe(in, closure->nraddr);
  if (restarted != NULL) return restarted;
  if (!hm_measuring) return in;
  if (hm_is_forked && !hm_warming_up) hm_log_translation(closure->nraddr);

  static struct block block;
  block.in = in;
  block.out = deepCopyIRSBExceptStmts(in);
  block.accesses = 0;
  block.instructions = block.loads = block.stores = block.flushed = 0;
  block.due_line = 0;
  block.latest_exit = -1;
  SizeT temps = (SizeT)in->tyenv->types_used + 1;
  block.base = VG_(malloc)("softpmu.base", temps * sizeof *block.base);
  block.offset = VG_(malloc)("softpmu.offset", temps * sizeof *block.offset);
  block.source = VG_(malloc)("softpmu.source", temps * sizeof *block.source);
  for (SizeT i = 0; i < temps; i++) {
    block.base[i] = (IRTemp)i;
    block.offset[i] = 0;
    block.source[i] = -1;
  }
  hm_find_accesses(&block);
  hm_form_groups(&block);
  block.counts_fit = counts_fit(&block);
  emit(&block);
  VG_(free)(block.base);
  VG_(free)(block.offset);
  VG_(free)(block.source);
  return block.out;
}
