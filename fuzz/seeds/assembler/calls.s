	.file	"calls.c"
	.text
	.globl	f
	.type	f, @function
f:
.LFB0:
	.cfi_startproc
	.cfi_lsda 0x1b,.LLSDA0
	pushq	%rbx
	.cfi_def_cfa_offset 16
	movq	%rdi, %rbx
	call	__tsan_read4@PLT
	movl	(%rbx), %eax
	leaq	8(%rbx), %rdi
	movl	$32, %esi
	call	__tsan_write_range@PLT
	vmovhps	%xmm1, 64(%rbx)
	vmovdqu	%ymm3, (%rbx)
	jne	.L4
.LVL3:
	callq	__tsan_write8@PLT
	vpmovdb	%zmm0, (%rcx){%k1}
	vmaskmovdqu	%xmm1, %xmm0
	movq	%rax, 8(%rbx)	# a comment; of two parts
	clwb	%ds:-64(%rbx,%rcx,8)
	vpextrw	$2, %xmm1, (%rbx)
	movntdq	%xmm0, (%rcx)
	lock; xaddq	%rbx, (%rax)
	.byte 0x66; xsaveopt (%rax)
.L4:
#APP
# 12 "calls.c" 1
	rep; movsb
	addq $1, (%rdi); sete 20(%rdi)
# 0 "" 2
#NO_APP
	popq	%rbx
	.cfi_def_cfa_offset 8
	jne	memcpy@PLT	# TAILCALL
	jmp	*pmem_persist@GOTPCREL(%rip)
	.cfi_endproc
.LFE0:
	.size	f, .-f
	.section	.text.unlikely,"ax",@progbits
	.intel_syntax noprefix
g:
	mov	QWORD PTR [rdi+8], rdx
	clflushopt	BYTE PTR ds:[rax]
	vmovdqu8	YMMWORD PTR [rcx]{k3}, ymm0
	jmp	sprintf@PLT
	.att_syntax prefix
	.quad	memcpy, strlen-.
	.ascii	"text \"with\" memcpy;\\"
	.subsection 1
	ret
	.previous
	.macro m
	call memset
	.endm
	.ident	"GCC: (GNU) 12"
	.section	.note.GNU-stack,"",@progbits
