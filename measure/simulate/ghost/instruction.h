/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Decodes as much of x86-64's encoding as is needed to copy one vector instruction elsewhere, and to
 * find out which memory it accesses.
 */
#ifndef HM_GHOST_INSTRUCTION_H
#define HM_GHOST_INSTRUCTION_H

#include <stdint.h>

#define HM_MOST_BYTES 15

struct hm_instruction {
  uint8_t length;
  uint8_t modrm_at;            /* of the ModRM byte */
  uint8_t escape_at;           /* of the EVEX, VEX or REX byte; 0 with no REX: legacy */
  uint8_t escape;              /* 0x62, 0xc4, 0xc5, a REX byte, or 0 */
  uint8_t map, opcode, prefix; /* prefix: 0, 0x66, 0xf3, 0xf2 */
  uint8_t wide;                /* W */
  uint8_t vvvv;                /* the register in the prefix, 0 to 15 */
  uint8_t reg;                 /* the register of ModRM.reg, 0 to 15 */
  uint8_t memory;              /* 1: has a memory operand */
  uint8_t of_instruction;      /* 1: relative to the instruction's end */
  uint8_t stores, size;        /* of the memory operand; size 0: not known */
  int8_t base, index;          /* general registers; -1: none */
  uint8_t scale;               /* shift */
  int64_t displacement;
};

/*
 * Returns 1 for a vector or mask instruction (or one of a few others) that does not affect control
 * flow.
 */
int hm_decode_instruction(const uint8_t *bytes, struct hm_instruction *into);

#endif
