//! The Parsing Canonical Form of a schema, and its fingerprint.

use std::{collections::HashSet, fmt::Write as _};

use super::{Id, Node};

/// Returns the canonical form: without documentation, defaults and logical types, with full names.
pub(super) fn form(nodes: &[Node], root: Id) -> String {
    let mut out = String::new();
    write(nodes, root, &mut HashSet::new(), &mut out);
    out
}

/// Names and symbols are letters, digits, `_` and dots, so nothing is escaped. Writing to a `String` does not fail.
fn write(nodes: &[Node], id: Id, written: &mut HashSet<Id>, out: &mut String) {
    let node = &nodes[id];
    if let Some(name) = node.name() {
        if !written.insert(id) {
            let _ = write!(out, "\"{name}\"");
            return;
        }
        let _ = write!(out, "{{\"name\":\"{name}\",\"type\":\"{}\"", node.kind());
    }
    match node {
        Node::Array(items) => {
            out.push_str("{\"type\":\"array\",\"items\":");
            write(nodes, *items, written, out);
            out.push('}');
        }
        Node::Map(values) => {
            out.push_str("{\"type\":\"map\",\"values\":");
            write(nodes, *values, written, out);
            out.push('}');
        }
        Node::Union(branches) => list(branches, out, |&branch, out| write(nodes, branch, written, out)),
        Node::Record(record) => {
            out.push_str(",\"fields\":");
            list(&record.fields, out, |field, out| {
                let _ = write!(out, "{{\"name\":\"{}\",\"type\":", field.name);
                write(nodes, field.id, written, out);
                out.push('}');
            });
            out.push('}');
        }
        Node::Enum(of) => {
            out.push_str(",\"symbols\":");
            list(&of.symbols, out, |symbol, out| {
                let _ = write!(out, "\"{symbol}\"");
            });
            out.push('}');
        }
        Node::Fixed(fixed) => {
            let _ = write!(out, ",\"size\":{}}}", fixed.size);
        }
        _ => {
            let _ = write!(out, "\"{}\"", node.kind());
        }
    }
}

fn list<T>(items: &[T], out: &mut String, mut each: impl FnMut(&T, &mut String)) {
    out.push('[');
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        each(item, out);
    }
    out.push(']');
}

/// Returns the CRC-64-AVRO of the specification.
pub(super) fn fingerprint(bytes: &[u8]) -> u64 {
    const EMPTY: u64 = 0xc15d_213a_a4d7_a795;
    bytes.iter().fold(EMPTY, |fingerprint, &byte| {
        let mut entry = (fingerprint ^ u64::from(byte)) & 0xff;
        for _ in 0..8 {
            entry = (entry >> 1) ^ (EMPTY & 0_u64.wrapping_sub(entry & 1));
        }
        (fingerprint >> 8) ^ entry
    })
}
