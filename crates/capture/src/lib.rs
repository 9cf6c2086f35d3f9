//! C and C++ programs into events: compiler driver, assembler wrapper, collector.
