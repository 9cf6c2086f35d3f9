//! One file per advisor over events and machine figures.
