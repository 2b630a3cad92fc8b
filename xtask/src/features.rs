//! `cargo xtask features`: the members with some of their features, warnings denied.
//!
//! Each package is checked without a feature, and in rounds with the first features of several groups: of each two, one round has
//! the one without the other, so that code which needs both is noticed. `--long` checks each feature and each group alone, and a
//! package apart from those that enable features of it: cargo builds a package once, with all features that are enabled. Clippy
//! instead of a plain check because it can deny warnings without building the dependencies anew.

use std::collections::{BTreeMap, BTreeSet};

use clap::Args;
use serde_json::{Value, json};

use crate::error::Error;
use crate::options::Output;
use crate::workspace::{cargo, metadata, run as run_command};

/// Features of one kind, whose code takes part in the same modules. The first is checked alone too.
const GROUPS: &[&[&str]] = &[
    &["json", "msgpack", "cbor"],
    &["bincode", "postcard"],
    &["protobuf", "erased"],
    &["dotnet"],
    &["avro"],
    &["amqp-value"],
    &["message", "serde"],
    &["tokio", "websocket", "http"],
    &["administration"],
    &["operations", "page"],
    &["embedded", "durable", "testing"],
    &["gzip", "zstd", "deflate"],
    &["encryption", "signing"],
    &["claim-check"],
    &["cloud-events", "interop"],
    &["asyncapi", "json-schema"],
    &["signal"],
    &["derive"],
    &["tls-ring", "tls-aws-lc", "tls"],
    &["config", "program", "cli"],
    &["postgres", "deadpool"],
    &["azure-core"],
];
/// Features that stand for others.
const COMPOSED: &[&str] = &["default", "full"];
/// How many builds there are of a package with several features, where `--long` is not set: enough for 35 groups.
const ROUNDS: u32 = 7;
/// What has to be among the packages, or cargo says something else than this reads.
const LIBRARY: &str = "consign";

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Check each feature and each group of features alone
    #[arg(long)]
    long: bool,
    #[command(flatten)]
    pub(crate) output: Output,
}

pub(crate) fn run(options: &Options) -> Result<(), Error> {
    let metadata = metadata()?;
    let packages = packages(&metadata);
    if !packages.iter().any(|package| package.name == LIBRARY) {
        return Err(Error::NoPackage(LIBRARY));
    }
    let ungrouped: Vec<_> = packages.iter().flat_map(Package::ungrouped).collect();
    if !ungrouped.is_empty() {
        return Err(Error::Ungrouped(ungrouped));
    }
    let builds = if options.long { alone(&packages) } else { rounds(&packages) };
    let mut failed = Vec::new();
    for build in &builds {
        eprintln!("{}", build.name());
        match build.check() {
            Ok(()) => {}
            Err(Error::Failed { .. }) => failed.push(build.name()),
            Err(error) => return Err(error),
        }
    }
    if options.output.json {
        println!("{}", json!({ "checked": builds.len(), "failed": failed }));
    } else {
        println!("{} of {} pass", builds.len() - failed.len(), builds.len());
    }
    if failed.is_empty() { Ok(()) } else { Err(Error::Features(failed)) }
}

/// Members with some of their features, or with none.
#[derive(Debug, Default, PartialEq, Eq)]
struct Build {
    packages: Vec<String>,
    features: BTreeSet<String>,
}

impl Build {
    fn name(&self) -> String {
        let features = if self.features.is_empty() { "(none)".to_owned() } else { self.list() };
        format!("{}/{features}", self.packages.join("+"))
    }

    fn list(&self) -> String {
        self.features.iter().map(String::as_str).collect::<Vec<_>>().join(",")
    }

    fn check(&self) -> Result<(), Error> {
        let mut command = cargo(["clippy", "--quiet", "--no-default-features"]);
        command.args(self.packages.iter().flat_map(|package| ["--package", package]));
        if !self.features.is_empty() {
            command.args(["--features", &self.list()]);
        }
        run_command(command.args(["--", "--deny", "warnings"]))
    }
}

/// A member that has features.
struct Package {
    name: String,
    features: BTreeSet<String>,
    /// It enables features of the library, which would then not be checked alone beside it.
    is_on_top: bool,
    /// Packages of which it enables features, whatever its own are.
    enables: BTreeSet<String>,
}

fn packages(metadata: &Value) -> Vec<Package> {
    let packages = metadata["packages"].as_array().into_iter().flatten();
    packages
        .filter_map(|package| Some((package, package["name"].as_str()?, package["features"].as_object()?)))
        .filter(|(.., features)| !features.is_empty())
        .map(|(package, name, features)| {
            let dependencies = package["dependencies"].as_array().into_iter().flatten();
            let dependencies: Vec<_> = dependencies.filter(|dependency| dependency["kind"].is_null()).collect();
            let has_features =
                |dependency: &Value| dependency["features"].as_array().is_some_and(|all| !all.is_empty());
            let enables = dependencies
                .iter()
                .filter(|dependency| dependency["optional"] != Value::Bool(true) && has_features(dependency));
            Package {
                name: name.into(),
                features: features.keys().cloned().collect(),
                is_on_top: dependencies.iter().any(|dependency| dependency["name"] == LIBRARY),
                enables: enables.filter_map(|dependency| Some(dependency["name"].as_str()?.to_owned())).collect(),
            }
        })
        .collect()
}

/// One build for each round, of all packages that have features of it.
fn rounds(packages: &[Package]) -> Vec<Build> {
    let mut rounds = BTreeMap::<_, Build>::new();
    for package in packages {
        for round in 0..=ROUNDS {
            let features = package.of_round(round);
            if round == 0 || !features.is_empty() {
                let build = rounds.entry((package.is_on_top, round)).or_default();
                build.packages.push(package.name.clone());
                build.features.extend(features);
            }
        }
    }
    let mut builds = Vec::new();
    for build in rounds.into_values() {
        if !builds.contains(&build) {
            builds.push(build);
        }
    }
    builds
}

/// One build for each set of features of `--long`, of all packages that have it and enable no features of each other.
fn alone(packages: &[Package]) -> Vec<Build> {
    let mut builds = BTreeMap::<_, Vec<&Package>>::new();
    for package in packages {
        for features in package.sets() {
            builds.entry((package.is_on_top, features)).or_default().push(package);
        }
    }
    let builds = builds.into_iter().flat_map(|((_, features), packages)| {
        apart(packages).into_iter().map(move |packages| Build {
            packages: packages.into_iter().map(|package| package.name.clone()).collect(),
            features: features.iter().cloned().collect(),
        })
    });
    builds.collect()
}

/// The packages in parts, in none of which one enables features of another.
fn apart(packages: Vec<&Package>) -> Vec<Vec<&Package>> {
    let enabled: BTreeSet<_> = packages.iter().flat_map(|package| &package.enables).cloned().collect();
    let (beneath, rest): (Vec<_>, Vec<_>) = packages.into_iter().partition(|package| enabled.contains(&package.name));
    // Packages do not depend on each other in a circle, so `rest` has one of them.
    let mut parts = if beneath.is_empty() { Vec::new() } else { apart(beneath) };
    parts.push(rest);
    parts
}

impl Package {
    /// Features that would be checked by `--long` alone.
    fn ungrouped(&self) -> Vec<String> {
        let is_known =
            |feature: &str| COMPOSED.contains(&feature) || GROUPS.iter().any(|group| group.contains(&feature));
        let unknown = self.features.iter().filter(|feature| !is_known(feature));
        unknown.map(|feature| format!("{}/{feature}", self.name)).collect()
    }

    /// The first feature of each group that takes part in a round; none in round 0.
    fn of_round(&self, round: u32) -> BTreeSet<String> {
        let groups = GROUPS.iter().zip(codes()).filter(|(_, code)| code & (1 << round) != 0);
        groups.filter_map(|(group, _)| self.own(group).next()).collect()
    }

    /// Those of its features that are in a group.
    fn own(&self, group: &'static [&'static str]) -> impl Iterator<Item = String> {
        group.iter().filter(|feature| self.features.contains(**feature)).map(ToString::to_string)
    }

    /// None, the first of each group, each group, and each feature.
    fn sets(&self) -> BTreeSet<Vec<String>> {
        let mut sets = BTreeSet::from([Vec::new()]);
        for group in GROUPS {
            sets.extend(self.own(group).next().map(|first| vec![first]));
            sets.insert(self.own(group).collect());
        }
        sets.extend(self.features.iter().map(|feature| vec![feature.clone()]));
        sets
    }
}

/// The rounds of each group, as bits from 1 on. Each has three, and no two the same: of two groups, each has a round without the
/// other.
fn codes() -> impl Iterator<Item = u32> {
    (0..1 << ROUNDS).filter(|code: &u32| code.count_ones() == 3).map(|code| code << 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(features: &[&str]) -> Package {
        let features = features.iter().copied().map(String::from).collect();
        Package { name: "a".into(), features, is_on_top: false, enables: BTreeSet::new() }
    }

    fn names(builds: &[Build]) -> Vec<String> {
        builds.iter().map(Build::name).collect()
    }

    #[test]
    fn of_two_groups_each_has_a_round_without_the_other() {
        let codes: Vec<_> = codes().take(GROUPS.len()).collect();
        assert_eq!(codes.len(), GROUPS.len(), "there are more groups than codes");
        for (at, one) in codes.iter().enumerate() {
            assert_eq!(one & 1, 0, "round 0 is without features");
            assert!(codes[..at].iter().all(|other| one & !other != 0 && other & !one != 0), "{one:b}");
        }
    }

    #[test]
    fn rounds_have_the_first_features_of_their_groups_but_only_where_there_are_features() {
        let metadata = json!({ "packages": [
            { "name": "a", "features": { "default": ["json"], "json": [], "cbor": [], "bincode": [] } },
            { "name": "b", "features": {} },
            { "name": "c", "features": { "json": [], "cbor": [] }, "dependencies": [{ "name": "bytes" }] },
            { "name": "d", "features": { "json": [] }, "dependencies": [{ "name": "consign" }] },
        ]});
        let rounds = names(&rounds(&packages(&metadata)));
        assert_eq!(rounds, ["a+c/(none)", "a+c/bincode,json", "a+c/json", "a/bincode", "d/(none)", "d/json"]);
    }

    #[test]
    fn with_long_each_feature_and_each_group_is_alone() {
        let metadata = json!({ "packages": [
            { "name": "a", "features": { "default": ["json"], "json": [], "cbor": [], "gzip": [] } },
            { "name": "c", "features": { "json": [], "cbor": [] } },
        ]});
        let expected = ["a+c/(none)", "a+c/cbor", "a/default", "a/gzip", "a+c/json", "a+c/cbor,json"];
        assert_eq!(names(&alone(&packages(&metadata))), expected);
    }

    #[test]
    fn with_long_no_package_enables_features_of_another_in_its_build() {
        let on = |name, features: &[&str], optional| json!({ "name": name, "features": features, "optional": optional, "kind": null });
        let package =
            |name, dependencies| json!({ "name": name, "features": { "json": [] }, "dependencies": dependencies });
        let metadata = json!({ "packages": [
            package("a", json!([])),
            package("b", json!([on("a", &["json"], false)])),
            package("c", json!([on("b", &["json"], false), on("d", &["json"], true), on("e", &[], false)])),
            package("d", json!([])),
            package("e", json!([])),
        ]});
        let packages = packages(&metadata);
        let expected = ["a/(none)", "b/(none)", "c+d+e/(none)", "a/json", "b/json", "c+d+e/json"];
        assert_eq!(names(&alone(&packages)), expected);
        assert_eq!(names(&rounds(&packages)), ["a+b+c+d+e/(none)", "a+b+c+d+e/json"]);
    }

    #[test]
    fn a_feature_in_no_group_is_named() {
        assert_eq!(package(&["json", "full"]).ungrouped(), Vec::<String>::new());
        assert_eq!(package(&["json", "brotli"]).ungrouped(), ["a/brotli"]);
    }

    #[test]
    fn every_feature_of_the_library_is_in_the_tables_of_the_readme_and_the_crate_page() {
        let manifest = include_str!("../../Cargo.toml").split_once("\n[features]\n").map(|(_, features)| features);
        let features = manifest.unwrap_or_default().lines().take_while(|line| !line.starts_with('['));
        let names: Vec<_> = features.filter_map(|line| Some(line.split_once(" = ")?.0)).collect();
        assert!(names.contains(&"durable"), "{names:?}");
        let pages = [("README.md", include_str!("../../README.md")), ("src/lib.rs", include_str!("../../src/lib.rs"))];
        for (page, text) in pages {
            let rows = text.lines().map(|line| line.trim_start_matches("//! ")).filter(|line| line.starts_with("| `"));
            let rows: Vec<_> = rows.filter_map(|row| row.split(" | ").next()).collect();
            for name in names.iter().filter(|name| **name != "default") {
                let cell = format!("`{name}`");
                assert!(rows.iter().any(|row| row.contains(&cell)), "{page} lacks the feature {name}");
            }
        }
    }
}
