//! The page docs/attacks.md.

use std::fmt::Write as _;

use super::{Group, Tests};
use crate::markdown::{cell, link, list};

const INTRODUCTION: &str = "\
# Attacks

Inputs that exhausted, crashed or misled message brokers, clients and decoders, most of them from published advisories. Each row has
the limit that applies here, the answer, and the tests that send the input. Where a decoder refuses a body, the consumer
dead-letters the message with its bytes unchanged, and the reason names the failure: [Decoding](decoding.md).

`cargo xtask attacks --write` generates this page from `docs/attacks.toml` and from the `/// Attacks:` comments of tests. CI fails if
an input has no test and `docs/attacks.toml` gives no reason.
";

/// Returns the page.
pub(super) fn page(groups: &[Group], tests: &Tests) -> String {
    let mut page = INTRODUCTION.to_owned();
    for group in groups {
        let _ = write!(page, "\n## {}\n\n| # | input | limit | answer | tests |\n|---|---|---|---|---|\n", group.title);
        for attack in &group.attack {
            let tests = match &attack.missing {
                Some(reason) => format!("none: {}", cell(reason)),
                None => list(tests.get(&attack.number).into_iter().flatten().map(|test| link(test))),
            };
            let [input, limit, answer] = [&attack.input, &attack.limit, &attack.answer].map(|text| cell(text));
            let _ = writeln!(page, "| {} | {input} | {limit} | {answer} | {tests} |", attack.number);
        }
    }
    page
}
