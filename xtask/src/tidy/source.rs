//! One file, and for Rust its code without comments, strings and test modules.

/// A text file of the workspace.
pub struct SourceFile {
    /// Relative to the workspace, with `/`.
    pub path: String,
    /// As it lies on disk.
    pub text: String,
    /// Rust only: the text with comments, strings and character literals blanked; lines keep their numbers.
    pub code: String,
    /// Rust only: `code` with everything under `#[cfg(test)]` blanked; empty for files that hold tests only.
    pub product_code: String,
}

impl SourceFile {
    pub fn new(path: &str, text: String) -> Self {
        let is_rust = path.ends_with(".rs");
        let code = if is_rust { blank_non_code(&text) } else { String::new() };
        let product_code = if is_rust && !is_test_path(path) {
            blank_test_items(&code)
        } else {
            String::new()
        };
        Self {
            path: path.to_owned(),
            text,
            code,
            product_code,
        }
    }

    pub fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }
}

/// Files that hold nothing but tests, benches or examples.
fn is_test_path(path: &str) -> bool {
    path.split('/')
        .any(|part| matches!(part, "tests" | "benches" | "examples" | "fuzz" | "tests.rs"))
}

/// Replaces what is no code by spaces.
pub fn blank_non_code(text: &str) -> String {
    let characters: Vec<char> = text.chars().collect();
    let mut code = String::with_capacity(text.len());
    let mut position = 0;
    while position < characters.len() {
        let end = skip_non_code(&characters, position);
        if end > position {
            let blanked = characters[position..end]
                .iter()
                .map(|c| if *c == '\n' { '\n' } else { ' ' });
            code.extend(blanked);
            position = end;
        } else {
            code.push(characters[position]);
            position += 1;
        }
    }
    code
}

/// The end of the comment, string or character literal that starts here, or `start` when none does.
fn skip_non_code(text: &[char], start: usize) -> usize {
    let at = |offset: usize| text.get(start + offset).copied().unwrap_or('\0');
    let after_word = start > 0 && (text[start - 1].is_alphanumeric() || text[start - 1] == '_');
    match (at(0), at(1)) {
        ('/', '/') => (start..text.len()).find(|i| text[*i] == '\n').unwrap_or(text.len()),
        ('/', '*') => block_comment_end(text, start),
        ('"', _) => string_end(text, start + 1),
        ('b' | 'c', '"') if !after_word => string_end(text, start + 2),
        ('r', '"' | '#') if !after_word => raw_string_end(text, start, start + 1),
        ('b' | 'c', 'r') if !after_word && matches!(at(2), '"' | '#') => raw_string_end(text, start, start + 2),
        ('\'', '\\') => (start + 3..text.len())
            .find(|i| text[*i] == '\'')
            .map_or(text.len(), |i| i + 1),
        // Without the closing quote it is a lifetime.
        ('\'', _) if at(2) == '\'' => start + 3,
        _ => start,
    }
}

fn block_comment_end(text: &[char], start: usize) -> usize {
    let (mut depth, mut position) = (0, start);
    while position + 1 < text.len() {
        match (text[position], text[position + 1]) {
            ('/', '*') => (depth, position) = (depth + 1, position + 2),
            ('*', '/') => (depth, position) = (depth - 1, position + 2),
            _ => position += 1,
        }
        if depth == 0 {
            return position;
        }
    }
    text.len()
}

fn string_end(text: &[char], mut position: usize) -> usize {
    while position < text.len() {
        match text[position] {
            '\\' => position += 2,
            '"' => return position + 1,
            _ => position += 1,
        }
    }
    text.len()
}

/// `hashes` is where the `#`s begin. Raw identifiers (`r#type`) are no strings.
fn raw_string_end(text: &[char], start: usize, hashes: usize) -> usize {
    let count = text[hashes..].iter().take_while(|c| **c == '#').count();
    if text.get(hashes + count) != Some(&'"') {
        return start;
    }
    let mut position = hashes + count + 1;
    while position < text.len() {
        let closes = text[position] == '"' && text[position + 1..].iter().take_while(|c| **c == '#').count() >= count;
        if closes {
            return position + 1 + count;
        }
        position += 1;
    }
    text.len()
}

/// Blanks the item after each `#[cfg(test)]`: up to its closing brace, or its semicolon when that comes first.
pub fn blank_test_items(code: &str) -> String {
    const MARK: &str = "#[cfg(test)]";
    let mut kept = String::with_capacity(code.len());
    let mut rest = code;
    while let Some(start) = rest.find(MARK) {
        let (before, item) = rest.split_at(start);
        let end = item_end(item);
        kept.push_str(before);
        kept.extend(item[..end].chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
        rest = &item[end..];
    }
    kept.push_str(rest);
    kept
}

fn item_end(item: &str) -> usize {
    let mut depth = 0_usize;
    for (index, character) in item.char_indices() {
        match character {
            '{' => depth += 1,
            '}' if depth <= 1 => return index + 1,
            '}' => depth -= 1,
            ';' if depth == 0 => return index + 1,
            _ => {}
        }
    }
    item.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_strings_and_characters_are_no_code() {
        let text = "a /* b /* c */ */ d // e\n\"f \\\" g\" 'h' '\\'' r#\"i \" j\"# b\"k\" 'l x<'m>";
        let code = blank_non_code(text);
        let words: Vec<&str> = code.split_whitespace().collect();
        assert_eq!(words, ["a", "d", "'l", "x<'m>"]);
        assert_eq!(code.lines().count(), text.lines().count());
    }

    #[test]
    fn raw_identifiers_stay() {
        assert_eq!(blank_non_code("r#type for r"), "r#type for r");
    }

    #[test]
    fn test_items_are_blanked_and_what_follows_stays() {
        let code =
            "fn a() {}\n#[cfg(test)]\nmod tests { fn b() { c() } }\nfn d() {}\n#[cfg(test)]\nmod e;\nfn f() {}\n";
        let kept = blank_test_items(code);
        assert!(kept.contains("fn a") && kept.contains("fn d") && kept.contains("fn f"));
        assert!(!kept.contains("fn b") && !kept.contains("mod e"));
    }
}
