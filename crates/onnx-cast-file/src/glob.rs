//! Globs as regular expressions over whole names: `*`, `?`, `[a-z]`, `[!a-z]`, `{a,b}`, and `\` before what stands for
//! itself. `*` also goes over slashes, and `**/` is any folder or none.

// The tables of Unicode's classes that the larger crate has would be a fifth of a module for browsers.
#[cfg(not(all(target_family = "wasm", target_os = "unknown")))]
pub(crate) use regex::{Regex, escape};
#[cfg(all(target_family = "wasm", target_os = "unknown"))]
pub(crate) use regex_lite::{Regex, escape};
use std::iter::Peekable;
use std::str::Chars;

/// The expression of a glob, or what is wrong with it.
pub(crate) fn to_regex(glob: &str) -> Result<String, String> {
    let mut letters = glob.chars().peekable();
    let mut text = String::new();
    // Of every `{` that is open the text before it, and its parts so far.
    let mut outer: Vec<(String, Vec<String>)> = Vec::new();
    let mut begins = true;
    while let Some(letter) = letters.next() {
        let mut starts_part = letter == '/';
        match letter {
            '*' if letters.next_if_eq(&'*').is_some() => match letters.next_if_eq(&'/') {
                Some(_) if begins => {
                    text.push_str("(?:.*/)?");
                    starts_part = true;
                }
                slash => {
                    text.push_str(".*");
                    text.extend(slash);
                    starts_part = slash.is_some();
                }
            },
            '*' => text.push_str(".*"),
            '?' => text.push('.'),
            '[' => text.push_str(&class(&mut letters)?),
            '{' => {
                outer.push((std::mem::take(&mut text), Vec::new()));
                starts_part = true;
            }
            ',' => match outer.last_mut() {
                Some((_, parts)) => {
                    parts.push(std::mem::take(&mut text));
                    starts_part = true;
                }
                None => text.push(','),
            },
            '}' => {
                let (before, mut parts) = outer.pop().ok_or("unopened alternate group; missing '{'")?;
                parts.push(std::mem::take(&mut text));
                parts.retain(|part| !part.is_empty());
                text = if parts.is_empty() { before } else { format!("{before}(?:{})", parts.join("|")) };
            }
            '\\' => text.push_str(&literal(letters.next().ok_or("dangling '\\'")?)),
            letter => text.push_str(&literal(letter)),
        }
        begins = starts_part;
    }
    if outer.is_empty() { Ok(format!(r"(?s)\A{text}\z")) } else { Err("unclosed alternate group; missing '}'".into()) }
}

/// A class, of which the bracket was read.
fn class(letters: &mut Peekable<Chars<'_>>) -> Result<String, String> {
    let is_negated = letters.next_if(|&letter| letter == '!' || letter == '^').is_some();
    let mut text = String::from(if is_negated { "[^" } else { "[" });
    let mut next = || letters.next().ok_or("unclosed character class; missing ']'");
    // A bracket that comes first stands for itself, as does a hyphen at either end.
    let (mut from, mut letter) = (next()?, next()?);
    loop {
        if letter == '-' {
            let to = next()?;
            if to == ']' {
                return Ok(text + &literal(from) + "\\-]");
            }
            if to < from {
                return Err(format!("invalid range; '{from}' > '{to}'"));
            }
            text += &format!("{}-{}", literal(from), literal(to));
            letter = next()?;
        } else {
            text += &literal(from);
        }
        if letter == ']' {
            return Ok(text + "]");
        }
        (from, letter) = (letter, next()?);
    }
}

fn literal(letter: char) -> String {
    escape(letter.encode_utf8(&mut [0; 4]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use globset::GlobBuilder;

    fn matches(glob: &str, name: &str) -> Result<bool, String> {
        Ok(Regex::new(&to_regex(glob)?).map_err(|error| error.to_string())?.is_match(name))
    }

    #[test]
    fn a_letter_of_several_bytes_is_one() {
        for (glob, name, want) in
            [("?ber", "über", true), ("[ä-ü]b", "öb", true), ("[!ü]ber", "über", false), ("x?y", "x\ny", true)]
        {
            assert_eq!(matches(glob, name), Ok(want), "{glob} on {name}");
        }
    }

    /// Globs and names of few letters, as the crate globset has them.
    #[test]
    fn globs_match_as_those_of_globset() {
        let mut state = 1u64;
        let mut any = |letters: &[u8], most: u64| -> String {
            let mut next = |below: u64| {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                (state >> 33) % below
            };
            (0..next(most + 1)).map(|_| char::from(letters[next(letters.len() as u64) as usize])).collect()
        };
        let (mut compared, mut matched) = (0, 0);
        for _ in 0..5000 {
            let glob = any(br"aab/.**?[]{},-!^\", 9);
            // There a folder alone is any name.
            if glob.bytes().all(|letter| b"*/".contains(&letter)) {
                continue;
            }
            let theirs = GlobBuilder::new(&glob).literal_separator(false).backslash_escape(true).build();
            let ours = to_regex(&glob);
            assert_eq!(ours.is_ok(), theirs.is_ok(), "{glob}: {ours:?} {theirs:?}");
            let (Ok(ours), Ok(theirs)) = (ours, theirs) else { continue };
            let (ours, theirs) = (Regex::new(&ours).expect("an expression"), theirs.compile_matcher());
            for _ in 0..20 {
                let name = any(b"aab/.,-", 6);
                assert_eq!(ours.is_match(&name), theirs.is_match(&name), "`{glob}` ({ours}) on `{name}`");
                (compared, matched) = (compared + 1, matched + usize::from(theirs.is_match(&name)));
            }
        }
        assert!(compared > 20_000 && matched > 500, "{compared} {matched}");
    }
}
