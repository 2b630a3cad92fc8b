//! Encoders and decoders of Rust.

use serde::{Serialize, de::DeserializeOwned};

use crate::report::NUMBERED;

/// One of them.
pub(crate) struct Peer {
    pub(crate) name: &'static str,
    pub(crate) format: &'static str,
    /// Its package, whose version the lock file has.
    pub(crate) package: &'static str,
    /// Whether it is a decoder of its own, and not another way to write of the one before.
    pub(crate) reads: bool,
    kind: Kind,
}

#[derive(Clone, Copy)]
enum Kind {
    SerdeJson,
    RmpArrays,
    RmpMaps,
    Ciborium,
    SerdeCbor,
    SerdeCborPacked,
    Minicbor,
}

pub(crate) const PEERS: &[Peer] = &[
    Peer { name: "serde_json", format: "json", package: "serde_json", reads: true, kind: Kind::SerdeJson },
    Peer { name: "rmp-serde, arrays", format: "msgpack", package: "rmp-serde", reads: true, kind: Kind::RmpArrays },
    Peer { name: "rmp-serde, maps", format: "msgpack", package: "rmp-serde", reads: false, kind: Kind::RmpMaps },
    Peer { name: "ciborium", format: "cbor", package: "ciborium", reads: true, kind: Kind::Ciborium },
    Peer { name: "serde_cbor", format: "cbor", package: "serde_cbor", reads: true, kind: Kind::SerdeCbor },
    Peer { name: NUMBERED, format: "cbor", package: "serde_cbor", reads: false, kind: Kind::SerdeCborPacked },
    Peer { name: "minicbor-serde", format: "cbor", package: "minicbor-serde", reads: true, kind: Kind::Minicbor },
];

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

impl Peer {
    pub(crate) fn write<T: Serialize>(&self, value: &T) -> Result<Vec<u8>, String> {
        match self.kind {
            Kind::SerdeJson => serde_json::to_vec(value).map_err(text),
            Kind::RmpArrays => rmp_serde::to_vec(value).map_err(text),
            Kind::RmpMaps => rmp_serde::to_vec_named(value).map_err(text),
            Kind::Ciborium => {
                let mut body = Vec::new();
                ciborium::into_writer(value, &mut body).map_err(text)?;
                Ok(body)
            }
            Kind::SerdeCbor => serde_cbor::to_vec(value).map_err(text),
            Kind::SerdeCborPacked => serde_cbor::ser::to_vec_packed(value).map_err(text),
            Kind::Minicbor => minicbor_serde::to_vec(value).map_err(text),
        }
    }

    pub(crate) fn read<T: DeserializeOwned>(&self, body: &[u8]) -> Result<T, String> {
        match self.kind {
            Kind::SerdeJson => serde_json::from_slice(body).map_err(text),
            Kind::RmpArrays | Kind::RmpMaps => rmp_serde::from_slice(body).map_err(text),
            Kind::Ciborium => ciborium::from_reader(body).map_err(text),
            Kind::SerdeCbor | Kind::SerdeCborPacked => serde_cbor::from_slice(body).map_err(text),
            Kind::Minicbor => minicbor_serde::from_slice(body).map_err(text),
        }
    }
}

/// The version of a package in the lock file.
pub(crate) fn version(package: &str) -> String {
    let lock = include_str!("../Cargo.lock");
    let name = format!("name = \"{package}\"\nversion = \"");
    let version = lock.split_once(&name).and_then(|(_, rest)| rest.split_once('"'));
    version.map(|(version, _)| version.into()).unwrap_or_default()
}
