//! The scripts on `docs/other-languages.md`.

use std::{collections::BTreeSet, fs, path::Path};

use tower::BoxError;

use crate::environment::Environment;

const PAGE: &str = include_str!("../../../../docs/other-languages.md");
const FOLDERS: [&str; 6] = ["rabbitmq", "nats", "postgres", "outbox", "servicebus", "amqp10"];

/// The page has each script of the folders whole, below a line with its name.
#[expect(clippy::unused_async, reason = "a case is a future")]
pub(crate) async fn has_the_scripts(_: &Environment) -> Result<(), BoxError> {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut expected = BTreeSet::new();
    for folder in FOLDERS {
        for entry in fs::read_dir(package.join(folder))? {
            expected.insert(format!("{folder}/{}", entry?.file_name().display()));
        }
    }
    let mut found = BTreeSet::new();
    for block in PAGE.split("\n`tests/foreign/languages/").skip(1) {
        let (name, rest) = block.split_once("`:\n\n```").ok_or("the name of a script has no code below it")?;
        let (_, rest) = rest.split_once('\n').ok_or("a block has no code")?;
        let (code, _) = rest.split_once("```").ok_or("a block has no end")?;
        if fs::read_to_string(package.join(name))? != code {
            return Err(format!("docs/other-languages.md has other code than {name}").into());
        }
        found.insert(name.to_owned());
    }
    if found == expected { Ok(()) } else { Err(format!("the page has {found:?} instead of {expected:?}").into()) }
}
