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
 * For each line of code a block runs through: the same with constants.  For each
 * stretch between exits: instructions, loads and stores are added to counters.
 */
#include "tool.h"

#include "pub_tool_libcassert.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_machine.h"
#include "pub_tool_mallocfree.h"

#include "libvex_guest_amd64.h"

#define MAX_ACCESSES 256

/* One access found in the block. */
struct access {
  Int statement;   /* before which it is reported */
  IRExpr *address; /* an atom */
  IRTemp base;     /* address = base + offset; IRTemp_INVALID: constant */
  Long offset;
  Int size;
  enum hm_kind kind;
  Bool locked;
  IRExpr *guard; /* of a conditional access, or NULL */
  Addr ip;
  Int group;           /* number of the first access of its group */
  IRExpr *group_guard; /* of that first one; NULL: every access is reported */
};

struct block {
  IRSB *in, *out;
  IRTemp *base; /* of each temporary: base + offset, as far as known */
  Long *offset;
  struct access access[MAX_ACCESSES];
  Int accesses;
  /* Counts not yet added to the counters. */
  ULong instructions, loads, stores;
  Bool counts_fit; /* into the fields of the packed counter */
};

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

/* The address of something of this tool.  As a constant it takes ten bytes of code wherever it
 * is used.  The guest's state has a word, four bytes away, that points into this tool as well;
 * the distance to it is part of the instruction that accesses memory (blocks are 3 % shorter). */
static IRExpr *address_of(struct block *block, const void *object) {
  IRExpr *word = IRExpr_Get(offsetof(VexGuestAMD64State, host_EvC_FAILADDR), Ity_I64);
  Long distance = (Long)((Addr)object - hm_landmark());
  return binary(block, Iop_Add64, IRExpr_RdTmp(assign(block, Ity_I64, word)),
                constant((ULong)distance), Ity_I64);
}

static IRExpr *negation(struct block *block, IRExpr *condition) {
  return IRExpr_RdTmp(assign(block, Ity_I1, IRExpr_Unop(Iop_Not1, condition)));
}

/* Unwinding starts from the guest's instruction pointer, which VEX does not keep
 * up to date within a block (reading it here misplaced most samples by some
 * instructions; their own address is therefore a constant of the site). */
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

/* --- Finding the accesses ---------------------------------------------------------- */

/* Follows base + constant through the block, so that [rsp-8], [rsp-16] are seen
 * to share a base. */
static void follow(struct block *block, IRTemp temp, IRExpr *value) {
  block->base[temp] = temp;
  block->offset[temp] = 0;
  if (value->tag == Iex_RdTmp) {
    block->base[temp] = block->base[value->Iex.RdTmp.tmp];
    block->offset[temp] = block->offset[value->Iex.RdTmp.tmp];
  }
  if (value->tag != Iex_Binop) return;
  IRExpr *left = value->Iex.Binop.arg1, *right = value->Iex.Binop.arg2;
  IROp operation = value->Iex.Binop.op;
  if ((operation != Iop_Add64 && operation != Iop_Sub64) || left->tag != Iex_RdTmp ||
      right->tag != Iex_Const || right->Iex.Const.con->tag != Ico_U64)
    return;
  Long amount = (Long)right->Iex.Const.con->Ico.U64;
  block->base[temp] = block->base[left->Iex.RdTmp.tmp];
  block->offset[temp] =
      block->offset[left->Iex.RdTmp.tmp] + (operation == Iop_Add64 ? amount : -amount);
}

static void add_access(struct block *block, Int statement, IRExpr *address, Int size,
                       enum hm_kind kind, Bool locked, IRExpr *guard, Addr ip) {
  struct access *last = block->accesses > 0 ? &block->access[block->accesses - 1] : NULL;
  /* A load and a store of one instruction to one place are one access, as the
   * processor's `inc (mem)`; its locked forms arrive as load and compare-swap. */
  if (last != NULL && last->ip == ip && kind != HM_LOAD && last->kind == HM_LOAD &&
      last->size == size && last->guard == NULL && guard == NULL &&
      eqIRAtom(last->address, address)) {
    last->kind = HM_MODIFY;
    last->locked = locked;
    return;
  }
  if (block->accesses == MAX_ACCESSES) return; /* cannot happen: VEX ends blocks sooner */
  struct access *access = &block->access[block->accesses++];
  access->statement = statement;
  access->address = address;
  access->size = size > 127 ? 127 : size;
  access->kind = kind;
  access->locked = locked;
  access->guard = guard;
  access->ip = ip;
  access->group = -1;
  if (address->tag == Iex_RdTmp) {
    access->base = block->base[address->Iex.RdTmp.tmp];
    access->offset = block->offset[address->Iex.RdTmp.tmp];
  } else {
    access->base = IRTemp_INVALID;
    access->offset = (Long)address->Iex.Const.con->Ico.U64;
  }
}

static void find_in_statement(struct block *block, Int index, Addr ip) {
  IRStmt *statement = block->in->stmts[index];
  IRTypeEnv *types = block->in->tyenv;
  switch (statement->tag) {
    case Ist_WrTmp: {
      IRExpr *value = statement->Ist.WrTmp.data;
      follow(block, statement->Ist.WrTmp.tmp, value);
      if (value->tag == Iex_Load)
        add_access(block, index, value->Iex.Load.addr, sizeofIRType(value->Iex.Load.ty), HM_LOAD,
                   False, NULL, ip);
      break;
    }
    case Ist_Store: {
      IRExpr *data = statement->Ist.Store.data;
      add_access(block, index, statement->Ist.Store.addr, sizeofIRType(typeOfIRExpr(types, data)),
                 HM_STORE, False, NULL, ip);
      break;
    }
    case Ist_StoreG: {
      IRStoreG *store = statement->Ist.StoreG.details;
      add_access(block, index, store->addr, sizeofIRType(typeOfIRExpr(types, store->data)),
                 HM_STORE, False, store->guard, ip);
      break;
    }
    case Ist_LoadG: {
      IRLoadG *load = statement->Ist.LoadG.details;
      IRType wide, type;
      typeOfIRLoadGOp(load->cvt, &wide, &type);
      block->base[load->dst] = load->dst;
      add_access(block, index, load->addr, sizeofIRType(type), HM_LOAD, False, load->guard, ip);
      break;
    }
    case Ist_CAS: {
      IRCAS *swap = statement->Ist.CAS.details;
      Int size = sizeofIRType(typeOfIRExpr(types, swap->dataLo));
      if (swap->dataHi != NULL) size *= 2;
      block->base[swap->oldLo] = swap->oldLo;
      if (swap->oldHi != IRTemp_INVALID) block->base[swap->oldHi] = swap->oldHi;
      add_access(block, index, swap->addr, size, HM_MODIFY, True, NULL, ip);
      break;
    }
    case Ist_Dirty: {
      IRDirty *dirty = statement->Ist.Dirty.details;
      if (dirty->tmp != IRTemp_INVALID) block->base[dirty->tmp] = dirty->tmp;
      if (dirty->mFx != Ifx_None)
        add_access(block, index, dirty->mAddr, dirty->mSize,
                   dirty->mFx == Ifx_Read    ? HM_LOAD
                   : dirty->mFx == Ifx_Write ? HM_STORE
                                             : HM_MODIFY,
                   False, NULL, ip);
      break;
    }
    case Ist_LLSC: /* not on amd64 */
    default: break;
  }
}

static void find_accesses(struct block *block) {
  Addr ip = 0;
  for (Int i = 0; i < block->in->stmts_used; i++) {
    if (block->in->stmts[i]->tag == Ist_IMark)
      ip = block->in->stmts[i]->Ist.IMark.addr + block->in->stmts[i]->Ist.IMark.delta;
    find_in_statement(block, i, ip);
  }
}

/* Accesses of the block with one base and few bytes between them form a group;
 * the guard of the first holds for all.  What lies between them can only take
 * their line away if every other line of its set was used since, within this
 * block: that is neglected.
 *
 * A group that does not fit its line calls the simulator for each member, though
 * most are known to hit: at 16 bytes that is one group in eight, at 64 nearly all
 * (they were 69 % of all calls on PostgreSQL). */
#define GROUP_SPAN 16

static void form_groups(struct block *block) {
  for (Int first = 0; first < block->accesses; first++) {
    struct access *head = &block->access[first];
    if (head->group >= 0) continue;
    head->group = first;
    Long low = head->offset, high = head->offset + head->size;
    for (Int next = first + 1; next < block->accesses && head->guard == NULL; next++) {
      struct access *access = &block->access[next];
      if (access->group >= 0 || access->base != head->base || access->guard != NULL) continue;
      Long new_low = access->offset < low ? access->offset : low;
      Long end = access->offset + access->size;
      Long new_high = end > high ? end : high;
      if (new_high - new_low > GROUP_SPAN) continue;
      low = new_low;
      high = new_high;
      access->group = first;
    }
  }
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
  block->instructions = block->loads = block->stores = 0;
}

/* Valgrind lets a thread run 100,000 blocks at most before it takes the core back. */
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

/* What the accesses of a group have in common: bytes [low, high) from one base. */
struct span {
  IRExpr *address; /* of the first byte */
  Bool is_constant;
  Long low, high;
  Bool writes;
};

static Addr line_of(Long address) { return (Addr)address & ~(Addr)(HM_LINE_SIZE - 1); }

/* Most lines are not simulated: ask that first, and let hm_data_sampled do the rest.
 * The last byte may lie on a simulated line though the first does not. */
static IRExpr *is_on_a_sampled_line(struct block *block, const struct span *span) {
  ULong mask = ((ULong)hm_sim.config.set_sampling - 1) << HM_LINE_BITS;
  if (span->is_constant)
    return (span->low & mask) == 0 || ((span->high - 1) & mask) == 0
               ? NULL
               : IRExpr_Const(IRConst_U1(False));
  IRExpr *line = binary(block, Iop_And64, span->address, constant(mask), Ity_I64);
  IRExpr *first_in = binary(block, Iop_CmpEQ64, line, constant(0), Ity_I1);
  if (span->high - span->low <= 8) return first_in;
  IRExpr *end = binary(block, Iop_Add64, span->address,
                       constant((ULong)(span->high - span->low - 1)), Ity_I64);
  IRExpr *last = binary(block, Iop_And64, end, constant(mask), Ity_I64);
  return binary(block, Iop_Or1, first_in, binary(block, Iop_CmpEQ64, last, constant(0), Ity_I1),
                Ity_I1);
}

static IRExpr *is_not_in_filter(struct block *block, const struct span *span) {
  uint64_t *filter = span->writes ? hm_filter_store : hm_filter_load;
  if (span->is_constant && line_of(span->low) == line_of(span->high - 1)) {
    IRExpr *slot = address_of(block, hm_data_slot(filter, (uint64_t)span->low));
    IRTemp held = assign(block, Ity_I64, IRExpr_Load(Iend_LE, Ity_I64, slot));
    return binary(block, Iop_CmpNE64, IRExpr_RdTmp(held), constant(line_of(span->low)), Ity_I1);
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
  return negation(block, binary(block, Iop_CmpLT64U, distance, constant(room), Ity_I1));
}

/* The guard of a group, computed before its first access. */
static IRExpr *group_guard(struct block *block, Int first) {
  struct access *head = &block->access[first];
  struct span span = {.low = head->offset, .high = head->offset + head->size};
  for (Int i = first; i < block->accesses; i++) {
    struct access *access = &block->access[i];
    if (access->group != head->group) continue;
    if (access->offset < span.low) span.low = access->offset;
    if (access->offset + access->size > span.high) span.high = access->offset + access->size;
    if (access->kind != HM_LOAD) span.writes = True;
    if (every_access_is_reported(access)) return NULL;
  }
  if (span.high - span.low > (Long)HM_LINE_SIZE) return NULL; /* one access, larger than a line */
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

static Bool is_never(const IRExpr *guard) { return guard != NULL && guard->tag == Iex_Const; }

static IRExpr *both(struct block *block, IRExpr *guard, IRExpr *condition) {
  if (guard == NULL) return condition;
  if (condition == NULL) return guard;
  return binary(block, Iop_And1, guard, condition, Ity_I1);
}

static void report_access(struct block *block, const struct access *access, IRExpr *guard) {
  tell_instruction_pointer(block, access->ip);
  IRExpr *site = constant(HM_SITE(access->ip, access->size, access->kind, access->locked));
  if (every_access_is_reported(access))
    call(block, "hm_data_every", hm_data_every, access->address, site, access->guard);
  else if (is_never(guard))
    ; /* on a line that is not simulated */
  else if (hm_sim.config.set_sampling > 1)
    call(block, "hm_data_sampled", hm_data_sampled, access->address, site,
         both(block, guard, access->guard));
  else
    call(block, "hm_data", hm_data, access->address, site, both(block, guard, access->guard));
  block->loads += access->kind != HM_STORE;
  block->stores += access->kind != HM_LOAD;
}

/* A line of code the block has not yet been through. */
static void report_fetch(struct block *block, Addr line_address, Addr ip) {
  ULong line = line_address >> HM_LINE_BITS;
  if ((line & (hm_sim.config.set_sampling - 1)) != 0) return;
  IRExpr *entry = address_of(block, hm_code_slot(line_address));
  IRTemp first = assign(block, Ity_I64, IRExpr_Load(Iend_LE, Ity_I64, entry));
  IRExpr *guard = binary(block, Iop_CmpNE64, IRExpr_RdTmp(first), constant(line_address), Ity_I1);
  tell_instruction_pointer(block, ip);
  call(block, "hm_fetch", hm_fetch, constant(HM_FETCH_SITE(ip, line_address)), NULL, guard);
}

static void report_instruction(struct block *block, Addr ip, Int length, Addr *last_line) {
  for (Addr line = ip & ~(Addr)(HM_LINE_SIZE - 1); line < ip + (Addr)length; line += HM_LINE_SIZE) {
    if (line == *last_line) continue;
    report_fetch(block, line, ip);
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
      if (access == first) first->group_guard = group_guard(block, next_access);
      report_access(block, access, first->group_guard);
    }
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
  if (!hm_measuring) return in;
  if (hm_is_forked && !hm_warming_up) hm_log_translation(closure->nraddr);

  static struct block block;
  block.in = in;
  block.out = deepCopyIRSBExceptStmts(in);
  block.accesses = 0;
  block.instructions = block.loads = block.stores = 0;
  SizeT temps = (SizeT)in->tyenv->types_used + 1;
  block.base = VG_(malloc)("softpmu.base", temps * sizeof *block.base);
  block.offset = VG_(malloc)("softpmu.offset", temps * sizeof *block.offset);
  for (SizeT i = 0; i < temps; i++) {
    block.base[i] = (IRTemp)i;
    block.offset[i] = 0;
  }
  find_accesses(&block);
  form_groups(&block);
  block.counts_fit = counts_fit(&block);
  emit(&block);
  VG_(free)(block.base);
  VG_(free)(block.offset);
  return block.out;
}
