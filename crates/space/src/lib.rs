//! The seam between programs and memory: Space, Env, Image, Recorded.
