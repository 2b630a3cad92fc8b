//! Calls each target with each file of `fuzz/seeds`, on any toolchain.
//!
//! `cargo xtask fuzz --replay FILE` sets `CONSIGN_FUZZ_TARGET` and `CONSIGN_FUZZ_INPUT`, a file or a folder that is read instead.
//! `CONSIGN_WRITE_SEEDS=1` writes the seeds anew.
#![allow(clippy::unwrap_used)]

mod build;

use std::{
    env, fs,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
};

use consign_fuzz_targets::{TARGETS, Target};

/// The files of a target, and the bytes of all.
const MOST_FILES: usize = 24;
const MOST_BYTES: usize = 64 << 10;

fn folder(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("seeds").join(target)
}

/// A file, or the files of a folder by name.
fn files(path: &Path) -> Vec<PathBuf> {
    if !path.is_dir() {
        return vec![path.to_owned()];
    }
    let mut files: Vec<_> = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

/// Calls a target with files. Returns how many it fails with, and prints the command for each.
fn replay(name: &str, target: Target, files: &[PathBuf]) -> usize {
    let mut failed = 0;
    for file in files {
        let input = fs::read(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        if catch_unwind(AssertUnwindSafe(|| target(&input))).is_err() {
            eprintln!("replay: cargo xtask fuzz --target {name} --replay {}", file.display());
            failed += 1;
        }
    }
    println!("fuzz: {name}: {} of {} file(s) pass", files.len() - failed, files.len());
    failed
}

#[test]
fn every_kept_input_passes() {
    let mut failed = 0;
    let (only, input) = (env::var("CONSIGN_FUZZ_TARGET").ok(), env::var_os("CONSIGN_FUZZ_INPUT"));
    for (name, target) in TARGETS {
        if only.as_ref().is_some_and(|only| only != name) {
            continue;
        }
        let path = input.as_ref().map_or_else(|| folder(name), PathBuf::from);
        let files = files(&path);
        assert!(!files.is_empty(), "{} is empty", path.display());
        failed += replay(name, target, &files);
    }
    assert_eq!(failed, 0, "each file passes");
}

#[test]
fn seeds_are_as_they_are_built_and_small() {
    let mut bytes = 0;
    for (name, _) in TARGETS {
        for (id, input) in build::seeds(name) {
            let file = folder(name).join(&id);
            if env::var_os("CONSIGN_WRITE_SEEDS").is_some() {
                fs::create_dir_all(folder(name)).unwrap();
                fs::write(&file, &input).unwrap();
            }
            assert_eq!(fs::read(&file).ok(), Some(input), "{id}: set CONSIGN_WRITE_SEEDS=1 to write it");
        }
        let files = files(&folder(name));
        assert!(files.len() <= MOST_FILES, "{name} has {} files", files.len());
        bytes += files.iter().map(|file| fs::read(file).unwrap().len()).sum::<usize>();
    }
    assert!(bytes <= MOST_BYTES, "{bytes} bytes");
}
