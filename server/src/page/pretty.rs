//! JSON on several lines. Numbers, strings and the order of keys stay as they were written.

/// Breaks a JSON text into lines. `None` if it is not JSON.
pub(super) fn json(text: &str) -> Option<String> {
    serde_json::from_str::<serde::de::IgnoredAny>(text).ok()?;
    let mut lines = Lines { text: String::with_capacity(text.len() * 2), depth: 0 };
    let mut chars = text.chars().peekable();
    while let Some(char) = chars.next() {
        match char {
            '"' => {
                lines.text.push('"');
                while let Some(char) = chars.next() {
                    lines.text.push(char);
                    match char {
                        '\\' => lines.text.extend(chars.next()),
                        '"' => break,
                        _ => {}
                    }
                }
            }
            '{' | '[' => {
                lines.text.push(char);
                while chars.next_if(char::is_ascii_whitespace).is_some() {}
                let end = if char == '{' { '}' } else { ']' };
                if chars.next_if_eq(&end).is_some() {
                    lines.text.push(end);
                } else {
                    lines.depth += 1;
                    lines.begin();
                }
            }
            '}' | ']' => {
                lines.depth -= 1;
                lines.begin();
                lines.text.push(char);
            }
            ',' => {
                lines.text.push(',');
                lines.begin();
            }
            ':' => lines.text.push_str(": "),
            _ if char.is_ascii_whitespace() => {}
            _ => lines.text.push(char),
        }
    }
    Some(lines.text)
}

struct Lines {
    text: String,
    depth: usize,
}

impl Lines {
    fn begin(&mut self) {
        self.text.push('\n');
        self.text.extend(std::iter::repeat_n("  ", self.depth));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_but_white_space_changes() {
        let text = r#"{"b":[1,123456789012345678901234567890,1.50e+3],"a":{"x\"{":"[,]:"} , "e":[ ],"o":{}, "b":null}"#;
        let shown = json(text).unwrap();
        let expected = "{\n  \"b\": [\n    1,\n    123456789012345678901234567890,\n    1.50e+3\n  ],\n  \"a\": {\n    \"x\\\"{\": \"[,]:\"\n  },\n  \"e\": [],\n  \"o\": {},\n  \"b\": null\n}";
        assert_eq!(shown, expected);
        assert_eq!(json("{\"a\":}"), None);
        assert_eq!(json("\"one\"").as_deref(), Some("\"one\""));
    }
}
