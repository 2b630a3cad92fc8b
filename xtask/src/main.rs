//! Long checks and figures, one word each: `cargo xtask NAME`.

fn main() {}
