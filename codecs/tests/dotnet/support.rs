use std::{
    fs,
    path::{Path, PathBuf},
};

use consign_codecs::{Codec, DataContractBinary, DataContractXml, DecodeContext, DecodeError, Limits};
use serde::{Deserialize, de::DeserializeOwned};

pub(crate) const SERIALIZATION: &str = "http://schemas.microsoft.com/2003/10/Serialization/";
pub(crate) const CONTRACT: &str = "http://schemas.datacontract.org/2004/07/Shop";

fn directory() -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests", "vectors", "dotnet"].iter().collect()
}

/// A body by the name of its file.
pub(crate) fn golden(file: &str) -> Vec<u8> {
    fs::read(directory().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// Whether a file is text XML.
pub(crate) fn is_text(file: &str) -> bool {
    Path::new(file).extension().is_some_and(|extension| extension == "xml")
}

/// The names of all bodies of an extension, in order.
pub(crate) fn goldens(extension: &str) -> Vec<String> {
    let files = fs::read_dir(directory()).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap());
    let mut files: Vec<_> = files.filter(|file| file.ends_with(extension)).collect();
    assert!(files.len() > 10, "{extension}: {}", files.len());
    files.sort();
    files
}

pub(crate) fn binary<'de, T: Deserialize<'de>>(body: &'de [u8]) -> Result<T, DecodeError> {
    DataContractBinary::default().decode(body, &DecodeContext::new(&Limits::default()))
}

pub(crate) fn text<'de, T: Deserialize<'de>>(body: &'de [u8]) -> Result<T, DecodeError> {
    DataContractXml::default().decode(body, &DecodeContext::new(&Limits::default()))
}

/// Reads a body in both encodings, by its name without an extension.
pub(crate) fn both<T: DeserializeOwned>(name: &str) -> [T; 2] {
    let read =
        |result: Result<T, DecodeError>, encoding| result.unwrap_or_else(|error| panic!("{name}.{encoding}: {error}"));
    [read(binary(&golden(&format!("{name}.bin"))), "bin"), read(text(&golden(&format!("{name}.xml"))), "xml")]
}

/// The start of an element in a namespace, in binary XML.
pub(crate) fn start(name: &str, namespace: &str) -> Vec<u8> {
    [&[0x40], &string(name)[..], &[0x08], &string(namespace)].concat()
}

/// An element without a namespace of its own.
pub(crate) fn element(name: &str) -> Vec<u8> {
    [&[0x40], &string(name)[..]].concat()
}

/// A text with its length in one byte.
pub(crate) fn string(text: &str) -> Vec<u8> {
    let len = u8::try_from(text.len()).unwrap();
    assert!(len < 0x80);
    [&[len], text.as_bytes()].concat()
}
