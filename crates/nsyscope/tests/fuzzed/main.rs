//! Faults that fuzzing, or the thought of it, found: each a test of its own.

mod captures;
mod files;
