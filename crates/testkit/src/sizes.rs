//! How long source files and their functions are, without the unit tests at a file's end.

use crate::imports::words_of;

/// A function with a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Its name; of a macro's function the parameter that names it.
    pub name: String,
    /// The line of `fn`, counted from 1.
    pub line: usize,
    /// The lines from `fn` to the end of the body.
    pub lines: usize,
}

/// A source file without the unit tests at its end: a module under `#[cfg(test)]` that is written in the file itself.
pub fn without_tests(text: &str) -> &str {
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        if line.starts_with("#[cfg(test)]") {
            let mut items = text[at..].lines().skip(1).take(2);
            if items.any(|item| item.contains("mod ") && item.trim_end().ends_with('{')) {
                return &text[..at];
            }
        }
        at += line.len();
    }
    text
}

/// The functions of a source text, those in others and in macros too.
pub fn functions(text: &str) -> Vec<Function> {
    let words = words_of(text);
    let mut found = Vec::new();
    for (at, &(line, _)) in words.iter().enumerate().filter(|(_, (_, word))| *word == "fn") {
        // The type of a function has no name.
        let Some((_, name)) = words.get(at + 1).filter(|(_, word)| *word != "(") else { continue };
        if let Some(end) = end_of_body(&words[at..]) {
            found.push(Function { name: (*name).to_owned(), line, lines: end - line + 1 });
        }
    }
    found
}

/// The line where the body of the function ends that the words begin with; a declaration has none.
fn end_of_body(words: &[(usize, &str)]) -> Option<usize> {
    let (mut brackets, mut braces) = (0usize, 0usize);
    for &(line, word) in words {
        match word {
            "(" | "[" => brackets += 1,
            ")" | "]" => brackets = brackets.saturating_sub(1),
            ";" if brackets == 0 && braces == 0 => return None,
            "{" => braces += 1,
            "}" => {
                braces = braces.saturating_sub(1);
                if braces == 0 && brackets == 0 {
                    return Some(line);
                }
            }
            _ => {}
        }
    }
    None
}
