# void copy_observed(const long *from, long *to, long count): copies word by word, with the code in line that the
# assembler wrapper would put there: one run of a load and a store per word.
        .text
        .globl  copy_observed
        .type   copy_observed, @function
copy_observed:
        pushq   %rbx
        pushq   %r12
        pushq   %r13
        pushq   %r14
        subq    $8, %rsp
        movq    %rdi, %rbx
        movq    %rsi, %r12
        movq    %rdx, %r13
.Lnext:
        testq   %r13, %r13
        jz      .Ldone
        movq    %rbx, %rdi
.Lload:
        movq    strandline_tls@gottpoff(%rip), %rcx
        movq    %fs:(%rcx), %rax
        cmpq    %fs:8(%rcx), %rax
        jae     .Lslow
.Lback:
        leaq    .Ldescriptor+2(%rip), %rdx
        rorq    $2, %rdx
        movq    %rdx, (%rax)
        movq    %rdi, 8(%rax)
        addq    $24, %rax
        movq    %rax, %fs:(%rcx)
        movq    (%rbx), %r14
        movq    %r12, %rdi
.Lstore:
        movq    strandline_tls@gottpoff(%rip), %rcx
        movq    %fs:(%rcx), %rax
        notq    %rdi
        movq    %rdi, -8(%rax)
        movq    %r14, (%r12)
        addq    $8, %rbx
        addq    $8, %r12
        decq    %r13
        jmp     .Lnext
.Ldone:
        addq    $8, %rsp
        popq    %r14
        popq    %r13
        popq    %r12
        popq    %rbx
        ret
        .subsection 1
.Lslow:
        call    *strandline_refill@GOTPCREL(%rip)
        jmp     .Lback
        .p2align 2
.Ldescriptor:
        .ascii  "SLR1"
        .byte   2, 3
        .short  1
        .long   .Lload - .
        .byte   3, 0, 0, 0
        .long   .Lstore - .
        .byte   0x13, 1, 0, 0
        .subsection 0
        .section .note.GNU-stack, "", @progbits
