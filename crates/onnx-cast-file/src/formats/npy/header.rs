//! The header of a `.npy` file: the dictionary that it is, a Python literal.

use super::{MAX_RANK, invalid_header};
use crate::formats::error::Invalid;

/// What the dictionary tells.
pub(super) struct Header {
    /// The text of `descr`: a string, or the literal of a structured type.
    pub(super) descr: String,
    pub(super) fortran_order: bool,
    pub(super) shape: Vec<usize>,
}

impl Header {
    pub(super) fn parse(text: &[u8]) -> Result<Header, Invalid> {
        let mut text = Literal { left: text };
        let (mut descr, mut fortran_order, mut shape) = (None, None, None);
        text.expect(b'{', "no dictionary")?;
        while !text.take(b'}') {
            let key = text.string()?;
            text.expect(b':', "no `:` after a key")?;
            let twice = match key {
                b"descr" => descr.replace(text.descr()?).is_some(),
                b"fortran_order" => fortran_order.replace(text.truth()?).is_some(),
                b"shape" => shape.replace(text.shape()?).is_some(),
                _ => return Err(invalid_header("a key other than descr, fortran_order and shape")),
            };
            if twice {
                return Err(invalid_header("a key twice"));
            }
            if !text.take(b',') {
                text.expect(b'}', "the dictionary does not end")?;
                break;
            }
        }
        if text.peek().is_some() {
            return Err(invalid_header("text after the dictionary"));
        }
        Ok(Header {
            descr: descr.ok_or_else(|| invalid_header("no descr"))?,
            fortran_order: fortran_order.ok_or_else(|| invalid_header("no fortran_order"))?,
            shape: shape.ok_or_else(|| invalid_header("no shape"))?,
        })
    }
}

/// A reader of the Python literals that a header may hold.
struct Literal<'a> {
    left: &'a [u8],
}

impl<'a> Literal<'a> {
    fn peek(&mut self) -> Option<u8> {
        self.left = self.left.trim_ascii_start();
        self.left.first().copied()
    }

    fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        if found {
            self.left = &self.left[1..];
        }
        found
    }

    fn expect(&mut self, byte: u8, what: &'static str) -> Result<(), Invalid> {
        if self.take(byte) { Ok(()) } else { Err(invalid_header(what)) }
    }

    fn string(&mut self) -> Result<&'a [u8], Invalid> {
        let error = || invalid_header("a string is missing or does not end");
        let Some(quote @ (b'\'' | b'"')) = self.peek() else { return Err(error()) };
        let rest = &self.left[1..];
        let end = rest.iter().position(|&byte| byte == quote).ok_or_else(error)?;
        let string = &rest[..end];
        if string.contains(&b'\\') {
            return Err(invalid_header("a string with a backslash"));
        }
        self.left = &rest[end + 1..];
        Ok(string)
    }

    fn descr(&mut self) -> Result<String, Invalid> {
        match self.peek() {
            Some(b'[' | b'(' | b'{') => Ok(String::from_utf8_lossy(self.nested()?).into_owned()),
            _ => Ok(String::from_utf8_lossy(self.string()?).into_owned()),
        }
    }

    /// Skips a list, tuple or dictionary, and returns its text.
    fn nested(&mut self) -> Result<&'a [u8], Invalid> {
        let start = self.left;
        let mut open = 0usize;
        loop {
            match self.peek() {
                None => return Err(invalid_header("a structured type does not end")),
                Some(b'\'' | b'"') => drop(self.string()?),
                Some(byte) => {
                    self.left = &self.left[1..];
                    match byte {
                        b'[' | b'(' | b'{' => open += 1,
                        b']' | b')' | b'}' => open -= 1,
                        _ => {}
                    }
                }
            }
            if open == 0 {
                return Ok(&start[..start.len() - self.left.len()]);
            }
        }
    }

    fn truth(&mut self) -> Result<bool, Invalid> {
        self.peek();
        for (word, value) in [("True", true), ("False", false)] {
            if let Some(rest) = self.left.strip_prefix(word.as_bytes()) {
                self.left = rest;
                return Ok(value);
            }
        }
        Err(invalid_header("fortran_order is not True or False"))
    }

    fn shape(&mut self) -> Result<Vec<usize>, Invalid> {
        let mut shape = Vec::new();
        self.expect(b'(', "shape is not a tuple")?;
        while !self.take(b')') {
            if shape.len() == MAX_RANK {
                return Err(invalid_header("more than 64 dimensions"));
            }
            shape.push(self.dim()?);
            if !self.take(b',') {
                // One number in parentheses is not a tuple in Python, but what is meant is clear.
                self.expect(b')', "shape does not end")?;
                break;
            }
        }
        Ok(shape)
    }

    fn dim(&mut self) -> Result<usize, Invalid> {
        self.peek();
        let digits = self.left.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (number, rest) = self.left.split_at(digits);
        let number = std::str::from_utf8(number).ok().and_then(|number| number.parse().ok());
        let number = number.ok_or_else(|| invalid_header("a dimension is not a number of this machine's size"))?;
        // Python 2 wrote its long integers as `3L`.
        self.left = rest.strip_prefix(b"L").unwrap_or(rest);
        Ok(number)
    }
}
