/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Runs instructions that VEX does not support (AVX-512, mask registers, ...) on this processor and the
 * copied pages, one at a time. The followed process uses the same processor, so it supports them.
 *
 *   VEX stops at it ─> decode, copy behind a jump ─> guest's registers into the processor's
 *        ─> the instruction ─> back into the guest's state ─> VEX goes on behind it
 *
 * Registers that VEX does not have (zmm16 to zmm31, upper halves, k0 to k7) live in the frame between
 * the instructions.
 *
 * Invariants:
 *  1. The instruction has no effect on control flow and uses no segment register: the decoder
 *     ensures this (instruction.c).
 *  2. A fault in it is handled as in VEX's code (memory.c): handlers run on their own stack.
 *
 * Not emulated: VEX's own AVX instructions zero the upper halves of zmm0 to zmm15. We do not know any
 * code that relies on this without first writing the register by an AVX-512 instruction.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "ghost.h"
#include "guest.h"
#include "instruction.h"
#include "simulator.h"
#include "valgrind_core.h"

/* native_enter.S has the offsets. */
struct frame {
  uint64_t gpr[16], flags, host_rsp, code, back, k[8], reserved[4];
  uint8_t vector[32][64];
};
_Static_assert(offsetof(struct frame, k) == 160 && offsetof(struct frame, vector) == 256,
               "native_enter.S has them");
struct frame hm_native_frame __attribute__((aligned(64)));
#define frame hm_native_frame

extern void hm_native_enter_512(void), hm_native_enter_256(void);
extern const char hm_native_back_512[], hm_native_back_256[];

#define PIECES 8192u
struct piece {
  uint64_t address;
  uint32_t code;   /* offset of its copy */
  uint8_t scratch; /* register that replaces the instruction pointer, + 1; 0: none */
  struct hm_instruction instruction;
};
static struct piece piece[PIECES];
static uint32_t pieces;
static uint8_t *code;
static uint32_t code_used;
#define CODE_SIZE (PIECES * 32u)
static uint64_t count;
static int has_512 = -1;

uint64_t hm_native_count(void) { return count; }

void hm_native_forget(void) {
  if (pieces == 0) return;
  memset(piece, 0, sizeof piece);
  pieces = code_used = 0;
}

/* --- Copies of instructions --------------------------------------------------------------- */

/*
 * Replaces an operand relative to the instruction pointer by one relative to a register, with the
 * same number of bytes.
 */
static void replace_instruction_pointer(uint8_t *bytes, struct piece *made) {
  const struct hm_instruction *in = &made->instruction;
  uint8_t scratch = 0;
  while (scratch == in->reg || scratch == in->vvvv || scratch == 4) scratch++;
  bytes[in->modrm_at] = (uint8_t)((bytes[in->modrm_at] & 0x38) | 0x80 | scratch);
  memset(bytes + in->modrm_at + 1, 0, 4);
  if (in->escape == 0x62 || in->escape == 0xc4)
    bytes[in->escape_at + 1] |= 0x20; /* the inverted B bit */
  else if (in->escape >> 4 == 4)
    bytes[in->escape_at] &= 0xfe;
  made->scratch = (uint8_t)(scratch + 1);
}

static struct piece *make(struct piece *made, uint64_t address) {
  if (!hm_need_range(address, 1)) return NULL;
  uint64_t end = (address | (HM_PAGE - 1)) + 1;
  uint8_t bytes[HM_MOST_BYTES + 16] = {0};
  size_t there =
      end - address < HM_MOST_BYTES && !hm_need_page(end) ? end - address : HM_MOST_BYTES;
  memcpy(bytes, (const void *)address, there);
  if (!hm_decode_instruction(bytes, &made->instruction)) return NULL;
  if (made->instruction.escape == 0x62 && !has_512) return NULL;
  if (made->instruction.of_instruction) replace_instruction_pointer(bytes, made);
  made->code = code_used;
  uint8_t *copy = code + code_used;
  memcpy(copy, bytes, made->instruction.length);
  copy += made->instruction.length;
  /* jmp *frame.back */
  uint32_t back = (uint32_t)(uint64_t)&frame.back;
  memcpy(copy, "\xff\x24\x25", 3);
  memcpy(copy + 3, &back, 4);
  code_used += 32;
  made->address = address;
  pieces++;
  return made;
}

static struct piece *piece_at(uint64_t address) {
  if (code == NULL) {
    code = mmap(NULL, CODE_SIZE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS,
                -1, 0);
    if (code == MAP_FAILED) abort();
    has_512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw");
  }
  if (pieces > PIECES / 2) hm_native_forget();
  uint32_t slot = (uint32_t)(address * 0x9e3779b97f4a7c15ull >> 45) & (PIECES - 1);
  for (; piece[slot].address != 0; slot = (slot + 1) & (PIECES - 1))
    if (piece[slot].address == address) return &piece[slot];
  return make(&piece[slot], address);
}

/* --- The guest's registers ------------------------------------------------------------------ */

static uint64_t *gpr_of(VexGuestAMD64State *state, int number) {
  /* In the order of their encoding. */
  uint64_t *of[16] = {
      (uint64_t *)&state->guest_RAX, (uint64_t *)&state->guest_RCX, (uint64_t *)&state->guest_RDX,
      (uint64_t *)&state->guest_RBX, (uint64_t *)&state->guest_RSP, (uint64_t *)&state->guest_RBP,
      (uint64_t *)&state->guest_RSI, (uint64_t *)&state->guest_RDI, (uint64_t *)&state->guest_R8,
      (uint64_t *)&state->guest_R9,  (uint64_t *)&state->guest_R10, (uint64_t *)&state->guest_R11,
      (uint64_t *)&state->guest_R12, (uint64_t *)&state->guest_R13, (uint64_t *)&state->guest_R14,
      (uint64_t *)&state->guest_R15};
  return of[number];
}

static void registers_into_frame(VexGuestAMD64State *state) {
  for (int i = 0; i < 16; i++) frame.gpr[i] = *gpr_of(state, i);
  for (int i = 0; i < 16; i++) memcpy(frame.vector[i], (uint8_t *)&state->guest_YMM0 + 32 * i, 32);
  frame.flags = (LibVEX_GuestAMD64_get_rflags(state) & 0xcd5) | 0x202;
}

static void frame_into_registers(VexGuestAMD64State *state) {
  for (int i = 0; i < 16; i++) *gpr_of(state, i) = frame.gpr[i];
  for (int i = 0; i < 16; i++) memcpy((uint8_t *)&state->guest_YMM0 + 32 * i, frame.vector[i], 32);
  LibVEX_GuestAMD64_put_rflags(frame.flags & 0xcd5, state);
}

/* Components 5 to 7 of the XSAVE area: k0-7, the upper halves of zmm0-15, zmm16-31. */
void hm_native_load(const void *xstate, uint32_t size) {
  const uint8_t *from = xstate;
  uint64_t present = 0;
  if (size >= 576) memcpy(&present, from + 512, sizeof present);
  memset(frame.k, 0, sizeof frame.k);
  memset(frame.vector, 0, sizeof frame.vector);
  uint32_t masks = hm_xstate_offset(5), upper = hm_xstate_offset(6), more = hm_xstate_offset(7);
  if ((present & 0x20) != 0 && masks != 0 && masks + 64 <= size) memcpy(frame.k, from + masks, 64);
  for (int i = 0; i < 16 && (present & 0x40) != 0 && upper != 0 && upper + 512 <= size; i++)
    memcpy(frame.vector[i] + 32, from + upper + 32 * i, 32);
  if ((present & 0x80) != 0 && more != 0 && more + 1024 <= size)
    memcpy(frame.vector[16], from + more, 1024);
}

/* --- Running ------------------------------------------------------------------------------------ */

static void report(const struct hm_instruction *in, uint64_t address) {
  uint64_t first = address & ~(uint64_t)(HM_LINE_SIZE - 1);
  for (uint64_t line = first; line < address + in->length; line += HM_LINE_SIZE)
    hm_fetch(HM_FETCH_SITE(address, line));
  if (!in->memory || in->size == 0) return;
  uint64_t at = (uint64_t)in->displacement;
  if (in->of_instruction) at += address + in->length;
  if (in->base >= 0) at += frame.gpr[in->base];
  if (in->index >= 0) at += frame.gpr[in->index] << in->scale;
  if (in->stores)
    hm_sim.stores++;
  else
    hm_sim.loads++;
  hm_ghost_data(at, HM_SITE(address, in->size, in->stores ? HM_STORE : HM_LOAD, 0));
}

int hm_native_run(uint64_t address) {
  struct piece *at = piece_at(address);
  if (at == NULL) return 0;
  VexGuestAMD64State *state = hm_guest_state();
  registers_into_frame(state);
  report(&at->instruction, address);
  uint64_t kept = 0;
  if (at->scratch != 0) {
    kept = frame.gpr[at->scratch - 1];
    frame.gpr[at->scratch - 1] =
        address + at->instruction.length + (uint64_t)at->instruction.displacement;
  }
  frame.code = (uint64_t)(code + at->code);
  frame.back = (uint64_t)(has_512 ? hm_native_back_512 : hm_native_back_256);
  if (has_512)
    hm_native_enter_512();
  else
    hm_native_enter_256();
  if (at->scratch != 0) frame.gpr[at->scratch - 1] = kept;
  frame_into_registers(state);
  state->guest_RIP = address + at->instruction.length;
  count++;
  return 1;
}
