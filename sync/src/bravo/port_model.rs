//! A counter-example.
