//! Real memory: instructions per ISA, Mapped, Os.
