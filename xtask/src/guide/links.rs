//! The links of a page, in the repository and in the book.

use std::path::{Component, Path, PathBuf};

const GUIDE: &str = "docs/guide/src";

/// A page, by its path inside the workspace.
pub(super) struct Page<'a> {
    path: &'a Path,
    text: &'a str,
}

/// What a page links: a path inside the workspace, and `#anchor` or nothing.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Linked {
    pub(super) path: PathBuf,
    anchor: String,
}

/// Where a file is in the book: chapters at the top, pages and pictures of `docs` below `reference`. Others are not in it.
pub(super) fn place(path: &Path) -> Option<PathBuf> {
    if let Ok(chapter) = path.strip_prefix(GUIDE) {
        return Some(chapter.to_owned());
    }
    let page = path.strip_prefix("docs").ok()?;
    let is_shown = matches!(page.extension()?.to_str()?, "md" | "svg");
    is_shown.then(|| Path::new("reference").join(page))
}

impl<'a> Page<'a> {
    pub(super) fn new(path: &'a Path, text: &'a str) -> Self {
        Self { path, text }
    }

    /// The first heading.
    pub(super) fn title(&self) -> &str {
        self.text.lines().find_map(|line| line.strip_prefix("# ")).unwrap_or_default()
    }

    /// The files that it links.
    pub(super) fn linked(&self) -> Vec<Linked> {
        let mut linked = Vec::new();
        self.rewrite(|_, to| {
            linked.extend(self.resolve(to));
            String::new()
        });
        linked
    }

    /// Its text in the book. A link to a file that is not in the book becomes its text.
    pub(super) fn staged(&self) -> String {
        let Some(own) = place(self.path) else { return self.text.to_owned() };
        let up = "../".repeat(own.components().count().saturating_sub(1));
        self.rewrite(|text, to| match self.resolve(to) {
            None => format!("[{text}]({to})"),
            Some(Linked { path, anchor }) => match place(&path) {
                Some(place) => format!("[{text}]({up}{}{anchor})", place.display()),
                None => text.to_owned(),
            },
        })
    }

    /// The file of a link, unless it is a URL or an anchor of this page.
    fn resolve(&self, to: &str) -> Option<Linked> {
        if to.contains("://") || to.starts_with('#') {
            return None;
        }
        let (path, anchor) = to.find('#').map_or((to, ""), |at| to.split_at(at));
        let mut resolved = self.path.parent()?.to_owned();
        for part in Path::new(path).components() {
            match part {
                Component::ParentDir => drop(resolved.pop()),
                Component::Normal(name) => resolved.push(name),
                _ => {}
            }
        }
        Some(Linked { path: resolved, anchor: anchor.to_owned() })
    }

    /// Replaces each `[text](to)` outside of blocks.
    fn rewrite(&self, mut replace: impl FnMut(&str, &str) -> String) -> String {
        let (mut out, mut is_code) = (String::new(), false);
        for line in self.text.split_inclusive('\n') {
            let is_fence = line.trim_start().starts_with("```");
            is_code ^= is_fence;
            if is_code || is_fence {
                out.push_str(line);
                continue;
            }
            let mut rest = line;
            while let Some((before, text, to, after)) = next_link(rest) {
                out.push_str(before);
                out.push_str(&replace(text, to));
                rest = after;
            }
            out.push_str(rest);
        }
        out
    }
}

/// Splits at the first link: what is before it, its text, its target, and the rest.
fn next_link(line: &str) -> Option<(&str, &str, &str, &str)> {
    let middle = line.find("](")?;
    let start = line[..middle].rfind('[')?;
    let (to, after) = line[middle + 2..].split_once(')')?;
    Some((&line[..start], &line[start + 1..middle], to, after))
}

impl Linked {
    pub(super) fn is_file_in(&self, root: &Path) -> bool {
        root.join(&self.path).is_file()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_those_of_the_book() {
        let staged = |path: &str, text: &str| Page::new(Path::new(path), text).staged();
        let chapter =
            "a [rule](../../semantics.md#s-1), [next](b.md), [code](../../../src/lib.rs), [site](https://x)\n";
        let expected = "a [rule](reference/semantics.md#s-1), [next](b.md), code, [site](https://x)\n";
        assert_eq!(staged("docs/guide/src/a.md", chapter), expected);
        let page = "[home](guide/src/a.md), [rpc](rpc.md#errors), ![plot](benchmarks/one.svg)\n```\n[x](y.md)\n```\n";
        let expected = "[home](../a.md), [rpc](../reference/rpc.md#errors), ![plot](../reference/benchmarks/one.svg)\n```\n[x](y.md)\n```\n";
        assert_eq!(staged("docs/broker.md", page), expected);
    }
}
