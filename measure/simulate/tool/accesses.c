/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The accesses of a block, and groups of them that lie together.
 */
#include "block.h"

/* Follows base + constant through the block, so that [rsp-8], [rsp-16] share a base. */
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

static Int source_of(const struct block *block, IRExpr *atom) {
  return atom != NULL && atom->tag == Iex_RdTmp ? block->source[atom->Iex.RdTmp.tmp] : -1;
}

static Int later(Int a, Int b) { return a > b ? a : b; }

/* The latest load that a value depends on; values from registers are not followed. */
static Int source_of_value(const struct block *block, IRExpr *value) {
  switch (value->tag) {
    case Iex_RdTmp: return source_of(block, value);
    case Iex_Unop: return source_of(block, value->Iex.Unop.arg);
    case Iex_Binop:
      return later(source_of(block, value->Iex.Binop.arg1),
                   source_of(block, value->Iex.Binop.arg2));
    case Iex_Triop:
      return later(source_of(block, value->Iex.Triop.details->arg2),
                   source_of(block, value->Iex.Triop.details->arg3));
    case Iex_Qop:
      return later(source_of(block, value->Iex.Qop.details->arg2),
                   later(source_of(block, value->Iex.Qop.details->arg3),
                         source_of(block, value->Iex.Qop.details->arg4)));
    case Iex_ITE:
      return later(
          source_of(block, value->Iex.ITE.cond),
          later(source_of(block, value->Iex.ITE.iftrue), source_of(block, value->Iex.ITE.iffalse)));
    case Iex_CCall: { /* flags */
      Int source = -1;
      for (Int i = 0; value->Iex.CCall.args[i] != NULL; i++)
        source = later(source, source_of(block, value->Iex.CCall.args[i]));
      return source;
    }
    default: return -1;
  }
}

static void add_access(struct block *block, Int statement, IRExpr *address, Int size,
                       enum hm_kind kind, Bool locked, IRExpr *guard, Addr ip) {
  struct access *last = block->accesses > 0 ? &block->access[block->accesses - 1] : NULL;
  /* A load and a store of one instruction at one place are one access, as the processor's `inc
   * (mem)`; its locked forms appear as load and compare-swap. */
  if (last != NULL && last->ip == ip && kind != HM_LOAD && last->kind == HM_LOAD &&
      last->size == size && last->guard == NULL && guard == NULL &&
      eqIRAtom(last->address, address)) {
    last->kind = HM_MODIFY;
    last->locked = locked;
    return;
  }
  if (block->accesses == MAX_ACCESSES) return; /* cannot happen: VEX ends blocks earlier */
  struct access *access = &block->access[block->accesses++];
  access->statement = statement;
  access->address = address;
  access->size = size > 127 ? 127 : size;
  access->kind = kind;
  access->locked = locked;
  access->updates = False;
  access->guard = guard;
  access->ip = ip;
  access->source = source_of(block, address);
  access->group = -1;
  if (address->tag == Iex_RdTmp) {
    access->base = block->base[address->Iex.RdTmp.tmp];
    access->offset = block->offset[address->Iex.RdTmp.tmp];
  } else {
    access->base = IRTemp_INVALID;
    access->offset = (Long)address->Iex.Const.con->Ico.U64;
  }
}

/* The block stores what it loaded before. */
static void note_update(struct block *block) {
  const struct access *store = &block->access[block->accesses - 1];
  if (store->kind != HM_STORE) return;
  for (Int i = block->accesses - 2; i >= 0; i--) {
    struct access *load = &block->access[i];
    if (load->statement < block->latest_exit) return;
    if (load->base != store->base || load->offset != store->offset || load->size != store->size)
      continue;
    load->updates = load->kind == HM_LOAD && load->guard == NULL;
    return;
  }
}

static void find_in_statement(struct block *block, Int index, Addr ip) {
  IRStmt *statement = block->in->stmts[index];
  IRTypeEnv *types = block->in->tyenv;
  switch (statement->tag) {
    case Ist_WrTmp: {
      IRExpr *value = statement->Ist.WrTmp.data;
      follow(block, statement->Ist.WrTmp.tmp, value);
      if (value->tag == Iex_Load) {
        add_access(block, index, value->Iex.Load.addr, sizeofIRType(value->Iex.Load.ty), HM_LOAD,
                   False, NULL, ip);
        block->source[statement->Ist.WrTmp.tmp] = block->accesses - 1;
      } else {
        block->source[statement->Ist.WrTmp.tmp] = source_of_value(block, value);
      }
      break;
    }
    case Ist_Store: {
      IRExpr *data = statement->Ist.Store.data;
      add_access(block, index, statement->Ist.Store.addr, sizeofIRType(typeOfIRExpr(types, data)),
                 HM_STORE, False, NULL, ip);
      note_update(block);
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
      block->source[load->dst] = block->accesses - 1;
      break;
    }
    case Ist_CAS: {
      IRCAS *swap = statement->Ist.CAS.details;
      Int size = sizeofIRType(typeOfIRExpr(types, swap->dataLo));
      if (swap->dataHi != NULL) size *= 2;
      block->base[swap->oldLo] = swap->oldLo;
      if (swap->oldHi != IRTemp_INVALID) block->base[swap->oldHi] = swap->oldHi;
      add_access(block, index, swap->addr, size, HM_MODIFY, True, NULL, ip);
      block->source[swap->oldLo] = block->accesses - 1;
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
    case Ist_Exit: block->latest_exit = index; break;
    case Ist_LLSC: /* not on amd64 */
    default: break;
  }
}

void hm_find_accesses(struct block *block) {
  Addr ip = 0;
  for (Int i = 0; i < block->in->stmts_used; i++) {
    if (block->in->stmts[i]->tag == Ist_IMark)
      ip = block->in->stmts[i]->Ist.IMark.addr + block->in->stmts[i]->Ist.IMark.delta;
    find_in_statement(block, i, ip);
  }
}

/* Accesses of the block with one base and few bytes between them form a group; the guard of the
 * first holds for all. Accesses between them could evict their line only if they used every other
 * line of its set within this block: this is neglected.
 *
 * A group that does not fit its line calls the simulator for each member, though
 * most are known to hit: at 16 bytes that is one group in eight, and three calls in
 * four of a query of PostgreSQL; at 64 it is nearly all.  So a group is little more
 * than a load and a store of one word. */
#define GROUP_SPAN 8

/* No access to a line that is not simulated is reported, and most groups are on such lines. */
static Long group_span(void) { return hm_sim.config.set_sampling > 1 ? HM_LINE_SIZE : GROUP_SPAN; }

void hm_form_groups(struct block *block) {
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
      if (new_high - new_low > group_span()) continue;
      low = new_low;
      high = new_high;
      access->group = first;
    }
  }
}
