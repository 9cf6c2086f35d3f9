//! End-to-end tests of the command line and of programs built with it, in one binary.

#[path = "../common/mod.rs"]
mod common;

mod advise;
mod allocators;
mod bench;
mod bugs;
mod capi;
mod check_commands;
mod check_files;
mod check_hangs;
mod check_images;
mod check_links;
mod check_lints;
mod check_litmus;
mod check_log;
mod check_page;
mod check_pools;
mod check_reboot;
mod check_story;
mod check_threads;
mod check_whole;
mod corpus;
mod counts;
mod endings;
mod examples;
mod faults;
mod files;
mod flushes;
mod kv_capi;
mod measure;
mod patched;
mod persist;
mod pools;
mod prestore;
mod profile;
mod programs;
mod reproduce;
mod runs;
mod served;
mod shipped;
mod simulate;
mod tails;
mod trace_json;
mod trace_size;
mod values;
