//! Bytes copied, set and compared on our own account.
//!
//! The compiler makes calls of `memcpy` and its like of our code. A program may define them itself, and then
//! the dynamic linker takes its definition everywhere: instrumented code that records, called while a record
//! is being made. These have the same names, are not exported, and stand before all others for this library
//! alone. What the program asks for is done by the definition that it would have without us
//! (`real/chosen.rs`).

use core::arch::global_asm;

/// Defines a function that nobody outside sees.
macro_rules! hidden {
    ($name:literal: $($line:literal)*) => {
        global_asm!(
            concat!(".globl ", $name),
            concat!(".hidden ", $name),
            concat!(".type ", $name, ",@function"),
            concat!($name, ":"),
            $($line,)*
            concat!(".size ", $name, ", . - ", $name),
        );
    };
}

#[cfg(target_arch = "x86_64")]
mod x86_64 {
    use super::global_asm;

    global_asm!(".text");
    hidden! { "memcpy":
        "mov rax, rdi"
        "mov rcx, rdx"
        "cmp rdx, 16"
        "jb 2f"
        "rep movsb"
        "ret"
        "2: test rcx, rcx"
        "je 4f"
        "3: movzx edx, byte ptr [rsi]"
        "mov byte ptr [rdi], dl"
        "inc rsi"
        "inc rdi"
        "dec rcx"
        "jne 3b"
        "4: ret"
    }
    hidden! { "memmove":
        "mov rax, rdi"
        "mov rcx, rdi"
        "sub rcx, rsi"
        "cmp rcx, rdx"
        "mov rcx, rdx"
        "jae 2f"
        "lea rsi, [rsi + rdx - 1]"
        "lea rdi, [rdi + rdx - 1]"
        "std"
        "rep movsb"
        "cld"
        "ret"
        "2: rep movsb"
        "ret"
    }
    hidden! { "memset":
        "mov r8, rdi"
        "mov rcx, rdx"
        "mov eax, esi"
        "rep stosb"
        "mov rax, r8"
        "ret"
    }
    hidden! { "memcmp":
        "xor eax, eax"
        "test rdx, rdx"
        "je 3f"
        "2: movzx eax, byte ptr [rdi]"
        "movzx ecx, byte ptr [rsi]"
        "sub eax, ecx"
        "jne 3f"
        "inc rdi"
        "inc rsi"
        "dec rdx"
        "jne 2b"
        "3: ret"
    }
    hidden! { "bcmp":
        "jmp memcmp"
    }
    hidden! { "strlen":
        "xor eax, eax"
        "2: cmp byte ptr [rdi + rax], 0"
        "je 3f"
        "inc rax"
        "jmp 2b"
        "3: ret"
    }
}

#[cfg(target_arch = "aarch64")]
mod aarch64 {
    use super::global_asm;

    global_asm!(".text");
    hidden! { "memcpy":
        "mov x3, x0"
        "cbz x2, 3f"
        "2: ldrb w4, [x1], #1"
        "strb w4, [x3], #1"
        "subs x2, x2, #1"
        "b.ne 2b"
        "3: ret"
    }
    hidden! { "memmove":
        "sub x3, x0, x1"
        "cmp x3, x2"
        "b.hs memcpy"
        "2: cbz x2, 3f"
        "sub x2, x2, #1"
        "ldrb w4, [x1, x2]"
        "strb w4, [x0, x2]"
        "b 2b"
        "3: ret"
    }
    hidden! { "memset":
        "2: cbz x2, 3f"
        "sub x2, x2, #1"
        "strb w1, [x0, x2]"
        "b 2b"
        "3: ret"
    }
    hidden! { "memcmp":
        "mov x5, x0"
        "mov w0, #0"
        "2: cbz x2, 3f"
        "ldrb w3, [x5], #1"
        "ldrb w4, [x1], #1"
        "sub x2, x2, #1"
        "subs w0, w3, w4"
        "b.eq 2b"
        "3: ret"
    }
    hidden! { "bcmp":
        "b memcmp"
    }
    hidden! { "strlen":
        "mov x1, x0"
        "mov x0, #0"
        "2: ldrb w2, [x1, x0]"
        "cbz w2, 3f"
        "add x0, x0, #1"
        "b 2b"
        "3: ret"
    }
}
