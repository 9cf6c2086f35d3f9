//! [`rewrite`] on small sources. What the rewritten code does when it runs is for the command line's tests.

use super::{Exports, rewrite};
use abi::BLOCK_MAGIC;

/// The rewritten source, or the source itself.
fn rewritten(source: &str) -> String {
    rewrite(source.as_bytes(), &Exports::default())
        .map_or_else(|| source.to_string(), |text| String::from_utf8(text).unwrap())
}

/// The statements of a rewritten source.
fn statements(source: &str) -> Vec<String> {
    let text = rewritten(source);
    text.split(['\n', ';']).map(str::trim).filter(|s| !s.is_empty()).map(str::to_string).collect()
}

/// The directives of the descriptor called `label`.
fn descriptor(statements: &[String], label: &str) -> Vec<String> {
    let from = statements.iter().position(|s| s.starts_with(&format!("{label}:"))).unwrap();
    let end = |s: &&String| !s.starts_with(".Lsls") && !s.starts_with(".subsection");
    statements[from..].iter().take_while(end).map(|s| s.replace(&format!("{label}: "), "")).collect()
}

#[test]
fn the_assembler_knows_all_types_of_sections() {
    let found = statements("f:\n\tret\n\t.section\t\".linker-options\",\"e\",@llvm_linker_options\n");
    assert_eq!(found, ["f:", "ret", ".section\t\".linker-options\",\"e\",@progbits"]);
}

#[test]
fn two_loads_and_a_store_become_a_block() {
    let found = statements(
        "\t.text\nf:\n\tpushq %rbx\n\tmovq %rdi, %rbx\n\tcall\t__tsan_read4@PLT\n\tmovl (%rbx), %eax\n\
         \tleaq 8(%rbx), %rdi\n\tcall\t__tsan_unaligned_read8@PLT\n\tmovq 8(%rbx), %rcx\n\
         \tleaq 16(%rbx), %rdi\n\tcall __tsan_write16\n\tmovups %xmm0, 16(%rbx)\n\tpopq %rbx\n\tret\n",
    );
    let expected = [
        ".text",
        "f:",
        "pushq %rbx",
        "movq %rdi, %rbx",
        ".Lsla0_0: movq strandline_tls@gottpoff(%rip), %rcx",
        "movq %fs:(%rcx), %r11",
        "cmpq %fs:8(%rcx), %r11",
        "jae .Lsls0_0",
        ".Lslb0_0: leaq .Lsld0_0+2(%rip), %rdx",
        "rorq $2, %rdx",
        "movq %rdx, (%r11)",
        "movq %rdi, 8(%r11)",
        "addq $32, %r11",
        "movq %r11, %fs:(%rcx)",
        "movl (%rbx), %eax",
        "leaq 8(%rbx), %rdi",
        ".Lsla0_1: movq %rdi, -16(%r11)",
        "movq 8(%rbx), %rcx",
        "leaq 16(%rbx), %rdi",
        ".Lsla0_2: notq %rdi",
        "movq %rdi, -8(%r11)",
        "movups %xmm0, 16(%rbx)",
        "popq %rbx",
        "ret",
        ".subsection 1",
        ".Lsls0_0: call *strandline_refill@GOTPCREL(%rip)",
        "movq %rax, %r11",
        "jmp .Lslb0_0",
        ".p2align 2",
        // Three accesses; two instructions after the last; two and the access itself before the first.
        &format!(".Lsld0_0: .long {BLOCK_MAGIC}"),
        ".byte 3, 2",
        ".value 3",
        ".long .Lsla0_0-.",
        ".byte 2, 0",
        ".value 0",
        ".long .Lsla0_1-.",
        ".byte 3, 1",
        ".value 0",
        ".long .Lsla0_2-.",
        ".byte 20, 1",
        ".value 0",
        ".subsection 0",
    ];
    assert_eq!(found, expected);
}

#[test]
fn a_segment_behind_a_store_asks_again_and_has_its_own_descriptor() {
    let found = statements(
        "f:\n\tcall __tsan_write4\n\tmovl $1, (%rbx)\n\tmovq %r11, %rdi\n\tcall __tsan_read1\n\
         \tmovb (%rbx), %al\n\tret\n",
    );
    // `%r11` is taken, so `%r10` carries the position and `%r9` the thread's distance.
    let segment = found.iter().position(|s| s.starts_with(".Lsla0_1:")).unwrap();
    let expected = [".Lsla0_1: cmpq %fs:8(%r9), %r10", "jae .Lsls0_1", "movq %rdi, -8(%r10)", ".Lslb0_1:"];
    assert_eq!(found[segment..segment + 4], expected);
    let slow = found.iter().position(|s| s.starts_with(".Lsls0_1:")).unwrap();
    let expected = [
        ".Lsls0_1: call *strandline_refill@GOTPCREL(%rip)",
        "movq %rax, %r10",
        "movq %rcx, %r9",
        "leaq .Lsld0_1+2(%rip), %rdx",
        "rorq $2, %rdx",
        "movq %rdx, (%r10)",
        "movq %rdi, 8(%r10)",
        "addq $16, %r10",
        "movq %r10, %fs:(%r9)",
        "jmp .Lslb0_1",
    ];
    assert_eq!(found[slow..slow + 10], expected);
    assert_eq!(descriptor(&found, ".Lsld0_0")[1..3], [".byte 2, 1", ".value 1"]);
    assert_eq!(descriptor(&found, ".Lsld0_1")[1..3], [".byte 1, 1", ".value 1"]);
}

/// The words of the buffer that a source's accesses write, in the order of the code: `8(%r11)`.
fn words_written(source: &str) -> Vec<String> {
    let written =
        statements(source).into_iter().map(|s| s.rsplit_once(": ").map_or(s.clone(), |s| s.1.to_string()));
    written.filter_map(|s| s.strip_prefix("movq %rdi, ").map(str::to_string)).collect()
}

const WRITE_READ: &str = "f:\n\tcall __tsan_write16@PLT\n\tmovq %rbp, %rdi\n\tcall __tsan_read16@PLT\n";

#[test]
fn a_structure_is_loaded_before_it_is_stored() {
    let found = statements(&format!("{WRITE_READ}\tmovups %xmm0, (%rbx)\n\tcall __tsan_read8\n\tret\n"));
    let text = found.join("; ");
    // The store's address goes into the second word, the load's into the first; only what follows both looks
    // again.
    assert!(text.contains("movq %rdx, (%r11); notq %rdi; movq %rdi, 16(%r11); addq $32, %r11"), "{text}");
    assert!(text.contains(".Lsla0_1: movq %rdi, -24(%r11); movups"), "{text}");
    assert!(text.contains(".Lsla0_2: cmpq %fs:8(%r10), %r11; jae .Lsls0_2; movq %rdi, -8(%r11)"), "{text}");
    let whole = descriptor(&found, ".Lsld0_0");
    let accesses: Vec<&str> = whole[3..].iter().step_by(3).map(String::as_str).collect();
    assert_eq!(accesses, [".long .Lsla0_1-.", ".long .Lsla0_0-.", ".long .Lsla0_2-."]);
    let codes: Vec<&str> = whole[4..].iter().step_by(3).map(|s| s.split(',').next().unwrap()).collect();
    assert_eq!(codes, [".byte 4", ".byte 20", ".byte 3"]);
    assert_eq!(descriptor(&found, ".Lsld0_2")[3], ".long .Lsla0_2-.");
}

#[test]
fn a_structures_store_that_begins_a_segment_has_its_second_word() {
    let found = statements(&format!("g:\n\tcall __tsan_write4\n\tmovl %eax, (%rbx)\n{}", &WRITE_READ[3..]))
        .join("; ");
    assert!(
        found.contains(
            ".Lsla0_1: notq %rdi; cmpq %fs:8(%r10), %r11; jae .Lsls0_1; movq %rdi, -8(%r11); .Lslb0_1:"
        ),
        "{found}"
    );
    assert!(
        found.contains("leaq .Lsld0_1+2(%rip), %rdx; rorq $2, %rdx; movq %rdx, (%r11); movq %rdi, 16(%r11); addq $24, %r11"),
        "{found}"
    );
}

#[test]
fn only_a_store_that_waits_for_its_load_changes_places_with_it() {
    let order = |before: &str, between: &str| {
        let source = format!(
            "f:\n\tmovq %rsp, %rbp\n{before}\tcall __tsan_write8\n{between}\tcall __tsan_read8\n\tret\n"
        );
        words_written(&source)[0] == "16(%r11)"
    };
    for waits in [
        "\tmovq %rbp, %rdi\n",
        "\tmovq %rax, 24(%rsp)\n\tmovq %rax, %rdi\n",
        "\tmovaps %xmm0, -48(%rbp)\n",
        "\tleaq 8(%rbx), %rdi\n\tcmpq $0, 8(%rax)\n",
    ] {
        assert!(order("", waits), "{waits}");
    }
    for (before, executed) in [
        ("", "\tmovq %rax, (%rbx)\n"),
        ("", "\tmovq %rax, 8(%rbp)\n"),
        ("", "\tmovq $5, 24(%rsp)\n"),
        ("", "\trep stosq\n"),
        ("\tleaq 24(%rsp), %rdi\n", "\tmovq %rax, 24(%rsp)\n"),
        ("\tleaq -16(%rbp), %rax\n\tmovq %rax, %rdi\n", "\tmovq %rdx, -16(%rbp)\n"),
    ] {
        assert!(!order(before, executed), "{before}{executed}");
    }
    assert_eq!(
        words_written("f:\n\tcall __tsan_write8\n\tcall __tsan_read4\n\tret\n")[0],
        "8(%r11)",
        "other sizes"
    );
}

#[test]
fn a_store_that_the_pass_left_out_ends_the_block_and_gets_its_hook() {
    let read = "\tcall __tsan_read8@PLT\n";
    let source = format!("f:\n{read}\tmovq %rax, (%rbx)\n{read}\tret\n");
    assert!(rewritten(&source).contains("call *strandline_hook_store8@GOTPCREL(%rip)"));
    assert_eq!(blocks(&source), (2, 2), "the store's record lies between the two");
    assert_eq!(blocks(&source.replace("%rax, (%rbx)", "(%rbx), %rax")), (1, 2));
}

#[test]
fn a_structures_store_and_load_stay_together() {
    let read = "\tcall __tsan_read8\n";
    for before in 29..34 {
        let source = format!("f:\n{}{}\tret\n", read.repeat(before), &WRITE_READ[3..]);
        let words = words_written(&source);
        let number = |word: &str| word.split('(').next().unwrap().parse::<i32>().unwrap();
        let (store, load) = (number(&words[before]), number(&words[before + 1]));
        // Either both count from the block's end, or the store begins a block.
        assert!(store == load + 8 || (store, load) == (16, -16), "{before}: {words:?}");
    }
    // Without a free register, too: the position is fetched again.
    let all = "\tmovq %r8, %r9\n\tmovq %r10d, %r11b\n";
    let source = format!("f:\n{read}{all}{}{all}{read}\tret\n", &WRITE_READ[3..]);
    assert_eq!(words_written(&source), ["8(%rax)", "16(%rax)", "-16(%rax)", "8(%rax)"]);
    assert_eq!(
        blocks(&source),
        (4, 4),
        "the load of the pair fetches the position, and is in the store's block"
    );
}

#[test]
fn a_volatile_stays_a_call_unless_it_is_half_of_a_copy() {
    let calls = |body: &str| {
        let source = format!("f:\n{body}\tret\n");
        let text = rewrite(source.as_bytes(), &Exports::default())
            .map_or(source, |text| String::from_utf8(text).unwrap());
        text.matches("call __tsan_volatile").count()
    };
    let (write, store) = ("\tcall __tsan_volatile_write4\n", "\tmovl %eax, (%rbx)\n");
    let (read, address) = ("\tcall __tsan_volatile_read4\n", "\tmovq %rbp, %rdi\n");
    let loads = "\tcall __tsan_read4\n";
    assert_eq!(calls(&format!("{write}{store}{address}{read}")), 2, "a store, and then a load");
    assert_eq!(calls(&format!("{write}{address}{read}\tmovl (%rbp), %eax\n{store}")), 0, "both halves");
    assert_eq!(calls(&format!("{write}{address}{loads}{store}")), 0, "from what is not volatile");
    assert_eq!(calls(&format!("\tcall __tsan_write4\n{address}{read}{store}")), 0, "to what is not");
    assert_eq!(calls(&format!("\tcall __tsan_write4\n{store}{address}{read}")), 1, "after another store");
    assert_eq!(calls(&format!("{write}{address}\tcall g\n{read}{store}")), 2, "a call between");
    assert_eq!(calls("\tcall __tsan_volatile_read16\n"), 0, "nobody waits by 16 bytes");
}

/// In which order blocks of a function read the position (`P`), find it in its register (`-`), and other code
/// reads it (`r`).
fn positions(body: &str) -> String {
    let text = rewritten(&format!("\t.type f, @function\nf:\n{body}"));
    let mut found = String::new();
    for statement in text.split(['\n', ';']).map(str::trim) {
        if statement == "movq %fs:(%r11), %r11" {
            found.push('r');
        } else if statement.starts_with("movq %fs:(") {
            found.push('P');
        } else if statement.contains("_0: movq strandline_tls@gottpoff") {
            found.push('-');
        }
    }
    // A block that reads the position itself is found twice.
    found.replace("-P", "P")
}

#[test]
fn the_position_stays_in_its_register_from_block_to_block() {
    let read = "\tcall __tsan_read8\n";
    for (between, wanted) in [
        (".L7:\n", "P-"),
        ("\tjmp .L4\n", "P-"),
        ("\tcall g\n", "PP"),
        ("\tcall g\n\tje .L4\n", "Pr-"),
        ("\tcall g\n.L7:\n", "Pr-"),
        ("\tcall g\n\tjmp .L4\n.L7:\n", "Pr-"),
        ("\tcall g\n\tjmp *%rax\n.L7:\n", "Pr-"),
        ("\tcall g\n\tjmp g\n.L7:\n", "P-"),
        ("\tcall g\n\tret\n.L7:\n", "P-"),
        ("\tsfence\n.L7:\n", "Pr-"),
        ("#APP\n\tnop\n#NO_APP\n.L7:\n", "Pr-"),
        ("#APP\n1:\n\tjne 1b\n#NO_APP\n", "PrP"),
        ("\tsyscall\n", "PP"),
        // Labels of data, wherever they stand.
        ("\tcall g\n\t.section .rodata\n.L9:\nx:\n\t.quad .L7\n.L8:\n\t.text\n\tjmp .L7\n", "Pr-"),
        ("\tcall g\n\t.pushsection .debug_info,\"\",@progbits\n.L9:\n\t.popsection\n", "PP"),
        // Reached in other ways than by a jump.
        ("\tleaq .L7(%rip), %rax\n.L7:\n", "PP"),
        ("\tmovq $.L7, %rax\n.L7:\n", "PP"),
        ("\tret\n.Ltmp7:\n", "P-"),
        // The register is the program's.
        ("\tmovl %r11d, %eax\n\tret\n.L7:\n", "PP"),
    ] {
        assert_eq!(positions(&format!("{read}{between}{read}")), wanted, "{between}");
    }
}

#[test]
fn a_landing_pad_reads_the_position() {
    let read = "\tcall __tsan_read8\n";
    for label in [".L7", ".Ltmp7"] {
        let table = format!("\t.section .gcc_except_table,\"a\"\n\t.uleb128 {label}-.LFB1\n");
        assert_eq!(positions(&format!("{read}\tret\n{label}:\n{read}{table}")), "PP", "{label}");
    }
}

#[test]
fn parts_of_a_function_agree_on_the_register() {
    let read = "\tcall __tsan_read8\n";
    let cold = "\t.section .text.unlikely\n\t.type f.cold, @function\nf.cold:\n.L3:\n";
    assert_eq!(positions(&format!("{read}\tret\n{cold}{read}")), "Pr-");
    assert_eq!(
        positions(&format!("{read}\tje .L3\n\tret\n{cold}\tmovq %r11, %rax\n{read}.L4:\n{read}")),
        "PPP"
    );
    assert_eq!(
        positions(&format!("\tmovq %r11, %rax\n{read}\t.type g, @function\ng:\n{read}.L4:\n{read}")),
        "PP-"
    );
    // What inline assembly calls a label is no function.
    assert_eq!(positions(&format!("{read}#APP\n\t.type g, @function\ng:\n#NO_APP\n.L4:\n{read}")), "Pr-");
}

/// How many blocks the code makes, and how many accesses they have together.
fn blocks(body: &str) -> (usize, usize) {
    let text = rewritten(body);
    // The beginning of a function looks there, too.
    let begins = text.matches("cmpl $0, %fs:").count();
    (text.matches("strandline_tls@gottpoff").count() - begins, text.matches("-.; .byte").count())
}

#[test]
fn what_ends_a_block() {
    let read = "\tcall __tsan_read8@PLT\n";
    for (between, wanted) in [
        ("\tmovq (%rbx), %rax\n", 1),
        (".LVL3:\n.LBB12:\n.LBE7:\n", 1),
        (".Ltmp4:\n", 1),
        ("\t.loc 1 2 3\n\t.cfi_def_cfa_offset 8\n", 1),
        ("\tje .L4\n", 1),
        ("#APP\n#NO_APP\n", 1),
        (".L7:\n", 2),
        (".LBB0_2:\n", 2),
        (".Ltmp4:  # Block address taken\n", 2),
        ("1:\n", 2),
        ("\tjmp .L4\n", 2),
        ("\tcall g\n", 2),
        ("\tret\n", 2),
        ("#APP\n\tnop\n#NO_APP\n", 2),
        ("\tsfence\n", 2),
        ("\t.section .text.unlikely\n", 2),
    ] {
        assert_eq!(blocks(&format!("f:\n{read}{between}{read}")), (wanted, 2), "{between}");
    }
    assert_eq!(blocks(&format!("f:\n.L4:\n{read}\tjne .L4\n{read}")), (2, 2), "a jump back");
    assert_eq!(blocks(&format!("f:\n{}", read.repeat(33))), (2, 33), "longer than BLOCK_MAX");
}

#[test]
fn without_a_free_register_every_access_is_a_block() {
    let read = "\tcall __tsan_read8\n";
    let all = "\tmovq %r8, %r9\n\tmovq %r10d, %r11b\n";
    assert_eq!(blocks(&format!("f:\n{read}{all}{read}")), (2, 2));
    let text = rewritten(&format!("f:\n{read}{all}{read}"));
    assert_eq!(text.matches("movq %fs:(%rcx), %rax").count(), 2);
}

#[test]
fn descriptors_stay_in_the_section_of_their_code() {
    let found = statements(
        "\t.section .text._Z1fv,\"axG\",@progbits,_Z1fv,comdat\nf:\n\tcall __tsan_read1\n\tret\n\
         \t.section .text.unlikely\ng:\n\tcall __tsan_read2\n\tret\n\t.data\nx:\n\t.long 1\n",
    );
    let at = |text: &str| found.iter().position(|s| s.starts_with(text)).unwrap();
    assert!(at(".Lsld0_0") < at(".section .text.unlikely"));
    assert!(at(".section .text.unlikely") < at(".Lsld1_0") && at(".Lsld1_0") < at(".data"));
    assert_eq!(found.iter().filter(|s| *s == ".subsection 0").count(), 2);
}

#[test]
fn calls_of_every_spelling_are_found() {
    for call in [
        "call __tsan_read8",
        "callq __tsan_read8@PLT",
        "call *__tsan_read8@GOTPCREL(%rip)",
        "call __tsan_vptr_read@PLT",
    ] {
        assert_eq!(blocks(&format!("f:\n\t{call}\n")), (1, 1), "{call}");
    }
    for call in ["call __tsan_read_range@PLT", "call __tsan_read8x", "call *%rax", "jmp __tsan_read8"] {
        assert_eq!(blocks(&format!("f:\n\t{call}\n")), (0, 0), "{call}");
    }
}

#[test]
fn intel_files_stay_intel() {
    let text = rewritten(
        "\t.intel_syntax noprefix\nf:\n\tcall\t__tsan_read4@PLT\n\tmov eax, DWORD PTR [rbx]\n\
         \tcall [QWORD PTR __tsan_write4@GOTPCREL[rip]]\n\tclwb\tBYTE PTR 8[rsp]\n\tmovnti DWORD PTR [rax], edx\n",
    );
    assert_eq!(
        text.matches(".Lsla0_").count(),
        4,
        "two accesses, each with its label and in the descriptor: {text}"
    );
    assert_eq!(
        text.matches(".att_syntax prefix; ").count(),
        text.matches("; .intel_syntax noprefix; ").count()
    );
    assert!(text.contains(
        "lea rsp, [rsp-128]; push rdi; lea rdi, 8[rsp+136]; \
         call [QWORD PTR strandline_hook_clwb@GOTPCREL[rip]]; pop rdi; lea rsp, [rsp+128]; clwb\tBYTE PTR 8[rsp]"
    ));
    assert!(text.contains("lea rdi, [rax]; call [QWORD PTR strandline_hook_nt4@GOTPCREL[rip]]"));
}

/// What is put before an instruction: the hook's name and how it gets its address.
fn hook(source: &str) -> Option<(String, String)> {
    let text = rewritten(&format!("{source}\n"));
    let name = text.split("strandline_hook_").nth(1)?.split('@').next()?.to_string();
    let address = text.split("pushq %rdi; ").nth(1)?.split("call").next()?.trim_end_matches("; ").to_string();
    assert!(text.trim_end().ends_with(source.rsplit(['\n', ';']).next()?.trim()), "{text}");
    Some((name, address))
}

#[test]
fn every_flush_fence_and_non_temporal_store_has_its_hook() {
    for (source, name, address) in [
        ("clwb 8(%rax,%rbx,4)", "clwb", "leaq 8(%rax,%rbx,4), %rdi"),
        ("clflushopt (%rdi)", "clflushopt", "leaq (%rdi), %rdi"),
        ("clflush x(%rip)", "clflush", "leaq x(%rip), %rdi"),
        ("cldemote (%rsp)", "cldemote", "leaq 136(%rsp), %rdi"),
        ("clwb -8(%rsp)", "clwb", "leaq 136+-8(%rsp), %rdi"),
        (".byte 0x66; clflush (%rax)", "clflushopt", "leaq (%rax), %rdi"),
        (".byte 0x66\nxsaveopt (%rax)", "clwb", "leaq (%rax), %rdi"),
        ("CLWB (%rax)", "clwb", "leaq (%rax), %rdi"),
        ("prefetcht0 64(%rax,%rbx)", "prefetch", "leaq 64(%rax,%rbx), %rdi"),
        ("prefetchnta (%rcx)", "prefetch", "leaq (%rcx), %rdi"),
        ("sfence", "sfence", ""),
        ("mfence", "mfence", ""),
        ("movnti %eax, (%rdi)", "nt4", "leaq (%rdi), %rdi"),
        ("movnti %r9, 8(%rdi)", "nt8", "leaq 8(%rdi), %rdi"),
        ("movntiq %rax, (%rcx)", "nt8", "leaq (%rcx), %rdi"),
        ("movntq %mm0, (%rcx)", "nt8", "leaq (%rcx), %rdi"),
        ("movntdq %xmm0, (%rcx)", "nt16", "leaq (%rcx), %rdi"),
        ("movntps %xmm0, (%rcx)", "nt16", "leaq (%rcx), %rdi"),
        ("movntpd %xmm0, (%rcx)", "nt16", "leaq (%rcx), %rdi"),
        ("vmovntdq %xmm1, (%rcx)", "nt16", "leaq (%rcx), %rdi"),
        ("vmovntdq %ymm1, (%rcx)", "nt32", "leaq (%rcx), %rdi"),
        ("vmovntps %zmm20, 64(%rcx)", "nt64", "leaq 64(%rcx), %rdi"),
        ("movdiri %eax, (%rcx)", "nt4", "leaq (%rcx), %rdi"),
        ("movdir64b (%rsi), %rdx", "nt64", "movq %rdx, %rdi"),
        ("lock; incl (%rax)", "rmw4", "leaq (%rax), %rdi"),
        (
            "vpmaskmovd %ymm0, %ymm1, 8(%rsp)",
            "masked4x8",
            "pushq %rsi; leaq 144+8(%rsp), %rdi; vmovmskps %ymm1, %esi",
        ),
        ("vmovdqu8 %ymm0, (%rcx){%k3}", "masked1x32", "pushq %rsi; leaq (%rcx), %rdi; kmovd %k3, %esi"),
        ("vpcompressq %zmm0, (%rcx){%k1}", "packed8x8", "pushq %rsi; leaq (%rcx), %rdi; kmovw %k1, %esi"),
        ("clwb %ds:-64(%rax,%rbx,8)", "clwb", "leaq -64(%rax,%rbx,8), %rdi"),
        ("vpmovqb %xmm2, (%rcx){%k1}", "masked1x2", "pushq %rsi; leaq (%rcx), %rdi; kmovw %k1, %esi"),
        (
            "vextracti64x4 $1, %zmm0, (%rcx){%k1}",
            "masked8x4",
            "pushq %rsi; leaq (%rcx), %rdi; kmovw %k1, %esi",
        ),
        ("maskmovdqu %xmm1, %xmm0", "streamed1x16", "pushq %rsi; movq %rdi, %rdi; pmovmskb %xmm1, %esi"),
        ("lock\nxaddq %rbx, (%rax)", "rmw8", "leaq (%rax), %rdi"),
        ("lock cmpxchg16b (%rdi)", "rmw16", "leaq (%rdi), %rdi"),
        ("lock cmpxchg %cl, (%rdx)", "rmw1", "leaq (%rdx), %rdi"),
        ("xchgw %ax, (%rdx)", "rmw2", "leaq (%rdx), %rdi"),
        ("xchg (%rdx), %eax", "rmw4", "leaq (%rdx), %rdi"),
        ("lock orq $0, (%rsp)", "mfence", ""),
        ("lock; addl $0,-4(%rsp)", "mfence", ""),
    ] {
        assert_eq!(hook(source), Some((name.to_string(), address.to_string())), "{source}");
    }
    for source in [
        "vmaskmovps (%rcx), %ymm1, %ymm0",
        "xchg %ax, %ax",
        "movntdqa (%rax), %xmm0",
        "lfence",
        "clwb %fs:8",
        "xsaveopt (%rax)",
        "clc",
    ] {
        assert_eq!(hook(source), None, "{source}");
    }
}

#[test]
fn stores_that_a_person_wrote_have_hooks_wherever_they_stand() {
    let stores = ".L1:\n\tmovq %rax, (%rdi)\n\tmovl $1, 8(%rsp)\n\trep stosb\n";
    let hand_written = rewritten(&format!("f:\n{stores}\tret\n"));
    let inline = rewritten(&format!("f:\n#APP\n{stores}#NO_APP\n\tret\n.ident \"GCC\"\n"));
    for text in [hand_written, inline] {
        assert_eq!(text.matches("strandline_hook_store8").count(), 1, "{text}");
        assert_eq!(text.matches("strandline_hook_stos1").count(), 1, "{text}");
        assert!(!text.contains("rep stosb") && !text.contains("hook_store4"), "{text}");
    }
}

#[test]
fn what_a_compiler_left_out_is_seen_behind_labels_but_not_between_a_hook_and_its_store() {
    let store = "\tmovq %rax, (%rbx)\n";
    let of = |before: &str| {
        let source = format!("f:\n{before}.L7:\n{store}\tret\n.ident \"GCC\"\n");
        rewritten(&source).matches("strandline_hook_store8").count()
    };
    let hook = "\tcall __tsan_write8@PLT\n";
    assert_eq!(of("\tjne .L7\n\tcall g\n"), 1);
    assert_eq!(of("\tjmp .L9\n"), 1);
    assert_eq!(of(hook), 0, "the hook is the store's");
    assert_eq!(of(&format!("{hook}\tjmp .L7\n.L8:\n")), 0, "it may be");
    let behind = format!("\tjmp .L7\n.L7:\n{store}\tret\n.L8:\n{hook}\tjmp .L7\n");
    let text = rewritten(&format!("f:\n{behind}.ident \"GCC\"\n"));
    assert!(!text.contains("strandline_hook"), "jumped to from below: {text}");
    assert_eq!(of(&format!("{hook}\tmovq %rax, (%rcx)\n\tjmp .L7\n")), 1, "the hook was another's");
}

#[test]
fn the_store_hook_that_clang_puts_before_a_non_temporal_store_goes() {
    let hook = "\tcallq __tsan_write4@PLT\n";
    assert_eq!(blocks(&format!("f:\n{hook}\tmovl %ebx, %eax\n\tmovntil %eax, (%rdi)\n")), (0, 0));
    assert_eq!(
        blocks(&format!("f:\n{hook}\tmovl %ebx, (%rdi)\n\tmovntil %eax, (%rdi)\n")),
        (1, 1),
        "it had its store"
    );
    assert_eq!(blocks(&format!("f:\n{hook}\tmovntiq %rax, (%rdi)\n")), (1, 1), "another size");
}

#[test]
fn library_functions_are_renamed_unless_the_file_has_its_own() {
    let found = rewritten(
        "f:\n\tcall memcpy@PLT\n\tjmp memset\n\t.quad strcmp\n\t.weak strlen\n\t.string \"memcpy\"\n",
    );
    let expected = "f:\n\tcall strandline_memcpy@PLT\n\tjmp strandline_memset\n\t.quad strandline_strcmp\n\
                    \t.weak strandline_strlen\n\t.string \"memcpy\"\n";
    assert_eq!(found.trim_end(), expected.trim_end());
    for own in ["memcpy:\n\tret\n", "\t.set memcpy, x\n", "\t.hidden memcpy\n", "memcpy = x\n"] {
        let source = format!("f:\n\tcall memcpy\n{own}");
        assert_eq!(rewritten(&source), source);
    }
}

#[test]
fn lines_keep_their_numbers() {
    let source = "f:\n\tcall __tsan_read4\n\tmovl (%rbx), %eax\n\tclwb (%rax)\n\tcall memcpy\nmark:\n\tret\n";
    let line = |text: &str| text.lines().position(|line| line.starts_with("mark:"));
    assert_eq!(line(&rewritten(source)), line(source));
}

#[test]
fn what_needs_no_change_is_not_copied() {
    for source in
        ["", "\n", "f:\n\tmovq %rax, %rbx\n\tret\n", "garbage ((( \" ;;; \\ '", ".byte 0x66\n", "lock\n"]
    {
        assert!(rewrite(source.as_bytes(), &Exports::default()).is_none(), "{source}");
    }
    assert!(rewrite(b"\xff\xfe: \x00 ; clwbx (%rax) # \xff\n", &Exports::default()).is_none());
}

proptest::proptest! {
    /// Whatever comes in, each of its bytes comes out, in order: only insertions, and the calls that go.
    #[test]
    fn nothing_else_is_lost(picks in proptest::collection::vec(0_usize..14, 0..40)) {
        let pieces = [
            "f:\n", ".L1:\n", "\tje .L1\n", "\tmovq %r11, %rdi\n", "\tclwb (%rsp)\n", "#APP\n", "#NO_APP\n",
            "\t.section .text.x\n", "\tlock; ", "\tincl (%rax)\n", "\"", "/* ", "*/", "\tcall memcpy\n",
        ];
        let source: String = picks.iter().map(|&pick| pieces[pick]).collect();
        let text = rewritten(&source);
        let mut rest = text.bytes();
        proptest::prop_assert!(source.bytes().all(|byte| rest.any(|other| other == byte)), "{}", text);
    }
}

#[test]
fn the_call_that_copies_a_structure_is_reported_once() {
    let announced = "f:\n\tmovl $300, %esi\n\tcall __tsan_write_range@PLT\n\tmovl $300, %esi\n\tcall __tsan_read_range@PLT\n";
    let assignment = format!("{announced}\tmovl $300, %edx\n\tjmp memcpy@PLT\n");
    assert!(!rewritten(&assignment).contains("strandline_memcpy"));
    let intel = ".intel_syntax noprefix\nf:\n\tmov esi, 300\n\tcall __tsan_write_range\n\tmov edx, 300\n\tcall memset\n";
    assert!(!rewritten(intel).contains("strandline_memset"));

    // Into the structure that the function returns: the load's hook goes, the call announces both.
    let returned =
        "f:\n\tmovl $300, %esi\n\tcall __tsan_read_range@PLT\n\tmovl $300, %edx\n\tcall memcpy@PLT\n";
    let text = rewritten(returned);
    assert!(text.contains("strandline_memcpy") && !text.contains("__tsan_read_range"), "{text}");

    // The program's own calls: of another length, the second one, in another block.
    for own in [
        format!("{announced}\tmovl $301, %edx\n\tcall memcpy@PLT\n"),
        format!("{announced}\tmovl $300, %edx\n\tcall memcpy\n\tmovl $300, %edx\n\tcall memcpy\n"),
        format!("{announced}.L7:\n\tmovl $300, %edx\n\tcall memcpy@PLT\n"),
        format!("{announced}\tmovq %rax, %rdx\n\tcall memcpy@PLT\n"),
        format!("{announced}\tmovups %xmm0, 0(%rbp)\n\tmovl $300, %edx\n\tcall memcpy@PLT\n"),
    ] {
        assert!(rewritten(&own).contains("strandline_memcpy"), "{own}");
    }
}

#[test]
fn a_store_that_another_one_overtakes_is_reported_where_it_is_executed() {
    let hook = "\tcall __tsan_write8@PLT\n";
    let of = |between: &str, store: &str| {
        let text = rewritten(&format!("f:\n{hook}\t{between}\n{store}\tret\n.ident \"GCC\"\n"));
        let names =
            text.split("strandline_hook_").skip(1).map(|rest| rest.split('@').next().unwrap_or_default());
        names.map(str::to_string).collect::<Vec<_>>()
    };
    let store = "\tmovq %rax, (%rbx)\n";
    assert_eq!(of("vpmovdb %zmm0, (%rcx){%k1}", store), ["masked1x16", "store8"]);
    assert_eq!(of("vmovdqu %xmm0, (%rcx)", store), ["store16", "store8"]);
    assert_eq!(of("movntdq %xmm0, (%rcx)", store), ["nt16", "store8"]);
    assert_eq!(of("vmaskmovdqu %xmm1, %xmm0", store), ["streamed1x16", "store8"]);
    // It stays where it is if it may not be found again.
    assert_eq!(of("vmovdqu %xmm0, (%rcx)", &format!(".L5:\n{store}")), ["store16"]);
    assert_eq!(of("vmovdqu %xmm0, (%rcx)", ""), ["store16"]);
}

#[test]
fn a_range_that_one_instruction_stores_is_reported_there() {
    let hook = "\tmovl $32, %esi\n\tcall __tsan_write_range@PLT\n\tvmovhps %xmm7, 8(%rbx)\n";
    let of = |store: &str| rewritten(&format!("f:\n{hook}{store}\tret\n.ident \"GCC\"\n"));
    let text = of("\tvmovdqu %ymm6, 108(%rbx)\n");
    assert!(text.contains("strandline_hook_store8") && text.contains("strandline_hook_store32"), "{text}");
    assert!(!text.contains("__tsan"), "{text}");
    assert!(of("\tcall f\n\tvmovdqu %ymm6, 108(%rbx)\n").contains("__tsan_write_range"));
    assert!(of("\tmovups %xmm6, 108(%rbx)\n").contains("__tsan_write_range"));
}

#[test]
fn a_structure_that_is_copied_behind_a_loop_of_stores_to_a_local_one_is_reported() {
    let source = |announced: &str| {
        format!(
            "\t.text\nmk:\n\tmovq %rdi, %r12\n\tsubq $192, %rsp\n\tmovq %rsp, %rbp\n\tmovq %rbp, %r13\n.L2:\n\tmovq %rbp, %rdi\n\
             \tincq %rbp\n\tcall __tsan_{announced}@PLT\n\tmovb %bl, -1(%rbp)\n\tjne .L2\n\tmovq %r12, %rdi\n\tmovq %r13, %rsi\n\
             \tmovl $48, %ecx\n\trep movsl\n\taddq $192, %rsp\n\tret\n"
        )
    };
    assert!(!rewritten(&source("write1")).contains("rep movsl"));
    // One that was announced as a whole is this one.
    assert!(rewritten(&source("write_range")).contains("rep movsl"));
}
