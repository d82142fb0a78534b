/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Decodes instructions that VEX does not support: instructions with an EVEX prefix, those of mask registers, and
 * newer ones with a VEX prefix or in the maps 0F38 and 0F3A (Intel SDM 2, chapters 2.3, 2.7 and
 * appendix A).
 *
 *   [66 F2 F3]*  EVEX 62 P0 P1 P2 | VEX C5 P | VEX C4 P0 P1 | [REX] 0F [38|3A]   opcode ModRM [SIB] [disp] [imm8]
 */
#include "instruction.h"

#include <string.h>

static int has_immediate(const struct hm_instruction *in) {
  if (in->map == 3) return 1;
  if (in->map != 1) return 0;
  return (in->opcode >= 0x70 && in->opcode <= 0x73) || in->opcode == 0xc2 ||
         (in->opcode >= 0xc4 && in->opcode <= 0xc6);
}

static int stores(const struct hm_instruction *in) {
  uint8_t code = in->opcode;
  switch (in->map) {
    case 1:
      if (code == 0x7e) return in->prefix != 0xf3;
      return code == 0x11 || code == 0x13 || code == 0x17 || code == 0x29 || code == 0x2b ||
             code == 0x7f || code == 0x91 || code == 0xc7 || code == 0xd6 || code == 0xe7;
    case 2:
      if (code == 0x63 || code == 0x8a || code == 0x8b || (code >= 0xa0 && code <= 0xa3)) return 1;
      return in->prefix == 0xf3 && code >= 0x10 && code <= 0x35 && (code & 0xf) <= 5;
    case 3:
      return (code >= 0x14 && code <= 0x17) || code == 0x19 || code == 0x1b || code == 0x39 ||
             code == 0x3b;
    case 5: return code == 0x11 || code == 0x7e;
    default: return 0;
  }
}

/* Size in bytes of the memory operand, by which EVEX scales an 8-bit displacement. It is
 * `vector` where the operand is a whole vector. */
static uint8_t operand_size(const struct hm_instruction *in, uint32_t vector, int broadcast) {
  uint8_t code = in->opcode, element = in->wide ? 8 : 4;
  if (broadcast) return in->map >= 5 ? 2 : element;
  if (in->map == 1) {
    if (in->escape != 0x62 && code >= 0x90 && code <= 0x91) /* kmovw, b, q, d */
      return in->prefix == 0x66 ? (in->wide ? 4 : 1) : (in->wide ? 8 : 2);
    if (code == 0x6e || (code == 0x7e && in->prefix == 0x66)) return element;
    if (code == 0xd6 || code == 0x7e || code == 0x13 || code == 0x17) return 8;
    if ((code == 0x12 || code == 0x16) && in->prefix != 0xf3 && in->prefix != 0xf2) return 8;
    int scalar = code == 0x10 || code == 0x11 || code == 0x51 || code == 0xc2 ||
                 (code >= 0x58 && code <= 0x5f && code != 0x5b);
    if (scalar && in->prefix == 0xf3) return 4;
    if (scalar && in->prefix == 0xf2) return 8;
    if (code >= 0x2a && code <= 0x2f && (in->prefix == 0xf3 || in->prefix == 0xf2)) return element;
  } else if (in->map == 2) {
    if (code >= 0x20 && code <= 0x35 && (code & 0xf) <= 5) {
      static const uint8_t part[6] = {2, 4, 8, 2, 4, 2};
      if (in->prefix == 0x66 || in->prefix == 0xf3) return (uint8_t)(vector / part[code & 0xf]);
    }
    switch (code) {
      case 0x18:
      case 0x58: return 4;
      case 0x19:
      case 0x59: return 8;
      case 0x1a:
      case 0x5a: return 16;
      case 0x1b:
      case 0x5b: return 32;
      case 0x78: return 1;
      case 0x79: return 2;
      default: break;
    }
    if (code >= 0x99 && code <= 0xbf && (code & 1) != 0 && (code & 0xf) >= 9) return element;
  } else if (in->map == 3) {
    switch (code) {
      case 0x14:
      case 0x20: return 1;
      case 0x15: return 2;
      case 0x16:
      case 0x22: return element;
      case 0x17:
      case 0x21: return 4;
      case 0x18:
      case 0x19:
      case 0x38:
      case 0x39: return 16;
      case 0x1a:
      case 0x1b:
      case 0x3a:
      case 0x3b: return 32;
      default: break;
    }
  }
  return (uint8_t)vector;
}

/* True for gathers and scatters, which access many addresses. */
static int has_vector_index(const struct hm_instruction *in) {
  return in->map == 2 &&
         ((in->opcode >= 0x90 && in->opcode <= 0x93) ||
          (in->opcode >= 0xa0 && in->opcode <= 0xa3) || in->opcode == 0xc6 || in->opcode == 0xc7);
}

static int is_known(const struct hm_instruction *in) {
  if (in->map == 0 || in->map == 4 || in->map > 6) return 0;
  /* Without a vector prefix only the maps 0F38 and 0F3A, XSAVEC and RDPID are accepted. */
  if (in->escape != 0x62 && in->escape != 0xc4 && in->escape != 0xc5)
    return in->map != 1 || in->opcode == 0xc7;
  return 1;
}

int hm_decode_instruction(const uint8_t *bytes, struct hm_instruction *into) {
  static const uint8_t prefixes[4] = {0, 0x66, 0xf3, 0xf2};
  uint32_t at = 0, vector = 16, r = 0, x = 0, b = 0, broadcast = 0;
  memset(into, 0, sizeof *into);
  into->base = into->index = -1;
  for (; at < 4 && (bytes[at] == 0x66 || bytes[at] == 0xf3 || bytes[at] == 0xf2); at++)
    into->prefix = bytes[at];
  into->escape_at = (uint8_t)at;
  if (bytes[at] == 0x62) {
    uint8_t p0 = bytes[at + 1], p1 = bytes[at + 2], p2 = bytes[at + 3];
    into->escape = 0x62;
    into->map = p0 & 7;
    into->prefix = prefixes[p1 & 3];
    into->wide = p1 >> 7;
    into->vvvv = ~p1 >> 3 & 15;
    r = (p0 & 0x80) == 0;
    x = (p0 & 0x40) == 0;
    b = (p0 & 0x20) == 0;
    broadcast = p2 >> 4 & 1;
    vector = 16u << (p2 >> 5 & 3);
    if (vector > 64) vector = 64; /* the bits are a rounding mode */
    at += 4;
  } else if (bytes[at] == 0xc5 || bytes[at] == 0xc4) {
    int three = bytes[at] == 0xc4;
    uint8_t p0 = bytes[at + 1], p1 = three ? bytes[at + 2] : p0;
    into->escape = bytes[at];
    into->map = three ? p0 & 31 : 1;
    into->prefix = prefixes[p1 & 3];
    into->wide = three ? p1 >> 7 : 0;
    into->vvvv = ~p1 >> 3 & 15;
    r = (p0 & 0x80) == 0;
    x = three && (p0 & 0x40) == 0;
    b = three && (p0 & 0x20) == 0;
    vector = (p1 & 4) != 0 ? 32 : 16;
    at += three ? 3 : 2;
  } else {
    if (bytes[at] >> 4 == 4) {
      into->escape = bytes[at++];
      into->wide = into->escape >> 3 & 1;
      r = into->escape >> 2 & 1;
      x = into->escape >> 1 & 1;
      b = into->escape & 1;
    }
    if (bytes[at] != 0x0f) return 0;
    into->map = bytes[at + 1] == 0x38 ? 2 : bytes[at + 1] == 0x3a ? 3 : 1;
    at += into->map == 1 ? 1 : 2;
  }
  into->opcode = bytes[at++];
  if (!is_known(into)) return 0;
  if (into->escape != 0x62 && into->map == 1 && into->opcode == 0x77) return 0; /* no ModRM byte */
  into->modrm_at = (uint8_t)at;
  uint8_t modrm = bytes[at++], mod = modrm >> 6, rm = modrm & 7;
  into->reg = (uint8_t)((modrm >> 3 & 7) | r << 3);
  if (mod != 3) {
    into->memory = 1;
    into->stores = (uint8_t)stores(into);
    into->size = operand_size(into, vector, (int)broadcast);
    uint32_t scale_of_8 = into->escape == 0x62 ? into->size : 1;
    if (rm == 4) {
      uint8_t sib = bytes[at++];
      into->index = (int8_t)((sib >> 3 & 7) | x << 3);
      if (into->index == 4) into->index = -1;
      into->scale = sib >> 6;
      rm = sib & 7;
      into->base = mod == 0 && rm == 5 ? -1 : (int8_t)(rm | b << 3);
      if (into->base < 0) mod = 4; /* 32 bits follow, without a base */
    } else if (mod == 0 && rm == 5) {
      into->of_instruction = 1;
      mod = 4;
    } else {
      into->base = (int8_t)(rm | b << 3);
    }
    if (mod == 1) {
      into->displacement = (int64_t)(int8_t)bytes[at] * scale_of_8;
      at += 1;
    } else if (mod == 2 || mod == 4) {
      int32_t value;
      memcpy(&value, bytes + at, sizeof value);
      into->displacement = value;
      at += 4;
    }
    if (has_vector_index(into)) into->size = 0;
  }
  at += (uint32_t)has_immediate(into);
  into->length = (uint8_t)at;
  return at <= HM_MOST_BYTES;
}
