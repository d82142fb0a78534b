/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Programs for the follower to follow. Each is one loop around a system call, so that all its
 * stretches are equal and can be counted by hand:
 *
 *   walk-short  loads the first word of each of N = 64 lines, in order: 4 N + 5 instructions, N loads
 *   walk-long   the same with N = 3,072
 *   avx2        a recurrence in ymm registers, with a fused multiply and add, whose result is an
 *               argument of the call, so that the comparison covers it
 *   avx512      the same in zmm16 and above, under a mask
 *   checksum    sums its memory repeatedly; exits with status 3 when the sum changes
 *   new-pages   adds to a word of another page each time, which comes back after 8,192 rounds, and passes
 *               it to the call: a copy that is made later has another value
 *   one-word, one-line, two-lines
 *               two processes; each adds to a word of shared memory in each stretch: both to the same
 *               word, to two words of a line, to words of two lines
 *
 * Each program first prints the address of a word that grows with each round.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static uint64_t lines[8192 * 8] __attribute__((aligned(4096)));
static volatile uint64_t *rounds;

static void print_address(void) {
  printf("%lx\n", (unsigned long)(uintptr_t)rounds);
  fflush(stdout);
}

static _Noreturn void walk(uint64_t count) {
  __asm__ volatile(
      "1: movl $110, %%eax\n" /* getppid */
      "   syscall\n"
      "   movq %[lines], %%rsi\n"
      "   movl %[count], %%edx\n"
      "2: addq (%%rsi), %%rdi\n"
      "   addq $64, %%rsi\n"
      "   decl %%edx\n"
      "   jnz 2b\n"
      "   jmp 1b\n"
      :
      : [lines] "r"(lines), [count] "r"((uint32_t)count)
      : "rax", "rcx", "r11", "rsi", "rdx", "rdi", "memory");
  __builtin_unreachable();
}

/* Computes x := x + rotated x * x in four lanes, and passes the sum of the lanes to the call. */
static _Noreturn void avx2(void) {
  static const double start[4] __attribute__((aligned(32))) = {0.5, 0.25, 0.125, 0.0625};
  static const double factor[4] __attribute__((aligned(32))) = {0.9, 0.8, 0.7, 0.6};
  __asm__ volatile(
      "   vmovapd (%[start]), %%ymm1\n"
      "   vmovapd (%[factor]), %%ymm2\n"
      "1: movl $100, %%ebx\n"
      "2: vpermpd $0x93, %%ymm1, %%ymm3\n"
      "   vfmadd213pd (%[start]), %%ymm2, %%ymm3\n"
      "   vpaddq %%ymm3, %%ymm1, %%ymm4\n"
      "   vpsrlvq %%ymm2, %%ymm4, %%ymm4\n"
      "   vpxor %%ymm4, %%ymm3, %%ymm1\n"
      "   vandpd (%[start]), %%ymm1, %%ymm1\n"
      "   vaddpd %%ymm3, %%ymm1, %%ymm1\n"
      "   decl %%ebx\n"
      "   jnz 2b\n"
      "   vextracti128 $1, %%ymm1, %%xmm3\n"
      "   vpxor %%xmm3, %%xmm1, %%xmm3\n"
      "   vmovq %%xmm3, %%rdi\n"
      "   vpextrq $1, %%xmm3, %%rsi\n"
      "   incq (%[rounds])\n"
      "   movl $110, %%eax\n"
      "   syscall\n"
      "   jmp 1b\n"
      :
      : [start] "r"(start), [factor] "r"(factor), [rounds] "r"(rounds)
      : "rax", "rbx", "rcx", "r11", "rsi", "rdi", "xmm1", "xmm2", "xmm3", "xmm4", "memory");
  __builtin_unreachable();
}

static _Noreturn void avx512(void) {
  static uint64_t start[8] __attribute__((aligned(64))) = {1, 2, 3, 5, 8, 13, 21, 34};
  __asm__ volatile(
      "   vmovdqu64 (%[start]), %%zmm17\n"
      "   movl $0x5a, %%eax\n"
      "   kmovd %%eax, %%k3\n"
      "1: movl $50, %%ebx\n"
      "2: vpaddq 64-64(%[start]), %%zmm17, %%zmm18\n"
      "   vprolq $7, %%zmm18, %%zmm17%{%%k3%}\n"
      "   vpcmpuq $1, %%zmm18, %%zmm17, %%k4\n"
      "   kmovd %%k4, %%esi\n"
      "   vpternlogq $0x96, (%[start])%{1to8%}, %%zmm18, %%zmm17\n"
      "   decl %%ebx\n"
      "   jnz 2b\n"
      "   vmovdqu64 %%zmm17, (%[start])\n"
      "   movq 24(%[start]), %%rdi\n"
      "   incq (%[rounds])\n"
      "   movl $110, %%eax\n"
      "   syscall\n"
      "   jmp 1b\n"
      :
      : [start] "r"(start), [rounds] "r"(rounds)
      : "rax", "rbx", "rcx", "r11", "rsi", "rdi", "memory");
  __builtin_unreachable();
}

static uint64_t sum(void) {
  uint64_t total = 0;
  for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) total = total * 31 + lines[i];
  return total;
}

static _Noreturn void checksum(void) {
  uint64_t expected;
  for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) lines[i] = i * 0x9e3779b97f4a7c15ull;
  expected = sum();
  for (;;) {
    if (sum() != expected) _exit(3);
    ++*rounds;
    syscall(SYS_getppid);
  }
}

static _Noreturn void new_pages(void) {
  static volatile uint64_t page[8192][512];
  for (uint32_t next = 0;; next = (next * 5 + 1) % 8192) {
    ++*rounds;
    syscall(SYS_getppid, ++page[next][0]);
  }
}

/* The second process ends with the first. It is there before the address is printed, so that a follower
 * finds both at its start. */
static _Noreturn void share(uint32_t distance) {
  volatile uint64_t *word = rounds;
  pid_t first = getpid(), second = fork();
  if (second == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != first) _exit(0);
    word += distance;
  }
  if (second != 0) print_address();
  for (;;) {
    ++*word;
    syscall(SYS_getppid);
  }
}

int main(int count, char **arguments) {
  const char *what = count > 1 ? arguments[1] : "";
  rounds = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (strcmp(what, "one-word") == 0) share(0);
  if (strcmp(what, "one-line") == 0) share(4);
  if (strcmp(what, "two-lines") == 0) share(64);
  print_address();
  for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i += 8) lines[i] = i;
  if (strcmp(what, "walk-short") == 0) walk(64);
  if (strcmp(what, "walk-long") == 0) walk(3072);
  if (strcmp(what, "avx2") == 0) avx2();
  if (strcmp(what, "avx512") == 0) avx512();
  if (strcmp(what, "checksum") == 0) checksum();
  if (strcmp(what, "new-pages") == 0) new_pages();
  return 2;
}
