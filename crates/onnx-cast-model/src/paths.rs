//! Where a graph is within a model, in words: what listings and messages name it by. A listing has the path of a graph
//! for every value within, and graphs may be many deep with names of any length, so a path is bounded as a whole.

/// Characters of a node's, an attribute's or a function's name in a path.
const SEGMENT: usize = 128;
/// Characters of a path.
const PATH: usize = 256;

/// A part of a path.
pub(crate) fn segment(name: &str) -> String {
    name.chars().take(SEGMENT).collect()
}

/// The path of a graph within another one.
pub(crate) fn inside(path: &str, name: &str) -> String {
    if path.is_empty() { bounded(name.to_owned()) } else { bounded(format!("{path}/{name}")) }
}

/// A path without its middle, if it is too long: where it starts and where it ends tell the most.
pub(crate) fn bounded(path: String) -> String {
    const CUT: &str = "...";
    if path.len() <= PATH || path.chars().nth(PATH).is_none() {
        return path;
    }
    let start: String = path.chars().take(SEGMENT).collect();
    let end: Vec<char> = path.chars().rev().take(PATH - SEGMENT - CUT.len()).collect();
    start + CUT + &end.into_iter().rev().collect::<String>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_bounded() {
        assert_eq!(inside("", "If_0/then_branch"), "If_0/then_branch");
        assert_eq!(inside("f", "If_0/then_branch"), "f/If_0/then_branch");
        let mut path = String::new();
        for depth in 0..100 {
            path = inside(&path, &format!("{}/{depth}", segment(&"\u{e9}".repeat(1000))));
            assert!(path.chars().count() <= PATH, "{path}");
        }
        assert!(path.starts_with(&"\u{e9}".repeat(SEGMENT)) && path.ends_with("/99") && path.contains("..."), "{path}");
    }
}
