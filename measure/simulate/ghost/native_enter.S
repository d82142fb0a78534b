/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Runs a piece of code with the guest's registers loaded into the processor (see native.c).
 *
 *   hm_native_enter_512(), hm_native_enter_256()   jump to frame.code; it ends with a jump to
 *                                                  frame.back
 *
 * The frame lies in the low 2 GiB (layout.c), so that its address needs no register.
 */
#include "callee_saved.inc"

#define FRAME hm_native_frame
#define GPR(n) FRAME + 8 * (n)
#define FLAGS FRAME + 128
#define HOST_RSP FRAME + 136
#define CODE FRAME + 144
#define BACK FRAME + 152
#define K(n) FRAME + 160 + 8 * (n)
#define V(n) FRAME + 256 + 64 * (n)

        .text
.macro save_host
        push_callee_saved
        movq %rsp, HOST_RSP
.endm

.macro load_guest
        pushq FLAGS
        popfq
        movq GPR(0), %rax
        movq GPR(1), %rcx
        movq GPR(2), %rdx
        movq GPR(3), %rbx
        movq GPR(5), %rbp
        movq GPR(6), %rsi
        movq GPR(7), %rdi
        movq GPR(8), %r8
        movq GPR(9), %r9
        movq GPR(10), %r10
        movq GPR(11), %r11
        movq GPR(12), %r12
        movq GPR(13), %r13
        movq GPR(14), %r14
        movq GPR(15), %r15
        movq GPR(4), %rsp
        jmpq *CODE
.endm

.macro save_guest
        movq %rsp, GPR(4)
        movq HOST_RSP, %rsp
        movq %rax, GPR(0)
        movq %rcx, GPR(1)
        movq %rdx, GPR(2)
        movq %rbx, GPR(3)
        movq %rbp, GPR(5)
        movq %rsi, GPR(6)
        movq %rdi, GPR(7)
        movq %r8, GPR(8)
        movq %r9, GPR(9)
        movq %r10, GPR(10)
        movq %r11, GPR(11)
        movq %r12, GPR(12)
        movq %r13, GPR(13)
        movq %r14, GPR(14)
        movq %r15, GPR(15)
        pushfq
        popq FLAGS
        cld
.endm

.macro restore_host
        vzeroupper
        pop_callee_saved
        ret
.endm

        .globl hm_native_enter_512
        .type hm_native_enter_512, @function
hm_native_enter_512:
        save_host
        .irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31
        vmovdqu64 V(\n), %zmm\n
        .endr
        .irp n, 0,1,2,3,4,5,6,7
        kmovq K(\n), %k\n
        .endr
        load_guest
        .globl hm_native_back_512
hm_native_back_512:
        save_guest
        .irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31
        vmovdqu64 %zmm\n, V(\n)
        .endr
        .irp n, 0,1,2,3,4,5,6,7
        kmovq %k\n, K(\n)
        .endr
        restore_host
        .size hm_native_enter_512, . - hm_native_enter_512

        .globl hm_native_enter_256
        .type hm_native_enter_256, @function
hm_native_enter_256:
        save_host
        .irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15
        vmovdqu V(\n), %ymm\n
        .endr
        load_guest
        .globl hm_native_back_256
hm_native_back_256:
        save_guest
        .irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15
        vmovdqu %ymm\n, V(\n)
        .endr
        restore_host
        .size hm_native_enter_256, . - hm_native_enter_256

        .section .note.GNU-stack, "", @progbits
