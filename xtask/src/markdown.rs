//! Parts of generated pages.

/// The items with commas between them.
pub(crate) fn list(items: impl IntoIterator<Item = String>) -> String {
    items.into_iter().collect::<Vec<_>>().join(", ")
}

/// A link from a page of `docs` to the file of a test, `path/of/file.rs#name`, with the name as the text.
pub(crate) fn link(test: &str) -> String {
    match test.split_once('#') {
        Some((file, name)) => format!("[`{name}`](../{file})"),
        None => format!("`{test}`"),
    }
}

/// The text in a cell of a table.
pub(crate) fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}
