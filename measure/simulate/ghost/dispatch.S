/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Enters and leaves translated code in the way VEX's generated code expects (libvex.h: "amd64"):
 * %rbp points to the guest's state; a block ends by a jump to one of the hm_disp_* labels.
 *
 *   hm_disp_run(result, state, code)   result[0]: VEX_TRC_*, result[1]: address after the jump
 */
#include "callee_saved.inc"

#define STATE_RIP 184
#define TRC_CHAIN_SLOW 1001
#define TRC_CHAIN_FAST 1002
#define TRC_LOOK_UP 1003
#define TRC_COUNTED 1004

        .text
        .globl hm_disp_run
        .type hm_disp_run, @function
hm_disp_run:
        push_callee_saved
        pushq %rdi              /* seven words and the return address: %rsp is a multiple of 16 */
        subq $16, %rsp
        movl $0x1f80, (%rsp)
        ldmxcsr (%rsp)
        movw $0x027f, (%rsp)
        fldcw (%rsp)
        addq $16, %rsp
        cld
        movq %rsi, %rbp
        jmpq *%rdx

/* %rax, %rdx: the result. */
leave_code:
        popq %rdi
        movq %rax, (%rdi)
        movq %rdx, 8(%rdi)
        movq %rsp, %rcx
        subq $16, %rsp
        movw $0x037f, (%rsp)
        fldcw (%rsp)
        movq %rcx, %rsp
        pop_callee_saved
        ret

        .globl hm_disp_chain_slow
hm_disp_chain_slow:
        movq $TRC_CHAIN_SLOW, %rax
        popq %rdx
        jmp leave_code

        .globl hm_disp_chain_fast
hm_disp_chain_fast:
        movq $TRC_CHAIN_FAST, %rax
        popq %rdx
        jmp leave_code

/* A jump whose target is computed: most are found in the small table. */
        .globl hm_disp_indirect
hm_disp_indirect:
        movq STATE_RIP(%rbp), %rax
        movq %rax, %rcx
        shrq $1, %rcx
        xorq %rax, %rcx
        andq $0x7fff, %rcx
        shlq $4, %rcx
        cmpq hm_lookup_table(%rcx), %rax
        jnz 1f
        jmpq *hm_lookup_table+8(%rcx)
1:      movq $TRC_LOOK_UP, %rax
        xorq %rdx, %rdx
        jmp leave_code

/* %rbp is the reason: VEX_TRC_*. */
        .globl hm_disp_assisted
hm_disp_assisted:
        movq %rbp, %rax
        xorq %rdx, %rdx
        jmp leave_code

        .globl hm_disp_counted
hm_disp_counted:
        movq $TRC_COUNTED, %rax
        xorq %rdx, %rdx
        jmp leave_code
        .size hm_disp_run, . - hm_disp_run

        .section .note.GNU-stack, "", @progbits
