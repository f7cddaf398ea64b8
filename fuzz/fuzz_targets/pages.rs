#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| nsyscope_fuzz::pages(bytes));
