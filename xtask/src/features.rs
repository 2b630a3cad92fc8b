//! `cargo xtask features`: the members with some of their features, warnings denied.
//!
//! Each package is checked without a feature, and with the first of each group of features alone. `--long` checks each
//! group together and each feature alone as well. Clippy instead of a plain check because it can deny warnings without building
//! the dependencies anew.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::Options;
use crate::error::Error;
use crate::workspace::{cargo, output, run as run_command};

/// Features of one kind, whose code takes part in the same modules. The first is checked alone too.
const GROUPS: &[&[&str]] = &[
    &["json", "msgpack", "cbor"],
    &["bincode", "postcard"],
    &["protobuf", "erased"],
    &["embedded", "durable", "testing"],
    &["gzip", "zstd", "deflate"],
    &["encryption", "signing"],
    &["claim-check"],
    &["cloud-events", "interop"],
    &["derive"],
    &["tls-ring", "tls-aws-lc", "tls"],
];
/// Features that stand for others, and those that `cargo xtask sabotage` builds.
const COMPOSED: &[&str] = &["default", "full"];
const SABOTAGE: &str = "sabotage-";

pub(crate) fn run(options: Options) -> Result<(), Error> {
    let metadata = output(&mut cargo(["metadata", "--no-deps", "--format-version", "1"]))?;
    let metadata: Value = serde_json::from_str(&metadata).map_err(Error::Metadata)?;
    let packages = packages(&metadata);
    let ungrouped: Vec<_> = packages.iter().flat_map(Package::ungrouped).collect();
    if !ungrouped.is_empty() {
        return Err(Error::Ungrouped(ungrouped));
    }
    let builds: BTreeSet<Build> = packages.iter().flat_map(|package| package.builds(options.long)).collect();
    let mut failed = Vec::new();
    for build in &builds {
        eprintln!("{}", build.name());
        match build.check() {
            Ok(()) => {}
            Err(Error::Failed { .. }) => failed.push(build.name()),
            Err(error) => return Err(error),
        }
    }
    if options.json {
        println!("{}", json!({ "checked": builds.len(), "failed": failed }));
    } else {
        println!("{} of {} pass", builds.len() - failed.len(), builds.len());
    }
    if failed.is_empty() { Ok(()) } else { Err(Error::Features(failed)) }
}

/// A member with some of its features, or with none.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Build {
    package: String,
    features: Vec<String>,
}

impl Build {
    fn name(&self) -> String {
        let features = if self.features.is_empty() { "(none)".to_owned() } else { self.features.join(",") };
        format!("{}/{features}", self.package)
    }

    fn check(&self) -> Result<(), Error> {
        let mut command = cargo(["clippy", "--quiet", "--package", &self.package, "--no-default-features"]);
        if !self.features.is_empty() {
            command.args(["--features", &self.features.join(",")]);
        }
        run_command(command.args(["--", "--deny", "warnings"]))
    }
}

/// A member that has features.
struct Package {
    name: String,
    features: BTreeSet<String>,
}

fn packages(metadata: &Value) -> Vec<Package> {
    let packages = metadata["packages"].as_array().into_iter().flatten();
    packages
        .filter_map(|package| Some((package["name"].as_str()?, package["features"].as_object()?)))
        .filter(|(_, features)| !features.is_empty())
        .map(|(name, features)| Package { name: name.into(), features: features.keys().cloned().collect() })
        .collect()
}

impl Package {
    /// Features that would be checked by `--long` alone.
    fn ungrouped(&self) -> Vec<String> {
        let is_known = |feature: &str| {
            COMPOSED.contains(&feature)
                || feature.starts_with(SABOTAGE)
                || GROUPS.iter().any(|group| group.contains(&feature))
        };
        let unknown = self.features.iter().filter(|feature| !is_known(feature));
        unknown.map(|feature| format!("{}/{feature}", self.name)).collect()
    }

    /// None, and the first of each group; where `long` is set, each group and each feature too.
    fn builds(&self, long: bool) -> Vec<Build> {
        let build = |features: &[&str]| Build {
            package: self.name.clone(),
            features: features.iter().copied().map(String::from).collect(),
        };
        let mut builds = vec![build(&[])];
        for group in GROUPS {
            let own: Vec<&str> = group.iter().copied().filter(|feature| self.features.contains(*feature)).collect();
            if let Some(first) = own.first() {
                builds.push(build(&[first]));
                builds.extend(long.then(|| build(&own)));
            }
        }
        if long {
            builds.extend(self.features.iter().map(|feature| build(&[feature])));
        }
        builds
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(features: &[&str]) -> Package {
        Package { name: "a".into(), features: features.iter().copied().map(String::from).collect() }
    }

    #[test]
    fn none_and_the_first_of_each_group_but_only_where_there_are_features() {
        let metadata = json!({ "packages": [
            { "name": "a", "features": { "default": ["json"], "json": [], "cbor": [], "gzip": [] } },
            { "name": "b", "features": {} },
        ]});
        let names = |long| -> Vec<_> {
            let packages = packages(&metadata);
            let builds: BTreeSet<_> = packages.iter().flat_map(|package| package.builds(long)).collect();
            builds.iter().map(Build::name).collect()
        };
        assert_eq!(names(false), ["a/(none)", "a/gzip", "a/json"]);
        assert_eq!(names(true), ["a/(none)", "a/cbor", "a/default", "a/gzip", "a/json", "a/json,cbor"]);
    }

    #[test]
    fn a_feature_in_no_group_is_named() {
        assert_eq!(package(&["json", "full", "sabotage-x"]).ungrouped(), Vec::<String>::new());
        assert_eq!(package(&["json", "brotli"]).ungrouped(), ["a/brotli"]);
    }
}
