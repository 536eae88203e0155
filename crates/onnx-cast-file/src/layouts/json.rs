//! JSON as Python reads and writes it: configurations hold bare `Infinity`, `-Infinity` and `NaN`, which JSON lacks.

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Error, Map, Value};
use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

/// The words that Python reads as numbers. A minus sign before the first stays in the text.
const WORDS: [&str; 2] = ["Infinity", "NaN"];

/// The object that a text holds. Numbers that JSON lacks are others there: nothing reads them.
pub(super) fn object(text: &str) -> Result<Map<String, Value>, Error> {
    serde_json::from_str(&with_numbers(text))
}

/// An object's keys in order, each with the text of its value.
pub(super) fn pairs(text: &str) -> Result<Vec<(String, &str)>, Error> {
    let readable = with_numbers(text);
    let Pairs(pairs) = serde_json::from_str(&readable)?;
    Ok(pairs.into_iter().map(|(key, value)| (key, &text[place_in(&readable, value)])).collect())
}

/// Where a value, borrowed from a text, is in it.
fn place_in(text: &str, value: &str) -> Range<usize> {
    let start = value.as_ptr() as usize - text.as_ptr() as usize;
    start..start + value.len()
}

/// Edits the JSON of an object, and keeps everything else byte for byte. `edit` returns the new JSON of a key's value,
/// or `None` to remove the key. The keys of `added` are appended.
pub(super) fn edit<'t>(
    text: &'t str,
    mut edit: impl FnMut(&str, &'t str) -> Result<Option<Cow<'t, str>>, Error>,
    added: &[(&str, String)],
) -> Result<String, Error> {
    let pairs = pairs(text)?;
    let open = text.find('{').map_or(0, |brace| brace + 1);
    let inner = &text[open..];
    let space = match &inner[..inner.len() - inner.trim_start().len()] {
        "" if pairs.is_empty() => "\n  ",
        "" => " ",
        space => space,
    };
    let (mut new, mut is_empty, mut at) = (text[..open].to_owned(), true, open);
    for (key, value) in &pairs {
        let place = place_in(text, value);
        let lead = &text[std::mem::replace(&mut at, place.end)..place.start];
        if let Some(value) = edit(key, value)? {
            let lead = if is_empty { lead.trim_start().strip_prefix(',').unwrap_or(lead) } else { lead };
            new.extend([lead, &value]);
            is_empty = false;
        }
    }
    for (key, value) in added {
        new.extend([if is_empty { "" } else { "," }, space, &Value::from(*key).to_string(), ": ", value]);
        is_empty = false;
    }
    let end = if is_empty { text[at..].trim_start() } else { &text[at..] };
    new.push_str(if pairs.is_empty() && !is_empty { "\n" } else { "" });
    new.push_str(end);
    Ok(new)
}

/// The text with digits in place of those words, as many as letters, so that all else stays where it is.
fn with_numbers(text: &str) -> Cow<'_, str> {
    if !WORDS.iter().any(|word| text.contains(word)) {
        return Cow::Borrowed(text);
    }
    let is_part = |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || b"_.+".contains(byte));
    let bytes = text.as_bytes();
    let (mut places, mut is_text, mut at) = (Vec::new(), false, 0);
    while at < bytes.len() {
        match bytes[at] {
            b'"' => is_text = !is_text,
            b'\\' => at += 1,
            b'I' | b'N' if !is_text => {
                let word = WORDS.iter().find(|word| bytes[at..].starts_with(word.as_bytes()));
                let before = at.checked_sub(1).and_then(|before| bytes.get(before));
                let is_refused = |word: &str| {
                    let has_sign = before == Some(&b'-');
                    is_part(before) || is_part(bytes.get(at + word.len())) || has_sign && word == "NaN"
                };
                if let Some(word) = word.filter(|word| !is_refused(word)) {
                    places.push(at..at + word.len());
                    at += word.len() - 1;
                }
            }
            _ => {}
        }
        at += 1;
    }
    let mut readable = text.to_owned();
    places.into_iter().for_each(|place| readable.replace_range(place.clone(), &"1".repeat(place.len())));
    Cow::Owned(readable)
}

/// An object's keys in order, each with the text of its value.
struct Pairs<'a>(Vec<(String, &'a str)>);

impl<'de: 'a, 'a> Deserialize<'de> for Pairs<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct PairsVisitor;

        impl<'de> Visitor<'de> for PairsVisitor {
            type Value = Pairs<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Pairs<'de>, A::Error> {
                let mut pairs = Vec::new();
                while let Some((key, value)) = map.next_entry::<String, &'de RawValue>()? {
                    pairs.push((key, value.get()));
                }
                Ok(Pairs(pairs))
            }
        }

        deserializer.deserialize_map(PairsVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_json_lacks_are_read_and_keep_their_text() {
        let text = r#"{"a": [0.0, Infinity], "b": -Infinity, "c": NaN, "NaN": "Infinity \" NaN", "d": {"e":NaN}}"#;
        let pairs = pairs(text).expect("an object");
        let values: Vec<&str> = pairs.iter().map(|(_, value)| *value).collect();
        assert_eq!(values, ["[0.0, Infinity]", "-Infinity", "NaN", "\"Infinity \\\" NaN\"", "{\"e\":NaN}"]);
        assert_eq!(object(text).expect("an object")["NaN"], "Infinity \" NaN");
        // What Python refuses too.
        for text in ["{\"a\": -NaN}", "{\"a\": +Infinity}", "{\"a\": 1NaN}", "{\"a\": NaN1}", "{\"a\": Inf}", "NaN"] {
            assert!(object(text).is_err(), "{text}");
        }
    }
}
