/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Breakpoints of other programs in the code of this process.
 *
 * A uprobe that is set without a process (`perf probe`, bpftrace, `hardmeter record --statements` of
 * another server) lies in every process that maps the file: the kernel replaces an instruction by a
 * breakpoint, in a private copy of the page.  Run natively, the breakpoint leads to the kernel.
 * Valgrind runs a translation of it, and the translation of a breakpoint is SIGTRAP: the program dies
 * of a probe that was not meant for it.
 *
 *   block ends with SIGTRAP --is_foreign--> the file has another instruction there
 *      --put_back--> memory has it, too --restart--> the block is translated again
 *
 * Invariants:
 *   1. Only what differs from the mapped file is put back: a program's own breakpoint stays.
 *   2. Only this process's copy of the page is written; other processes go on being probed.
 */
#include "tool.h"

#include "pub_tool_aspacemgr.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_libcfile.h"
#include "pub_tool_libcprint.h"
#include "pub_tool_libcproc.h"

#include "libvex_guest_amd64.h"

#define MOST_BYTES 16 /* of an instruction */

/* The last instruction of a block; 0 if it has none. */
static UInt last_instruction(const IRSB *block, Addr *address) {
  for (Int i = block->stmts_used - 1; i >= 0; i--) {
    const IRStmt *statement = block->stmts[i];
    if (statement->tag != Ist_IMark) continue;
    *address = statement->Ist.IMark.addr;
    return statement->Ist.IMark.len;
  }
  return 0;
}

/* Reads the mapped file's contents at an address. */
static Bool read_file(const NSegment *segment, Addr address, UChar *bytes, UInt length) {
  const HChar *path = VG_(am_get_filename)(segment);
  Int file = path == NULL ? -1 : VG_(fd_open)(path, VKI_O_RDONLY, 0);
  if (file < 0) return False;
  struct vg_stat status;
  /* Another file may have the name by now. */
  Bool same =
      VG_(fstat)(file, &status) == 0 && status.dev == segment->dev && status.ino == segment->ino;
  Off64T place = segment->offset + (Off64T)(address - segment->start);
  Bool whole = same && VG_(lseek)(file, place, VKI_SEEK_SET) == place &&
               VG_(read)(file, bytes, (Int)length) == (Int)length;
  VG_(close)(file);
  return whole;
}

/* Code pages are not writable; this file allows it, as for debuggers. */
static Bool put_back(Addr address, const UChar *bytes, UInt length) {
  Int memory = VG_(fd_open)("/proc/self/mem", VKI_O_RDWR, 0);
  if (memory < 0) return False;
  Bool done = VG_(lseek)(memory, (Off64T)address, VKI_SEEK_SET) == (Off64T)address &&
              VG_(write)(memory, bytes, (Int)length) == (Int)length;
  VG_(close)(memory);
  return done && VG_(memcmp)((const void *)address, bytes, length) == 0;
}

static void put(IRSB *block, Int offset, ULong value) {
  addStmtToIRSB(block, IRStmt_Put(offset, IRExpr_Const(IRConst_U64(value))));
}

/* A block that does nothing but have itself translated again. */
static IRSB *restart(const IRSB *in, Addr start, Addr changed, UInt length) {
  IRSB *block = emptyIRSB();
  put(block, offsetof(VexGuestAMD64State, guest_CMSTART), changed);
  put(block, offsetof(VexGuestAMD64State, guest_CMLEN), length);
  block->next = IRExpr_Const(IRConst_U64(start));
  block->jumpkind = Ijk_InvalICache;
  block->offsIP = in->offsIP;
  return block;
}

IRSB *hm_without_foreign_probe(IRSB *in, Addr start) {
  if (in->jumpkind != Ijk_SigTRAP) return NULL;
  Addr address = 0;
  UInt length = last_instruction(in, &address);
  if (length == 0 || length > MOST_BYTES) return NULL;
  const NSegment *segment = VG_(am_find_nsegment)(address);
  if (segment == NULL || segment->kind != SkFileC || address + length - 1 > segment->end)
    return NULL;
  UChar bytes[MOST_BYTES];
  if (!read_file(segment, address, bytes, length)) return NULL;
  if (VG_(memcmp)((const void *)address, bytes, length) == 0) return NULL;
  if (put_back(address, bytes, length)) return restart(in, start, address, length);
  VG_(fmsg)
  ("softpmu: another program's probe lies at %#lx in %s, and this system does not allow to "
   "remove it from process %d, which it kills\n"
   "softpmu: stop the other recording (hardmeter record --statements, perf, bpftrace) first\n",
   address, VG_(am_get_filename)(segment), VG_(getpid)());
  return NULL;
}
