//! Numbers as people read them. Integers in ns and bytes become units only here.

pub use crate::text::count;

/// A duration in ns with a unit and four digits: `417 ns`, `12.34 µs`, `4.062 ms`, `1.794 s`.
pub fn duration(ns: f64) -> String {
    let size = ns.abs();
    if size < 999.5 {
        // Medians may end in a half.
        if ns.fract() == 0.0 { format!("{ns:.0} ns") } else { format!("{ns:.1} ns") }
    } else if size < 999_950.0 {
        four(ns / 1e3, "µs")
    } else if size < 999_950_000.0 {
        four(ns / 1e6, "ms")
    } else {
        four(ns / 1e9, "s")
    }
}

/// As [`duration`], for whole nanoseconds.
pub fn ns(value: i64) -> String {
    duration(value as f64)
}

fn four(value: f64, unit: &str) -> String {
    let digits = match value.abs() {
        v if v < 9.9995 => 3,
        v if v < 99.995 => 2,
        _ => 1,
    };
    format!("{value:.digits$} {unit}")
}

/// A share 0..1 in per cent; a share that is there but rounds to nothing says so.
pub fn percent(share: f64) -> String {
    match share * 100.0 {
        p if p > 0.0 && p < 0.05 => "<0.1 %".to_owned(),
        p => format!("{p:.1} %"),
    }
}

/// A change of a share with its sign: `+3.1 %`.
pub fn signed_percent(change: f64) -> String {
    let text = format!("{:+.1} %", change * 100.0);
    if text == "-0.0 %" { "+0.0 %".to_owned() } else { text }
}

/// A difference of durations in ns with its sign: `+12.34 µs`.
pub fn signed_duration(ns: f64) -> String {
    if ns > 0.0 { format!("+{}", duration(ns)) } else { duration(ns) }
}

/// Bytes with a binary unit.
pub fn bytes(value: u64) -> String {
    let mut size = value as f64;
    for unit in ["B", "KiB", "MiB", "GiB"] {
        if size < 1023.95 {
            return if unit == "B" { format!("{value} B") } else { format!("{size:.1} {unit}") };
        }
        size /= 1024.0;
    }
    format!("{size:.1} TiB")
}

/// Bytes per second with an SI unit.
pub fn rate(bytes_per_s: f64) -> String {
    if bytes_per_s < 1e9 {
        format!("{:.1} MB/s", bytes_per_s / 1e6)
    } else {
        format!("{:.1} GB/s", bytes_per_s / 1e9)
    }
}

/// A kernel's name with what tells it from others first: without the return type, anonymous
/// namespaces, casts of template arguments and the parameter list.
pub fn kernel(name: &str) -> String {
    // The parameter list is the last bracket that closes at the end.
    let mut depth = 0;
    let mut end = name.len();
    if name.ends_with(')') {
        for (at, c) in name.char_indices().rev() {
            match c {
                ')' => depth += 1,
                '(' => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                end = at;
                break;
            }
        }
    }
    let name = if end == 0 { name } else { &name[..end] };
    // The return type ends at the last blank outside all brackets; inside round ones `>` compares.
    let mut open = Vec::new();
    let mut start = 0;
    for (at, c) in name.char_indices() {
        match c {
            '(' | '[' | '{' => open.push(c),
            '<' if open.last() != Some(&'(') => open.push(c),
            ')' | ']' | '}' => drop(open.pop()),
            '>' if open.last() == Some(&'<') => drop(open.pop()),
            ' ' if open.is_empty() => start = at + 1,
            _ => {}
        }
    }
    let name = if start < name.len() { &name[start..] } else { name };
    let mut out = name.replace("<unnamed>::", "").replace("(anonymous namespace)::", "");
    for cast in ["(int)", "(bool)", "(unsigned int)", "(long)"] {
        out = out.replace(cast, "");
    }
    out
}

/// `1 rank`, `2 ranks`.
pub fn plural(value: usize, noun: &str) -> String {
    let s = if value == 1 { "" } else { "s" };
    format!("{} {noun}{s}", count(value as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_names_begin_with_what_tells_them_apart() {
        for (name, shown) in [
            (
                "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<(unsigned long)4096>)",
                "ncclDevKernel_AllReduce_Sum_bf16_RING_LL",
            ),
            (
                "void at::native::<unnamed>::foo<(int)4, (bool)1>(int, T2 (*)(int))",
                "at::native::foo<4, 1>",
            ),
            (
                "std::enable_if<(((8)>(0))), void>::type vllm::fused_kernel<c10::Half, 8>(T1 *)",
                "vllm::fused_kernel<c10::Half, 8>",
            ),
            ("nvjet_sm90_tst_64x8_64x16_4x1_v_bz_TNT", "nvjet_sm90_tst_64x8_64x16_4x1_v_bz_TNT"),
            ("(odd)", "(odd)"),
            ("odd)", "odd)"),
        ] {
            assert_eq!(kernel(name), shown);
        }
    }

    #[test]
    fn units_change_where_they_should() {
        for (value, text) in [
            (0.0, "0 ns"),
            (999.0, "999 ns"),
            (5344.5, "5.345 µs"),
            (0.5, "0.5 ns"),
            (999_949.0, "999.9 µs"),
            (999_960.0, "1.000 ms"),
            (976_262_533.0, "976.3 ms"),
            (1_793_956_000.0, "1.794 s"),
        ] {
            assert_eq!(duration(value), text);
        }
        assert_eq!(percent(0.514), "51.4 %");
        assert_eq!(percent(0.0001), "<0.1 %");
        assert_eq!(percent(0.0), "0.0 %");
        assert_eq!(count(1_756_290), "1,756,290");
        assert_eq!(count(12), "12");
        assert_eq!(bytes(1023), "1023 B");
        assert_eq!(bytes(14_336), "14.0 KiB");
        assert_eq!(rate(4.8e12), "4800.0 GB/s");
        assert_eq!(plural(1, "rank"), "1 rank");
    }
}
