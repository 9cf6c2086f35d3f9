//! Built-in workloads, generic over Env.
