//! Writes nsys-shaped databases with known truth.
