//! `cargo xtask guide`: the guide of `docs/guide` as a book, with the reference pages of `docs` that it links.
//!
//! The pages are copied to `target/guide/src`, where their links are those of the book. mdBook makes `target/guide/book` of them.

mod links;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::folder::remove;
use crate::toolchain::installed;
use crate::workspace::{read, root, run as run_command, write};

const SOURCE: &str = "docs/guide/src";
const STAGED: &str = "target/guide";
/// A version that is known to build with the toolchain in use; a newer one may not.
const VERSION: &str = "0.5.4";

pub(crate) fn run() -> Result<(), Error> {
    let pages = stage()?;
    let options = ["--no-default-features", "--features", "search"];
    installed(&mut mdbook(&["--version"]), "mdbook", VERSION, &options)?;
    run_command(&mut mdbook(&["build", STAGED]))?;
    println!("{pages} pages in {STAGED}/book/index.html");
    Ok(())
}

fn mdbook(arguments: &[&str]) -> std::process::Command {
    let mut command = std::process::Command::new("mdbook");
    command.args(arguments).current_dir(root()).stdin(std::process::Stdio::null());
    command
}

/// Copies the chapters, and the pages of `docs` that they lead to. Returns how many pages there are.
fn stage() -> Result<usize, Error> {
    let staged = root().join(STAGED);
    // The pages of an earlier run may be gone.
    remove(&staged)?;
    write(format!("{STAGED}/book.toml"), &read("docs/guide/book.toml")?)?;
    let (mut waiting, mut places) = (files(SOURCE)?, BTreeMap::new());
    let mut reference = BTreeSet::new();
    places.extend(waiting.iter().map(|path| (path.clone(), links::place(path))));
    while let Some(path) = waiting.pop() {
        let Some(place) = links::place(&path) else { continue };
        let target = Path::new(STAGED).join("src").join(&place);
        if path.extension().is_none_or(|extension| extension != "md") {
            copy(&path, &target)?;
            continue;
        }
        let text = read(&path)?;
        let page = links::Page::new(&path, &text);
        for linked in page.linked() {
            if linked.is_file_in(root()) && !places.contains_key(&linked.path) {
                places.insert(linked.path.clone(), links::place(&linked.path));
                waiting.push(linked.path);
            }
        }
        write(target, &page.staged())?;
        if place.starts_with("reference") {
            reference.insert((page.title().to_owned(), place));
        }
    }
    let mut summary = read(format!("{SOURCE}/SUMMARY.md"))?;
    summary.push_str("\n# Reference\n\n");
    for (title, place) in &reference {
        let _ = writeln!(summary, "- [{title}]({})", place.display());
    }
    write(format!("{STAGED}/src/SUMMARY.md"), &summary)?;
    Ok(places.values().flatten().filter(|place| place.extension().is_some_and(|extension| extension == "md")).count())
}

/// The files of a folder, by their paths inside the workspace.
fn files(folder: &str) -> Result<Vec<PathBuf>, Error> {
    let failed = |source| Error::Read { path: root().join(folder), source };
    let entries = fs::read_dir(root().join(folder)).map_err(failed)?;
    entries.map(|entry| Ok(Path::new(folder).join(entry.map_err(failed)?.file_name()))).collect()
}

fn copy(from: &Path, to: &Path) -> Result<(), Error> {
    let (from, to) = (root().join(from), root().join(to));
    let folder = to.parent().map_or(Ok(()), fs::create_dir_all);
    folder.and_then(|()| fs::copy(&from, &to)).map(drop).map_err(|source| Error::Write { path: to, source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_staged_book_has_every_page_that_it_links() {
        let pages = stage().unwrap();
        assert!(pages > 15, "{pages}");
        let staged = Path::new(STAGED).join("src");
        let mut folders = vec![staged.clone(), staged.join("reference")];
        while let Some(folder) = folders.pop() {
            for path in files(folder.to_str().unwrap())
                .unwrap()
                .iter()
                .filter(|path| path.extension().is_some_and(|e| e == "md"))
            {
                for linked in links::Page::new(path, &read(path).unwrap()).linked() {
                    assert!(linked.is_file_in(root()), "{}: {}", path.display(), linked.path.display());
                }
            }
        }
    }
}
