//! The exact oracle and the input generators.
