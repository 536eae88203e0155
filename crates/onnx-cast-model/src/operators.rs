//! What is known of operators beyond their schemas (`types/schemas.txt`): the one table, `operators.txt`.

use crate::tree::is_default;
use onnx_cast::DataType;
use std::collections::HashMap;
use std::sync::LazyLock;

const TABLE: &str = include_str!("operators.txt");

/// The domain of onnxruntime's own operators.
pub(crate) const MICROSOFT: &str = "com.microsoft";

/// A line of the table, which explains the words.
#[derive(Debug, Default)]
pub(crate) struct Traits {
    /// The inputs that are not data, by their names in the schemas.
    pub(crate) inputs: Vec<(&'static str, Meaning)>,
    /// Where an output's type comes from that no input binds, the first that is there.
    pub(crate) types: Vec<TypeSource>,
    /// The attribute that tells the output's type, and may tell another.
    pub(crate) told: Option<&'static str>,
    pub(crate) gives: Option<Gives>,
    pub(crate) rank: Option<Rank>,
    pub(crate) bounds: Option<Bounded>,
    pub(crate) computes: Option<Computes>,
    pub(crate) weights: Vec<Weight>,
    pub(crate) position: Option<Position>,
    pub(crate) inside: Option<Inside>,
    /// The source of the number of terms that are added up per element.
    pub(crate) terms: Option<Terms>,
    /// When it is sensitive, if not always.
    pub(crate) when: Option<When>,
    flags: Vec<Flag>,
    /// Why it is sensitive by itself.
    pub(crate) sensitive: Option<&'static str>,
}

/// Enums whose variants are words of the table.
macro_rules! words {
    ($(#[$doc:meta] $name:ident { $($variant:ident),+ })+) => {$(
        #[$doc]
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum $name { $($variant),+ }

        impl $name {
            fn read(word: &str) -> Option<Self> {
                let all = [$((stringify!($variant), Self::$variant)),+];
                all.into_iter().find(|(name, _)| name.to_ascii_lowercase() == word).map(|(_, variant)| variant)
            }
        }
    )+};
}

words! {
    /// What an input is, other than data.
    Meaning { Angle, Any, Coordinate, Exponent, Float, Limit, Mask, Pixel, State }
    /// What an operator gives of its first input.
    Gives { Sequence, Element, Optional, Present }
    /// What an operator computes of numbers.
    Computes { Sum, Total, Product, Products, Quotient, Power, Squares, Root, Logarithm, Exponential, Choice, Comparison }
    /// The largest that an operator computes on the way to a result.
    Inside { Nothing, Result, Gates, Mean, Squares, Exponentials }
    /// Computes the bounds of an output from those of the inputs, as the table explains.
    BoundRule {
        First, Inputs, Sign, Abs, Choice, Clip, Difference, Exp, Max, Min, Neg, Power, Product, Quotient, Relu, Root, Scaled,
        Sum
    }
    /// What an operator does with positions.
    Position { Given, Read, Carried, Traced }
    /// What an operator does with elements, masks and errors, or is.
    Flag { Arranges, Dequantizes, Fast, Float, Greatest, Masks, Picks, Repeats, Spectrum, Steady, Updates }
}

/// What tells a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TypeSource {
    Attribute(&'static str),
    Input(usize),
    Type(DataType),
}

/// When a sensitive operator is sensitive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum When {
    /// Before an opset, and then if the attribute `stash_type` is not float.
    Stash(i64),
    /// If an attribute is not 0.
    Attribute(&'static str),
    /// If the sum of squares may overflow.
    Squares,
    /// If an exponential may overflow.
    Exponential,
}

/// The source of the number of terms that are added up per element of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Terms {
    /// An attribute: the number itself, or the sizes of a window.
    Attribute(&'static str),
    /// The sizes of the reduced axes.
    Axes,
    /// The sizes of all axes except the first two.
    Spatial,
}

/// The rank of outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rank {
    /// The first output's is that of the first input.
    OfFirst,
    /// Every output's is.
    OfEach,
    Fixed(usize),
}

/// Bounds of the first output where it is finite.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Bounded {
    /// The min and the max.
    Between(f32, f32),
    By(BoundRule),
}

/// An input that is a weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Weight {
    pub(crate) input: usize,
    pub(crate) outputs: Axis,
    pub(crate) summed: Axis,
    /// The attribute that exchanges the two axes if it is greater than a number.
    pub(crate) exchanged: Option<(&'static str, i64)>,
}

/// An axis of a weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Axis {
    /// Counted from the last if negative.
    Number(i64),
    Attribute(&'static str),
    /// The last that is not the other one.
    Other,
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
    TABLE.lines().filter(|line| !line.starts_with('#')).filter_map(line).collect()
});

impl Traits {
    /// Whether a rule bounds the first output.
    pub(crate) fn is_bounded_by(&self, rule: BoundRule) -> bool {
        self.bounds == Some(Bounded::By(rule))
    }

    /// Of an operator; of one that has no line, none.
    pub(crate) fn of(domain: &str, op_type: &str) -> &'static Traits {
        static NONE: LazyLock<Traits> = LazyLock::new(Traits::default);
        let domain = if is_default(domain) { "ai.onnx" } else { domain };
        let table: &HashMap<(&str, &str), &'static Traits> = &TRAITS;
        table.get(&(domain, op_type)).copied().unwrap_or(&NONE)
    }

    /// Whether the line has a word.
    pub(crate) fn is(&self, flag: Flag) -> bool {
        self.flags.contains(&flag)
    }

    /// What an input is, by its name in the schemas; `None` if it is data.
    pub(crate) fn meaning(&self, input: &str) -> Option<Meaning> {
        self.inputs.iter().find(|(name, _)| *name == input).map(|&(_, meaning)| meaning)
    }

    /// Reads the words of a line. A test rules out those that do not read.
    pub(crate) fn read(line: &'static str) -> Option<Traits> {
        let mut traits = Traits::default();
        let (words, why) = line.split_once("sensitive: ").map_or((line, None), |(words, why)| (words, Some(why)));
        traits.sensitive = why;
        for word in words.split_whitespace() {
            match word.split_once('=') {
                Some(("type", value)) => traits.types = value.split('/').map(TypeSource::read).collect(),
                Some(("told", value)) => traits.told = Some(value),
                Some(("gives", value)) => traits.gives = Some(Gives::read(value)?),
                Some(("rank", "first")) => traits.rank = Some(Rank::OfFirst),
                Some(("rank", "each")) => traits.rank = Some(Rank::OfEach),
                Some(("rank", value)) => traits.rank = Some(Rank::Fixed(value.parse().ok()?)),
                Some(("bounds", value)) => traits.bounds = Some(Bounded::read(value)?),
                Some(("computes", value)) => traits.computes = Some(Computes::read(value)?),
                Some(("weights", value)) => {
                    traits.weights = value.split('/').map(Weight::read).collect::<Option<_>>()?
                }
                Some(("inside", value)) => traits.inside = Some(Inside::read(value)?),
                Some(("stash", value)) => traits.when = Some(When::Stash(value.parse().ok()?)),
                Some(("when", value)) => traits.when = Some(When::Attribute(value)),
                Some(("terms", "axes")) => traits.terms = Some(Terms::Axes),
                Some(("terms", "spatial")) => traits.terms = Some(Terms::Spatial),
                Some(("terms", value)) => traits.terms = Some(Terms::Attribute(value)),
                Some(("position", value)) => traits.position = Some(Position::read(value)?),
                Some(_) => return None,
                None if word == "overflows" => {
                    let is_square = traits.inside == Some(Inside::Squares);
                    traits.when = Some(if is_square { When::Squares } else { When::Exponential });
                }
                None => match word.split_once(':') {
                    Some((input, meaning)) => traits.inputs.push((input, Meaning::read(meaning)?)),
                    None => traits.flags.push(Flag::read(word)?),
                },
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

impl Bounded {
    fn read(text: &str) -> Option<Bounded> {
        let end = |text: &str, open| if text.is_empty() { Some(open) } else { text.parse().ok() };
        let Some((least, greatest)) = text.split_once("..") else { return BoundRule::read(text).map(Bounded::By) };
        Some(Bounded::Between(end(least, f32::NEG_INFINITY)?, end(greatest, f32::INFINITY)?))
    }
}

impl Weight {
    fn read(text: &'static str) -> Option<Weight> {
        let (text, exchanged) = match text.split_once('^') {
            Some((text, exchanged)) => {
                let (name, limit) = exchanged.split_once('>').unwrap_or((exchanged, "0"));
                (text, Some((name, limit.parse().ok()?)))
            }
            None => (text, None),
        };
        let (input, axes) = text.split_once(':')?;
        let (outputs, summed) = axes.split_once(',')?;
        let axis = |text: &'static str| match text {
            "*" => Axis::Other,
            _ => text.parse().map_or(Axis::Attribute(text), Axis::Number),
        };
        Some(Weight { input: input.parse().ok()?, outputs: axis(outputs), summed: axis(summed), exchanged })
    }
}

/// The operators whose weights are known, in the order of the alphabet.
pub(crate) fn weighted() -> Vec<&'static str> {
    let weighted = TRAITS.iter().filter(|(_, traits)| !traits.weights.is_empty());
    let mut names: Vec<&str> = weighted.map(|(&(_, name), _)| name).collect();
    names.sort_unstable();
    names
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
        let lines = TABLE.lines().filter(|line| !line.starts_with('#') && !line.starts_with("domain "));
        let unread: Vec<&str> = lines
            .clone()
            .filter(|line| Traits::read(line.split_once(' ').map_or("", |(_, words)| words)).is_none())
            .collect();
        assert!(unread.is_empty() && lines.count() == all().count(), "{unread:?}");
        for (_, name, traits) in all() {
            assert!(!matches!(traits.bounds, Some(Bounded::Between(low, high)) if low >= high), "{name}");
        }
    }

    #[test]
    fn words_of_a_line() {
        let log = Traits::of("ai.onnx", "Log");
        assert_eq!(
            (log.sensitive, log.position, log.rank),
            (Some("a logarithm"), Some(Position::Carried), Some(Rank::OfFirst))
        );
        assert_eq!(Traits::of("", "Tanh").bounds, Some(Bounded::Between(-1.0, 1.0)));
        assert_eq!(Traits::of("", "Softplus").bounds, Some(Bounded::Between(0.0, f32::INFINITY)));
        assert_eq!(Traits::of("", "Relu").bounds, Some(Bounded::By(BoundRule::Relu)));
        assert_eq!(Traits::of("", "GridSample").meaning("grid"), Some(Meaning::Pixel));
        assert_eq!(Traits::of("", "GridSample").meaning("X"), None);
        let (input, exchanged) = (1, Some(("transB", 0)));
        let by_rows = Weight { input, outputs: Axis::Number(1), summed: Axis::Number(0), exchanged };
        assert_eq!(Traits::of("", "Gemm").weights.first(), Some(&by_rows));
        let types = [TypeSource::Attribute("dtype"), TypeSource::Input(0)];
        assert_eq!(Traits::of("", "EyeLike").types, types);
        assert_eq!(Traits::of("com.microsoft", "QuantizeLinear").types, [TypeSource::Type(DataType::Uint8)]);
        assert!(Traits::of("own", "Log").sensitive.is_none());
    }
}
