/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Decoding of single vector instructions, against what the assembler makes of them.
 */
#include "test.h"

#include <string.h>

#include "instruction.h"

struct expected {
  const char *text, *bytes;
  uint8_t length, memory, stores, size;
  int8_t base, index;
  uint8_t scale;
  int64_t displacement;
};

/* Registers by number: 0 rax, 1 rcx, 2 rdx, 3 rbx, 4 rsp, 5 rbp, 6 rsi, 7 rdi, 8 r8, ... */
static const struct expected list[] = {
    {"vmovdqu8 (%rdi),%zmm1{%k1}{z}", "\x62\xf1\x7f\xc9\x6f\x0f", 6, 1, 0, 64, 7, -1, 0, 0},
    {"vmovups 0x40(%rsi),%zmm1", "\x62\xf1\x7c\x48\x10\x4e\x01", 7, 1, 0, 64, 6, -1, 0, 64},
    {"vmovdqu64 %ymm17,0x20(%rdi)", "\x62\xe1\xfe\x28\x7f\x4f\x01", 7, 1, 1, 32, 7, -1, 0, 32},
    {"vmovntdq %ymm16,(%rdi)", "\x62\xe1\x7d\x28\xe7\x07", 6, 1, 1, 32, 7, -1, 0, 0},
    {"vmovdqa64 0x100(%r11),%zmm6", "\x62\xd1\xfd\x48\x6f\x73\x04", 7, 1, 0, 64, 11, -1, 0, 256},
    {"vpbroadcastb (%rdi,%rcx,1),%zmm2", "\x62\xf2\x7d\x48\x78\x14\x0f", 7, 1, 0, 1, 7, 1, 0, 0},
    {"vpcmpnequb (%rdi),%ymm18,%k1{%k2}", "\x62\xf3\x6d\x22\x3e\x0f\x04", 7, 1, 0, 32, 7, -1, 0, 0},
    {"vpternlogd $0xde,0x60(%rdi),%ymm17,%ymm20", "\x62\xe3\x75\x20\x25\x67\x03\xde", 8, 1, 0, 32,
     7, -1, 0, 96},
    {"vpaddd 8(%rax){1to16},%zmm1,%zmm2", "\x62\xf1\x75\x58\xfe\x50\x02", 7, 1, 0, 4, 0, -1, 0, 8},
    {"vmovss 4(%rsp),%xmm16", "\x62\xe1\x7e\x08\x10\x44\x24\x01", 8, 1, 0, 4, 4, -1, 0, 4},
    {"vpmovzxbw 16(%rbx,%r9,8),%ymm16", "\x62\xa2\x7d\x28\x30\x44\xcb\x01", 8, 1, 0, 16, 3, 9, 3,
     16},
    {"vmovdqu64 -0x12345678(%rip),%zmm0", "\x62\xf1\xfe\x48\x6f\x05\x88\xa9\xcb\xed", 10, 1, 0, 64,
     -1, -1, 0, -0x12345678},
    {"kmovq (%rsi),%k1", "\xc4\xe1\xf8\x90\x0e", 5, 1, 0, 8, 6, -1, 0, 0},
    {"kmovd %k1,16(%rsi)", "\xc4\xe1\xf9\x91\x4e\x10", 6, 1, 1, 4, 6, -1, 0, 16},
    {"kortestq %k0,%k0", "\xc4\xe1\xf8\x98\xc0", 5, 0, 0, 0, -1, -1, 0, 0},
    {"kmovd %k0,%eax", "\xc5\xfb\x93\xc0", 4, 0, 0, 0, -1, -1, 0, 0},
    {"vpcmpeqb %zmm2,%zmm0,%k0", "\x62\xf3\x7d\x48\x3f\xc2\x00", 7, 0, 0, 0, -1, -1, 0, 0},
    {"vpgatherdd (%rax,%zmm1,4),%zmm2{%k1}", "\x62\xf2\x7d\x49\x90\x14\x88", 7, 1, 0, 0, 0, 1, 2,
     0},
    {"sha1nexte (%rdi),%xmm1", "\x0f\x38\xc8\x0f", 4, 1, 0, 16, 7, -1, 0, 0},
};

static void instructions_are_decoded(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof list / sizeof list[0]; i++) {
    const struct expected *of = &list[i];
    uint8_t bytes[HM_MOST_BYTES + 16] = {0};
    struct hm_instruction found;
    memcpy(bytes, of->bytes, of->length);
    print_message("%s\n", of->text);
    assert_int_equal(hm_decode_instruction(bytes, &found), 1);
    assert_int_equal(found.length, of->length);
    assert_int_equal(found.memory, of->memory);
    assert_int_equal(found.stores, of->stores);
    assert_int_equal(found.size, of->size);
    assert_int_equal(found.displacement, of->displacement);
    assert_int_equal(found.base, of->base);
    assert_int_equal(found.index, of->index);
    assert_int_equal(found.scale, of->scale);
    assert_int_equal(found.of_instruction, of->memory && of->base == -1);
  }
}

/* Jumps, segment registers and what VEX knows itself are not run elsewhere. */
static void others_are_refused(void **state) {
  (void)state;
  static const char *const refused[] = {"\xe8\x00\x00\x00\x00" /* call */,
                                        "\x74\x05" /* je */,
                                        "\x0f\x05" /* syscall */,
                                        "\x0f\x84\x00\x00\x00\x00" /* je, 32 bits */,
                                        "\x64\x62\xf1\xfe\x48\x6f\x06" /* %fs */,
                                        "\x67\x62\xf1\xfe\x48\x6f\x06" /* 32-bit address */,
                                        "\x48\x89\xc3" /* mov */};
  for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
    uint8_t bytes[HM_MOST_BYTES + 16] = {0};
    struct hm_instruction found;
    memcpy(bytes, refused[i], i == 3 ? 6 : i == 4 || i == 5 ? 7 : i == 0 ? 5 : i == 6 ? 3 : 2);
    assert_int_equal(hm_decode_instruction(bytes, &found), 0);
  }
}

/* Any bytes: within the buffer, and never longer than an instruction can be. */
static void any_bytes_are_survived(void **state) {
  (void)state;
  uint64_t random = 88172645463325252ull;
  for (int i = 0; i < 2000000; i++) {
    uint8_t bytes[HM_MOST_BYTES + 16];
    struct hm_instruction found;
    for (int word = 0; word < 3; word++) {
      uint64_t value = next_random(&random);
      memcpy(bytes + 8 * word, &value, 8);
    }
    memset(bytes + 24, 0, sizeof bytes - 24);
    if (i % 4 != 0) bytes[0] = (uint8_t[]){0x62, 0xc4, 0xc5}[i % 4 - 1];
    if (hm_decode_instruction(bytes, &found)) assert_in_range(found.length, 3, HM_MOST_BYTES);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(instructions_are_decoded),
      cmocka_unit_test(others_are_refused),
      cmocka_unit_test(any_bytes_are_survived),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
