//! What a build needs besides Rust.

use crate::error::Error;
use crate::workspace::{cargo, output, read};

/// Crates by which build scripts run a C compiler, `cmake` or another program.
const TOOLS: &[&str] = &["bindgen", "cc", "cmake", "nasm-rs", "pkg-config"];

/// What the default build of `consign` needs, and the pre-releases in `Cargo.lock`, a line for each.
pub(super) fn problems() -> Result<Vec<String>, Error> {
    let tree = output(&mut cargo(["tree", "--package", "consign", "--edges", "normal,build", "--prefix", "none"]))?;
    let tools = tools(&tree).into_iter().map(|tool| format!("the default build of consign depends on {tool}"));
    let lock = read("Cargo.lock")?;
    let pre = pre_releases(&lock).into_iter().map(|package| format!("Cargo.lock has the pre-release {package}"));
    Ok(tools.chain(pre).collect())
}

fn tools(tree: &str) -> Vec<&str> {
    tree.lines().filter_map(|line| line.split(' ').next()).filter(|name| TOOLS.contains(name)).collect()
}

fn pre_releases(lock: &str) -> Vec<String> {
    let packages = lock.split("[[package]]").skip(1);
    let field = |package: &str, name: &str| {
        let line = package.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(" = \""));
        line.map(|value| value.trim_end_matches('"').to_owned())
    };
    let named = packages.filter_map(|package| Some((field(package, "name")?, field(package, "version")?)));
    let is_pre = |version: &str| version.split('+').next().is_some_and(|version| version.contains('-'));
    named.filter(|(_, version)| is_pre(version)).map(|(name, version)| format!("{name} {version}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_tool_is_found_by_its_whole_name() {
        assert_eq!(tools("consign v0.1.0 (/x)\ncc v1.2.3\ncc-traits v1.0.0\nlibc v0.2.0 (*)"), ["cc"]);
    }

    #[test]
    fn build_metadata_is_not_a_pre_release() {
        let lock = "[[package]]\nname = \"wasi\"\nversion = \"0.11.1+wasi-snapshot-preview1\"\n\n[[package]]\nname = \"rc\"\n\
                    version = \"1.0.0-rc.1\"\n";
        assert_eq!(pre_releases(lock), ["rc 1.0.0-rc.1"]);
    }
}
