# void call_hook(void (*hook)(void), const struct registers *before, struct registers *after, long off_by): calls a hook
# with all registers as in `before` and the stack off by that many bytes, and keeps them in `after`.
# struct registers { long general[14]; long flags; long pad; __m256 vector[16]; };
        .text
        .globl  call_hook
        .type   call_hook, @function
call_hook:
        pushq   %rbp
        pushq   %rbx
        pushq   %r12
        pushq   %r13
        pushq   %r14
        pushq   %r15
        movq    %rsp, saved_stack(%rip)
        movq    %rdi, saved_hook(%rip)
        movq    %rdx, saved_after(%rip)
        subq    %rcx, %rsp
        movq    %rsi, %rax
        .irp    n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15
        vmovups 128+32*\n(%rax), %ymm\n
        .endr
        pushq   112(%rax)
        popfq
        movq    8(%rax), %rbx
        movq    16(%rax), %rcx
        movq    24(%rax), %rdx
        movq    32(%rax), %rsi
        movq    40(%rax), %rdi
        movq    48(%rax), %rbp
        movq    56(%rax), %r8
        movq    64(%rax), %r9
        movq    72(%rax), %r10
        movq    80(%rax), %r11
        movq    88(%rax), %r12
        movq    96(%rax), %r13
        movq    104(%rax), %r14
        movq    (%rax), %rax
        call    *saved_hook(%rip)
        movq    saved_after(%rip), %r15
        movq    %rax, (%r15)
        pushfq
        popq    112(%r15)
        movq    %rbx, 8(%r15)
        movq    %rcx, 16(%r15)
        movq    %rdx, 24(%r15)
        movq    %rsi, 32(%r15)
        movq    %rdi, 40(%r15)
        movq    %rbp, 48(%r15)
        movq    %r8, 56(%r15)
        movq    %r9, 64(%r15)
        movq    %r10, 72(%r15)
        movq    %r11, 80(%r15)
        movq    %r12, 88(%r15)
        movq    %r13, 96(%r15)
        movq    %r14, 104(%r15)
        .irp    n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15
        vmovups %ymm\n, 128+32*\n(%r15)
        .endr
        movq    saved_stack(%rip), %rsp
        popq    %r15
        popq    %r14
        popq    %r13
        popq    %r12
        popq    %rbx
        popq    %rbp
        vzeroupper
        ret
        .local  saved_stack, saved_hook, saved_after
        .comm   saved_stack, 8, 8
        .comm   saved_hook, 8, 8
        .comm   saved_after, 8, 8
        .section .note.GNU-stack, "", @progbits
