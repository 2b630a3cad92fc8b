//! Bodies of .NET's `DataContractSerializer`, as mono's has written them: see `vectors/dotnet`.
//!
//! Random tests are seeded. `SEED` sets the seed and `CONSIGN_CASES` the number of cases; a failure prints both.
#![cfg(all(feature = "dotnet", feature = "json", feature = "msgpack"))]
// Unsafe: an allocator that counts. Unwraps: clippy lets them pass in test functions, not in what those call.
#![allow(unsafe_code, clippy::unwrap_used)]

mod chain;
mod golden;
mod hostile;
mod memory;
mod objects;
mod records;
mod refusals;
mod support;
mod xml;
