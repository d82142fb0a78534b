/*
 * The slow paths as code made by the compiler plugin calls them (p3l_access.h says what they do).
 *
 *   checked code ──preserve_most──> __p3l_swizzle_value ──C──> p3l_swizzle, its arguments swapped
 *                                   __p3l_will_write    ──C──> p3l_will_write
 *                                   __p3l_mark          ─────> p3l_dirty(), in this file
 *
 * preserve_most is clang's calling convention for calls that are hardly ever made: the callee keeps
 * all general registers but r11 (and rax, where it returns something), so that the caller, a loop over
 * pointers for instance, spills nothing for them. Vector registers are the caller's, as in C.
 *
 * rax is kept by those that return nothing. A fault handler may longjmp() through these
 * frames; unwinders find the registers by the call frame information.
 *
 * Not x86-64: the plugin calls the C functions, and this file is empty.
 */
#if defined(__x86_64__)

        .macro  keep register
        pushq   %\register
        .cfi_adjust_cfa_offset 8
        .cfi_rel_offset \register, 0
        .endm

        .macro  restore register
        popq    %\register
        .cfi_adjust_cfa_offset -8
        .cfi_restore \register
        .endm

        /* Eight registers and the return address: the stack is 16 bytes aligned again below one word. */
        .macro  entry name
        .globl  \name
        .type   \name, @function
        .p2align 4
\name:
        .cfi_startproc
        endbr64
        keep    rbp             /* a frame, for unwinders that go by frame pointers */
        movq    %rsp, %rbp
        keep    rcx
        keep    rdx
        keep    rsi
        keep    rdi
        keep    r8
        keep    r9
        keep    r10
        .endm

        .macro  leave_entry name
        restore r10
        restore r9
        restore r8
        restore rdi
        restore rsi
        restore rdx
        restore rcx
        restore rbp
        ret
        .cfi_endproc
        .size   \name, .-\name
        .endm

        .text
        entry   __p3l_swizzle_value
        subq    $8, %rsp
        .cfi_adjust_cfa_offset 8
        xchgq   %rdi, %rsi
        call    p3l_swizzle@PLT
        addq    $8, %rsp
        .cfi_adjust_cfa_offset -8
        leave_entry __p3l_swizzle_value

        /* The same by C's rules: for pptr<T> and P3L_LD, through which a fault handler may throw. */
        .globl  p3l_swizzle_value
        .type   p3l_swizzle_value, @function
        .p2align 4
p3l_swizzle_value:
        .cfi_startproc
        endbr64
        xchgq   %rdi, %rsi
        jmp     p3l_swizzle@PLT
        .cfi_endproc
        .size   p3l_swizzle_value, .-p3l_swizzle_value

        entry   __p3l_will_write
        keep    rax
        call    p3l_will_write@PLT
        restore rax
        leave_entry __p3l_will_write

        /* p3l_dirty(rdi, rsi): for orthogonal mode, which has it at every store. */
        .globl  __p3l_mark
        .type   __p3l_mark, @function
        .p2align 4
__p3l_mark:
        .cfi_startproc
        endbr64
        keep    rax
        keep    rcx
        movq    p3l_persistent_memory@GOTPCREL(%rip), %r11
        movq    %rdi, %rax
        subq    (%r11), %rax            /* offset in the range */
        cmpq    8(%r11), %rax
        jae     1f
        testq   %rsi, %rsi
        jz      1f
        leaq    -1(%rax, %rsi), %rcx
        shrq    $10, %rax               /* first card */
        shrq    $10, %rcx               /* last one */
        movq    16(%r11), %r11
        cmpb    $0, (%r11, %rax)
        je      2f
        cmpq    %rax, %rcx
        jne     2f
1:      .cfi_remember_state
        restore rcx
        restore rax
        ret
2:      .cfi_restore_state
        restore rcx
        restore rax
        jmp     __p3l_will_write
        .cfi_endproc
        .size   __p3l_mark, .-__p3l_mark

#endif

        .section .note.GNU-stack, "", @progbits
