//! What is known of operators beyond their schemas (`types/schemas.txt`): the one table, `operators.txt`.

use crate::tree::is_default;
use onnx_cast::DataType;
use std::collections::HashMap;
use std::sync::LazyLock;

const TABLE: &str = include_str!("operators.txt");

/// Lines of the next opset, which the tests alone know (`next_opset.rs`).
const NEXT: &str = if cfg!(test) { "domain ai.onnx\nGroupedMatMul fast" } else { "" };

/// A line of the table, which explains the words.
#[derive(Debug, Default)]
pub(crate) struct Traits {
    inputs: Vec<(&'static str, Meaning)>,
    /// Where an output's type comes from that no input binds, the first that is there.
    pub(crate) types: Vec<TypeSource>,
    /// The attribute that tells the output's type, and may tell another.
    pub(crate) told: Option<&'static str>,
    pub(crate) gives: Option<Gives>,
    pub(crate) rank: Option<Rank>,
    /// The least and the greatest output, unless that is infinite or NaN.
    pub(crate) bounds: Option<[f32; 2]>,
    pub(crate) is_fast: bool,
    pub(crate) is_float: bool,
    pub(crate) position: Option<Position>,
    pub(crate) arranges: bool,
    pub(crate) picks: bool,
    pub(crate) steady: bool,
    pub(crate) spectrum: bool,
    pub(crate) masks: bool,
    pub(crate) repeats: bool,
    /// Why it is sensitive by itself.
    pub(crate) sensitive: Option<&'static str>,
}

/// What an input is, other than data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    Angle,
    Any,
    Coordinate,
    Exponent,
    Float,
}

/// What tells a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TypeSource {
    Attribute(&'static str),
    Input(usize),
    Type(DataType),
}

/// What an operator gives of its first input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gives {
    Sequence,
    Element,
    Optional,
    Present,
}

/// The rank of outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rank {
    OfFirst,
    Fixed(usize),
}

/// What an operator does with positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Position {
    Given,
    Read,
    Carried,
    Traced,
}

/// The lines by domain and name; kept as long as the program runs, which the key of a look-up is not.
static TRAITS: LazyLock<HashMap<(&str, &str), &'static Traits>> = LazyLock::new(|| {
    let mut domain = "";
    let line = |line: &'static str| match line.strip_prefix("domain ") {
        Some(name) => {
            domain = name;
            None
        }
        None => {
            let (name, words) = line.split_once(' ').unwrap_or((line, ""));
            Some(((domain, name), &*Box::leak(Box::new(Traits::read(words)?))))
        }
    };
    TABLE.lines().chain(NEXT.lines()).filter(|line| !line.starts_with('#')).filter_map(line).collect()
});

impl Traits {
    /// Of an operator; of one that has no line, none.
    pub(crate) fn of(domain: &str, op_type: &str) -> &'static Traits {
        static NONE: LazyLock<Traits> = LazyLock::new(Traits::default);
        let domain = if is_default(domain) { "ai.onnx" } else { domain };
        let table: &HashMap<(&str, &str), &'static Traits> = &TRAITS;
        table.get(&(domain, op_type)).copied().unwrap_or(&NONE)
    }

    /// What an input is, by its name in the schemas; `None` if it is data.
    pub(crate) fn meaning(&self, input: &str) -> Option<Meaning> {
        self.inputs.iter().find(|(name, _)| *name == input).map(|&(_, meaning)| meaning)
    }

    /// The inputs that are not data.
    #[cfg(test)]
    pub(crate) fn inputs(&self) -> impl Iterator<Item = &'static str> {
        self.inputs.iter().map(|(name, _)| *name)
    }

    /// Reads the words of a line. A test rules out those that do not read.
    fn read(line: &'static str) -> Option<Traits> {
        let mut traits = Traits::default();
        let (words, why) = line.split_once("sensitive: ").map_or((line, None), |(words, why)| (words, Some(why)));
        traits.sensitive = why;
        for word in words.split_whitespace() {
            if let Some((input, meaning)) = word.split_once(':') {
                let meaning = match meaning {
                    "angle" => Meaning::Angle,
                    "any" => Meaning::Any,
                    "coordinate" => Meaning::Coordinate,
                    "exponent" => Meaning::Exponent,
                    "float" => Meaning::Float,
                    _ => return None,
                };
                traits.inputs.push((input, meaning));
                continue;
            }
            let (key, value) = word.split_once('=').unwrap_or((word, ""));
            match key {
                "type" => traits.types = value.split('/').map(TypeSource::read).collect(),
                "told" => traits.told = Some(value),
                "gives" => traits.gives = Some(Gives::read(value)?),
                "rank" if value == "first" => traits.rank = Some(Rank::OfFirst),
                "rank" => traits.rank = Some(Rank::Fixed(value.parse().ok()?)),
                "bounds" => {
                    let (low, high) = value.split_once("..")?;
                    let end = |text: &str, open| if text.is_empty() { Some(open) } else { text.parse().ok() };
                    traits.bounds = Some([end(low, f32::NEG_INFINITY)?, end(high, f32::INFINITY)?]);
                }
                "fast" => traits.is_fast = true,
                "float" => traits.is_float = true,
                "position" => traits.position = Some(Position::read(value)?),
                "arranges" => traits.arranges = true,
                "picks" => traits.picks = true,
                "steady" => traits.steady = true,
                "spectrum" => traits.spectrum = true,
                "masks" => traits.masks = true,
                "repeats" => traits.repeats = true,
                _ => return None,
            }
        }
        Some(traits)
    }
}

impl TypeSource {
    fn read(text: &'static str) -> TypeSource {
        let data_type = DataType::ALL.iter().copied().find(|data_type| data_type.name() == text);
        let input = text.parse().map(TypeSource::Input).ok();
        input.or(data_type.map(TypeSource::Type)).unwrap_or(TypeSource::Attribute(text))
    }
}

impl Gives {
    fn read(text: &str) -> Option<Gives> {
        Some(match text {
            "sequence" => Gives::Sequence,
            "element" => Gives::Element,
            "optional" => Gives::Optional,
            "present" => Gives::Present,
            _ => return None,
        })
    }
}

impl Position {
    fn read(text: &str) -> Option<Position> {
        Some(match text {
            "given" => Position::Given,
            "read" => Position::Read,
            "carried" => Position::Carried,
            "traced" => Position::Traced,
            _ => return None,
        })
    }
}

/// Every operator that has a line: its domain, its name, and what the line says.
#[cfg(test)]
pub(crate) fn all() -> impl Iterator<Item = (&'static str, &'static str, &'static Traits)> {
    TRAITS.iter().map(|(&(domain, name), traits)| (domain, name, *traits))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_reads() {
        let lines =
            TABLE.lines().chain(NEXT.lines()).filter(|line| !line.starts_with('#') && !line.starts_with("domain "));
        let unread: Vec<&str> = lines
            .clone()
            .filter(|line| Traits::read(line.split_once(' ').map_or("", |(_, words)| words)).is_none())
            .collect();
        assert!(unread.is_empty() && lines.count() == all().count(), "{unread:?}");
        for (_, name, traits) in all() {
            assert!(traits.bounds.is_none_or(|[low, high]| low < high), "{name}");
        }
    }

    #[test]
    fn words_of_a_line() {
        let log = Traits::of("ai.onnx", "Log");
        assert_eq!(
            (log.sensitive, log.position, log.rank),
            (Some("a logarithm"), Some(Position::Carried), Some(Rank::OfFirst))
        );
        assert_eq!(Traits::of("", "Tanh").bounds, Some([-1.0, 1.0]));
        assert_eq!(Traits::of("", "Relu").bounds, Some([0.0, f32::INFINITY]));
        assert_eq!(Traits::of("", "GridSample").meaning("grid"), Some(Meaning::Coordinate));
        assert_eq!(Traits::of("", "GridSample").meaning("X"), None);
        let types = [TypeSource::Attribute("dtype"), TypeSource::Input(0)];
        assert_eq!(Traits::of("", "EyeLike").types, types);
        assert_eq!(Traits::of("com.microsoft", "QuantizeLinear").types, [TypeSource::Type(DataType::Uint8)]);
        assert!(Traits::of("own", "Log").sensitive.is_none());
    }
}
