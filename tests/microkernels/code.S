/* Runs through a stretch of code that holds no loop.
 *
 *   code WHICH ROUNDS       (WHICH is one character)
 *
 *   s  straight: 8 KiB, of 8179 one-byte instructions and the loop's own two
 *   p  pages: 17 pages, a jump on each, the loop's own two on the last
 *   m  mixed: a load, a store, an addition; five instructions a round
 *
 * It is assembly so that each line, page and instruction of the loop is known. */

        .globl  main
        .text
main:
        movq    8(%rsi), %rax           /* argv[1] */
        movb    (%rax), %al
        movq    16(%rsi), %rdx          /* argv[2]: two digits */
        movzbl  (%rdx), %ecx
        movzbl  1(%rdx), %edx
        leal    -'0'(%rcx), %ecx
        leal    (%rcx,%rcx,4), %ecx
        leal    -'0'(%rdx,%rcx,2), %ecx /* ROUNDS, counted down in ecx */
        leaq    cell(%rip), %rsi
        cmpb    $'s', %al
        je      straight
        cmpb    $'p', %al
        je      pages
        cmpb    $'m', %al
        je      mixed
        movl    $2, %eax
        ret
done:
        xorl    %eax, %eax
        ret

        .balign 65536
straight:                               /* 128 lines: 0 to 8191 */
        .fill   8192 - 2 - 6 - 5, 1, 0x90
        decl    %ecx                    /* 2 bytes */
        .byte   0x0f, 0x85              /* jnz straight, in its six-byte form */
        .long   straight - . - 4
        .byte   0xe9                    /* jmp done, in its five-byte form */
        .long   done - . - 4

        .balign 65536
pages:
        .set    page, 0
        .rept   16
        .byte   0xe9                    /* to the same place on the next page, one line on */
        .long   (pages + (page + 1) * (4096 + 64)) - . - 4
        .set    page, page + 1
        .org    pages + page * (4096 + 64), 0x90
        .endr
        decl    %ecx                    /* on the 17th page */
        jnz     pages
        jmp     done

        .balign 64
mixed:
        movq    (%rsi), %rax
        incq    %rax
        movq    %rax, (%rsi)
        decl    %ecx
        jnz     mixed
        jmp     done

        .local  cell
        .comm   cell, 64, 64
        .section .note.GNU-stack, "", @progbits
