//! Maps under the crash checker: whatever a crash leaves, opening the map finds each operation that
//! had ended, each that was under way done or not done, and nothing else; and a map with a mistake is caught.

mod btree;
mod bytes;
mod desk;
mod hash;
mod killed;
mod log_structured;
mod published;
