//! Writes a capture with the events of another N times: `scale INPUT.sqlite N OUT.sqlite`.
//! For trying readers on real rows at sizes that no fixture has.

use nsyscope_testkit::{Result, scale};

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [input, copies, output] = arguments.as_slice() else {
        eprintln!("usage: scale INPUT.sqlite N OUT.sqlite");
        return Ok(());
    };
    let Ok(copies) = copies.parse() else {
        eprintln!("N must be a number, not {copies}");
        return Ok(());
    };
    scale(input, copies, output)
}
