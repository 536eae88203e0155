//! What was compared.

use std::fmt;

/// Numbers of things compared; all of them were equal, else the loop ends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) rounds: u64,
    /// Casts of tensors between numbers.
    pub(crate) casts: u64,
    /// Their elements, each compared with the oracle.
    pub(crate) elements: u64,
    /// Elements of which the scalar cast was compared with the oracle too.
    pub(crate) scalar: u64,
    /// Elements that came back from another type as they were.
    pub(crate) returned: u64,
    /// Texts printed, and texts read, as the oracle has them.
    pub(crate) texts: u64,
    /// Texts that were refused, as the oracle refuses them.
    pub(crate) refused: u64,
    /// Files written and read.
    pub(crate) files: u64,
    /// Their tensors.
    pub(crate) tensors: u64,
}

impl Counts {
    pub(crate) fn add(&mut self, other: &Counts) {
        self.rounds += other.rounds;
        self.casts += other.casts;
        self.elements += other.elements;
        self.scalar += other.scalar;
        self.returned += other.returned;
        self.texts += other.texts;
        self.refused += other.refused;
        self.files += other.files;
        self.tensors += other.tensors;
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counts { rounds, casts, elements, scalar, returned, texts, refused, files, tensors } = self;
        write!(
            f,
            "{rounds} rounds: {casts} casts of {elements} elements and {scalar} scalar casts compared with the oracle, \
             {returned} elements cast there and back, {texts} texts and {refused} refused ones, {files} files with \
             {tensors} tensors written and read"
        )
    }
}
