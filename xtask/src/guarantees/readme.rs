//! The sentences of the README's guarantees.

const HEADING: &str = "## Guarantees";

/// Returns the sentences of the list under the heading, without the words in bold that begin each item.
pub(super) fn sentences(readme: &str) -> Vec<String> {
    let section =
        readme.lines().skip_while(|line| *line != HEADING).skip(1).take_while(|line| !line.starts_with("## "));
    let mut items: Vec<String> = Vec::new();
    for line in section {
        if let Some(item) = line.strip_prefix("- ") {
            items.push(item.trim().to_owned());
        } else if let (Some(item), Some(more)) = (items.last_mut(), line.strip_prefix("  ")) {
            item.push(' ');
            item.push_str(more.trim());
        }
    }
    items.iter().flat_map(|item| item_sentences(item)).collect()
}

fn item_sentences(item: &str) -> Vec<String> {
    let text = item.strip_prefix("**").and_then(|item| item.split_once("** ")).map_or(item, |(_, text)| text);
    let count = text.matches(". ").count();
    let sentences = text.split(". ").enumerate();
    sentences
        .map(|(place, sentence)| if place < count { format!("{sentence}.") } else { sentence.to_owned() })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_split_into_sentences() {
        let readme = "- no\n\n## Guarantees\n\nAn introduction.\n\n- **Sends.** When `send` ends, it is stored:\n  here. So it\n  stays.\n- **Locks.** One.\n\n## Next\n\n- no\n";
        assert_eq!(sentences(readme), ["When `send` ends, it is stored: here.", "So it stays.", "One."]);
    }
}
