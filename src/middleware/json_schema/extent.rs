//! How many checks a schema can make of one value.

use serde_json::Value;

/// References within references. Each takes a stack frame.
const MAX_OPEN: usize = 64;

/// Counts the members and items of a schema, with those of each schema that it refers to. Each is applied to a value once at
/// most, so a value breaks no more of them. `None` if there are more than `most`, if a schema refers to itself, or if a
/// reference is not a JSON Pointer into the document.
pub(super) fn checks(schema: &Value, most: usize) -> Option<usize> {
    let mut counted = Counted { root: schema, open: Vec::new(), left: most };
    counted.add(schema)?;
    Some(most - counted.left)
}

struct Counted<'s> {
    root: &'s Value,
    /// The references that lead to the part.
    open: Vec<&'s str>,
    left: usize,
}

impl<'s> Counted<'s> {
    fn add(&mut self, part: &'s Value) -> Option<()> {
        match part {
            Value::Array(items) => items.iter().try_for_each(|item| self.add_one(item)),
            Value::Object(members) => members.iter().try_for_each(|(keyword, value)| match (&**keyword, value) {
                ("$schema" | "$comment" | "title" | "description" | "format", Value::String(_)) => Some(()),
                ("$ref", Value::String(target)) => self.add_referred(target),
                ("$dynamicRef" | "$recursiveRef", Value::String(_)) => None,
                // A pointer below it begins there.
                ("$id", Value::String(_)) if !std::ptr::eq(part, self.root) => None,
                _ => self.add_one(value),
            }),
            _ => Some(()),
        }
    }

    fn add_one(&mut self, part: &'s Value) -> Option<()> {
        self.left = self.left.checked_sub(1)?;
        self.add(part)
    }

    fn add_referred(&mut self, target: &'s str) -> Option<()> {
        let referred = self.root.pointer(target.strip_prefix('#')?)?;
        if self.open.len() == MAX_OPEN || self.open.contains(&target) {
            return None;
        }
        self.open.push(target);
        self.add_one(referred)?;
        self.open.pop();
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_members_and_items_are_counted_with_those_of_references() {
        assert_eq!(checks(&json!(true), 10), Some(0));
        let text = json!({ "$schema": "s", "title": "t", "type": "string", "enum": ["a", "b"] });
        assert_eq!(checks(&text, 10), Some(4));
        assert_eq!(checks(&text, 3), None);
        let property = json!({ "properties": { "title": { "type": "string" } } });
        assert_eq!(checks(&property, 10), Some(3));
        // Three of the definition, three of `allOf`, and two at each reference.
        let twice = json!({ "$defs": { "s": { "minLength": 1 } }, "allOf": [{ "$ref": "#/$defs/s" }, { "$ref": "#/$defs/s" }] });
        assert_eq!(checks(&twice, 100), Some(3 + 3 + 2 * 2));
    }

    #[test]
    fn what_cannot_be_counted_has_no_number() {
        for schema in [
            json!({ "properties": { "next": { "$ref": "#" } } }),
            json!({ "$defs": { "a": { "items": { "$ref": "#/$defs/b" } }, "b": { "items": { "$ref": "#/$defs/a" } } } }),
            json!({ "$ref": "#name" }),
            json!({ "$ref": "https://example.com/schema" }),
            json!({ "$dynamicRef": "#node" }),
            json!({ "items": { "$id": "other" } }),
        ] {
            assert_eq!(checks(&schema, 1_000), None, "{schema}");
        }
        // Twice as many at each of 40 references.
        let mut definitions = serde_json::Map::new();
        for number in 0..40 {
            let next = json!({ "$ref": format!("#/$defs/{}", number + 1) });
            definitions.insert(number.to_string(), json!({ "allOf": [next, next] }));
        }
        definitions.insert("40".into(), json!({ "type": "string" }));
        assert_eq!(checks(&json!({ "$defs": definitions }), 100_000), None);
    }
}
