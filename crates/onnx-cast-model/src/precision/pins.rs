//! What decides the type of a variable before any Cast is counted: the reasons for which it stays float or becomes
//! narrow. Of two for one variable, the one that binds more counts.

use std::collections::HashMap;
use std::fmt;

/// The place of a type variable.
pub(crate) type Variable = usize;

/// Why a variable stays float, or becomes narrow. In the order of how much they bind: what cannot be otherwise, what
/// the caller said, what would be wrong, what would lose, what gains.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Reason {
    /// The operator does not take the narrow type here, but from a version on, if there is one.
    Schema { since: Option<i64> },
    /// An operator that is not known.
    Unknown,
    /// A type that the operator, or an attribute, fixes.
    Fixed,
    /// No Cast to the narrow type at the opset in force.
    NoCast,
    /// An input or output of the model that keeps its type, or has the one that was asked for.
    Interface,
    /// What the caller wants to keep.
    Kept(String),
    /// What the caller wants narrow.
    Wanted(String),
    /// Shapes, indices, positions, lengths and times.
    Position,
    /// A product that runtimes compute with the quantized codes that a DequantizeLinear before it reads.
    Fused,
    /// A magnitude that was recorded, and would overflow.
    Range(f32),
    /// A constant that would overflow, or most of which would vanish.
    Lost(String),
    /// An operator that loses digits, by what it is part of.
    Sensitive(&'static str),
    /// A value that a node needs in more digits or more range, by what it is and the node.
    Needed { what: &'static str, by: String },
    /// An operator that is fast in a narrow type.
    Fast,
    /// The target type can represent every value of the source type.
    Exact,
}

impl Reason {
    fn rank(&self) -> usize {
        match self {
            Reason::Schema { .. } | Reason::Unknown | Reason::Fixed | Reason::NoCast => 0,
            Reason::Interface => 1,
            Reason::Kept(_) | Reason::Wanted(_) => 2,
            Reason::Position | Reason::Fused | Reason::Range(_) | Reason::Lost(_) => 3,
            Reason::Sensitive(_) | Reason::Needed { .. } => 4,
            Reason::Fast | Reason::Exact => 5,
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Schema { since: Some(since) } => write!(f, "its operator takes the type from version {since} on"),
            Reason::Schema { since: None } => f.write_str("its operator never takes the type"),
            Reason::Unknown => f.write_str("its operator is unknown"),
            Reason::Fixed => f.write_str("its operator or an attribute fixes the type"),
            Reason::NoCast => f.write_str("there is no Cast to the type at this opset"),
            Reason::Interface => f.write_str("an input or output of the model"),
            Reason::Kept(pattern) => write!(f, "kept by the pattern {pattern}"),
            Reason::Wanted(pattern) => write!(f, "made narrow by the pattern {pattern}"),
            Reason::Position => f.write_str("computes positions, lengths, shapes or indices"),
            Reason::Fused => f.write_str("runtimes compute it with the codes of the DequantizeLinear before it"),
            Reason::Range(magnitude) => write!(f, "values up to {magnitude:e} were recorded"),
            Reason::Lost(name) => write!(f, "the constant `{name}` would overflow or vanish"),
            Reason::Sensitive(what) => write!(f, "sensitive: {what}"),
            Reason::Needed { what, by } => write!(f, "sensitive: {what} of {by}"),
            Reason::Fast => f.write_str("fast in the type"),
            Reason::Exact => f.write_str("the type holds all its values"),
        }
    }
}

/// The variables that are decided.
#[derive(Debug, Default)]
pub(crate) struct Pins {
    pins: HashMap<Variable, Pin>,
}

/// A decision.
#[derive(Clone, Debug)]
pub(crate) struct Pin {
    pub(crate) low: bool,
    pub(crate) reason: Reason,
}

impl Pins {
    /// A variable stays float.
    pub(crate) fn wide(&mut self, variable: Variable, reason: Reason) {
        self.pin(variable, Pin { low: false, reason });
    }

    /// A variable becomes narrow.
    pub(crate) fn low(&mut self, variable: Variable, reason: Reason) {
        self.pin(variable, Pin { low: true, reason });
    }

    fn pin(&mut self, variable: Variable, pin: Pin) {
        let stronger = |known: &Pin| (known.reason.rank(), known.low) > (pin.reason.rank(), pin.low);
        if self.pins.get(&variable).is_none_or(stronger) {
            self.pins.insert(variable, pin);
        }
    }

    /// The pins of the variables that stand for those that are united.
    pub(crate) fn by_root(&self, root: impl Fn(Variable) -> Variable) -> Pins {
        let mut pins: Vec<_> = self.pins.iter().collect();
        pins.sort_unstable_by_key(|(variable, _)| **variable);
        let mut by_root = Pins::default();
        pins.into_iter().for_each(|(&variable, pin)| by_root.pin(root(variable), pin.clone()));
        by_root
    }

    /// The variables that no request can make narrow.
    pub(crate) fn impossible(&self) -> impl Iterator<Item = Variable> {
        let pins = self.pins.iter().filter(|(_, pin)| !pin.low && pin.reason.rank() == 0);
        pins.map(|(&variable, _)| variable)
    }

    pub(crate) fn get(&self, variable: Variable) -> Option<&Pin> {
        self.pins.get(&variable)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Variable, &Pin)> {
        self.pins.iter().map(|(&variable, pin)| (variable, pin))
    }
}
