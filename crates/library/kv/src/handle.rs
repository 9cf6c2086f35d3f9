//! What leads to an environment.

use std::ops::Deref;

/// What leads to an environment and can be shared: a reference, or an [`Arc`](std::sync::Arc).
pub trait Handle<E>: Deref<Target = E> + Clone + Send + Sync {}

impl<E, H: Deref<Target = E> + Clone + Send + Sync> Handle<E> for H {}
