//! The `nsyscope` binary: parses arguments, calls the library and prints.
fn main() {}
