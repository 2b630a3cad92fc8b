//! The excerpts in docs/writing-a-transport.md are in the source of this crate.

use std::{fs, path::Path};

const PAGE: &str = include_str!("../../../docs/writing-a-transport.md");

/// The blocks of code that begin with the name of a file.
fn excerpts() -> Vec<(String, String)> {
    let blocks = PAGE.split("```rust,ignore\n").skip(1).filter_map(|rest| rest.split("\n```").next());
    blocks
        .map(|block| {
            let (first, code) = block.split_once('\n').expect("a block has a first line and code");
            let file = first.strip_prefix("// transports/example/").expect("an excerpt begins with its file");
            (file.to_owned(), code.to_owned())
        })
        .collect()
}

#[test]
fn every_excerpt_of_the_page_is_in_its_file() {
    let excerpts = excerpts();
    assert!(excerpts.len() > 8, "{}", excerpts.len());
    for (file, code) in excerpts {
        let source = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(&file)).expect("the file exists");
        assert!(source.contains(&code), "{file} has no longer\n{code}");
    }
}
