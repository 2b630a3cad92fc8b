//! `cargo xtask attacks --run`: the tests that send the inputs, in a build with overflow checks and debug assertions, and in one
//! without.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{Tests, problem::Problem};
use crate::error::Error;
use crate::workspace::{cargo, metadata, output, root, run as run_command};

const PROFILES: [&str; 2] = ["dev", "release"];

/// A profile of cargo in which all tests of all attacks have passed, and how many tests these are.
pub(super) struct Passed {
    pub(super) profile: &'static str,
    pub(super) attacks: usize,
    pub(super) tests: usize,
}

/// Runs them in one profile after the other. No other programs of tests are built than those that have one of them.
pub(super) fn run(tests: &Tests) -> Result<Vec<Passed>, Error> {
    let packages = packages(&metadata()?);
    let (mut targets, mut names) = (BTreeSet::new(), BTreeSet::new());
    for (file, name) in tests.values().flatten().filter_map(|test| test.split_once('#')) {
        targets.insert(Target::of(file, &packages));
        names.insert(name);
    }
    let mut chosen = ["--features", "full"].map(str::to_owned).to_vec();
    chosen.extend(arguments(&targets));
    let names: Vec<_> = names.into_iter().collect();
    chosen.extend(["--filterset".to_owned(), format!("test(/(^|::)({})$/)", names.join("|"))]);
    PROFILES.iter().map(|profile| run_in(profile, tests, &packages, &chosen)).collect()
}

fn run_in(
    profile: &'static str,
    tests: &Tests,
    packages: &[(PathBuf, String)],
    chosen: &[String],
) -> Result<Passed, Error> {
    let nextest = |what: &[&str]| {
        let mut command = cargo(["nextest"]);
        // A test that cannot run is a failure.
        command.args(what).args(["--cargo-profile", profile]).args(chosen).env("CONSIGN_LEAVE_NOTHING_OUT", "1");
        command
    };
    let list = output(&mut nextest(&["list", "--message-format", "json"]))?;
    let selected = selected(&serde_json::from_str(&list).map_err(Error::Report)?);
    let missing = missing(tests, packages, &selected);
    if !missing.is_empty() {
        return Err(Error::Attacks(missing));
    }
    run_command(&mut nextest(&["run", "--no-fail-fast"]))?;
    Ok(Passed { profile, attacks: tests.len(), tests: selected.len() })
}

/// The tests of attacks that are not among the selected ones.
fn missing(tests: &Tests, packages: &[(PathBuf, String)], selected: &[(String, String)]) -> Vec<Problem> {
    let all = tests.iter().flat_map(|(attack, tests)| tests.iter().map(move |test| (*attack, test)));
    let is_selected = |test: &str| {
        let (file, name) = test.split_once('#').unwrap_or((test, ""));
        let package = Target::of(file, packages).package;
        selected.iter().any(|(of, selected)| *of == package && selected == name)
    };
    all.filter(|(_, test)| !is_selected(test)).map(|(attack, test)| Problem::NotRun(attack, test.clone())).collect()
}

/// What cargo builds of a package: its library or one program of `tests`.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Target {
    package: String,
    /// `None` for the library and the programs of `src`.
    program: Option<String>,
}

impl Target {
    /// The target that a file belongs to, in the innermost of the packages.
    fn of(file: &str, packages: &[(PathBuf, String)]) -> Self {
        let file = Path::new(file);
        let inside = packages.iter().filter_map(|(folder, name)| Some((file.strip_prefix(folder).ok()?, name.clone())));
        let innermost = inside.min_by_key(|(path, _)| path.components().count());
        let (path, package) = innermost.unwrap_or((file, String::new()));
        // `tests/NAME.rs` or `tests/NAME/...`.
        let program = path.strip_prefix("tests").ok().and_then(|path| Path::new(path.iter().next()?).file_stem());
        Self { package, program: program.map(|name| name.to_string_lossy().into_owned()) }
    }
}

/// Each argument once: cargo takes `--lib` for all packages, and not twice. A file of `src` may belong to a program.
fn arguments(targets: &BTreeSet<Target>) -> BTreeSet<String> {
    let program = |target: &Target| target.program.as_ref().map_or("--lib".into(), |name| format!("--test={name}"));
    let each = targets.iter().flat_map(|target| [format!("--package={}", target.package), program(target)]);
    each.chain(["--bins".to_owned()]).collect()
}

/// Folder, inside the workspace, and name of each package.
fn packages(metadata: &Value) -> Vec<(PathBuf, String)> {
    let package = |package: &Value| {
        let folder = Path::new(package["manifest_path"].as_str()?).parent()?;
        Some((folder.strip_prefix(root()).ok()?.to_owned(), package["name"].as_str()?.to_owned()))
    };
    metadata["packages"].as_array().into_iter().flatten().filter_map(package).collect()
}

/// The tests that a list of nextest selects, each as its package and its name without modules.
fn selected(list: &Value) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for suite in list["rust-suites"].as_object().into_iter().flat_map(|suites| suites.values()) {
        let package = suite["package-name"].as_str().unwrap_or_default();
        for (name, case) in suite["testcases"].as_object().into_iter().flatten() {
            if case["filter-match"]["status"] == "matches" {
                let name = name.rsplit("::").next().unwrap_or(name);
                found.push((package.to_owned(), name.to_owned()));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_file_belongs_to_a_target_of_the_innermost_package() {
        let packages = [("", "consign"), ("amqp", "consign-amqp"), ("tests/clusters", "cluster-tests")]
            .map(|(folder, name)| (folder.into(), name.into()));
        let target = |file| Target::of(file, &packages);
        let of = |package: &str, program: Option<&str>| Target {
            package: package.to_owned(),
            program: program.map(str::to_owned),
        };
        assert_eq!(target("amqp/tests/codec/frames.rs"), of("consign-amqp", Some("codec")));
        assert_eq!(target("tests/one.rs"), of("consign", Some("one")));
        assert_eq!(target("src/rpc/responder/address.rs"), of("consign", None));
        assert_eq!(target("tests/clusters/src/lib.rs"), of("cluster-tests", None));
        let files = ["src/lib.rs", "tests/one.rs", "tests/clusters/src/lib.rs"];
        let arguments = Vec::from_iter(arguments(&files.map(target).into()));
        assert_eq!(arguments, ["--bins", "--lib", "--package=cluster-tests", "--package=consign", "--test=one"]);
    }

    #[test]
    fn the_packages_of_this_workspace_are_found() {
        let packages = packages(&metadata().unwrap());
        assert!(packages.contains(&("xtask".into(), "xtask".into())), "{packages:?}");
        assert!(packages.contains(&("".into(), "consign".into())), "{packages:?}");
    }

    #[test]
    fn a_test_that_is_not_selected_is_missing() {
        let case = |status: &str| json!({ "ignored": false, "filter-match": { "status": status } });
        let list = json!({ "rust-suites": { "consign-amqp::codec": { "package-name": "consign-amqp",
            "testcases": { "frames::one": case("matches"), "two": case("matches"), "three": case("mismatch") } } } });
        let selected = selected(&list);
        assert_eq!(selected.len(), 2);
        let packages = [("amqp".into(), "consign-amqp".into()), ("".into(), "consign".into())];
        let missing = |test: &str| missing(&Tests::from([(7, vec![test.to_owned()])]), &packages, &selected);
        assert_eq!(missing("amqp/tests/codec/frames.rs#one"), []);
        for other in ["amqp/tests/codec/frames.rs#three", "tests/one.rs#one", "amqp/tests/codec/frames.rs#four"] {
            assert_eq!(missing(other), [Problem::NotRun(7, other.to_owned())]);
        }
    }
}
