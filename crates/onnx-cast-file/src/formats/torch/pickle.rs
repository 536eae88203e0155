//! Reads a pickle into values without executing anything. Containers, strings and integers are kept; every other plain
//! value is a placeholder. `call.rs` lists the supported globals; a call of any other global becomes an opaque object,
//! which is skipped.
//!
//! Memory is bounded: values are shared by index and never copied, their number is limited, and each untrusted length
//! is checked against the file size before anything is allocated.

use super::call;
use super::values::{Id, PLAIN, Value, Values};
use crate::formats::error::{FormatError, Invalid, InvalidKind};
use crate::formats::limits::MAX_HEADER;
use crate::io::positional::{InputFile, PositionedReader};
use crate::text::Short;
use std::collections::HashMap;
use std::io::{BufReader, Read};
use std::str::FromStr;

/// Max number of values in a pickle, of entries on its stack and in its memo, and of visits while naming tensors.
pub(super) const MAX_VALUES: usize = 1 << 22;

/// Bytes of a file, read in order.
pub(super) struct Bytes<'f> {
    file: &'f InputFile,
    bytes: BufReader<PositionedReader<'f>>,
    /// Offset of the next byte.
    pub(super) at: u64,
    end: u64,
}

impl<'f> Bytes<'f> {
    /// Reads from offset `at` up to `end`, both within the file.
    pub(super) fn new(file: &'f InputFile, at: u64, end: u64) -> Self {
        Bytes { file, bytes: BufReader::with_capacity(1 << 16, PositionedReader::from(file, at)), at, end }
    }

    pub(super) fn wrong(&self, what: impl Into<String>) -> FormatError {
        let what = format!("the pickle is not valid: {} at byte {}", what.into(), self.at);
        FormatError::invalid(self.file.path(), Invalid::new(InvalidKind::Syntax, what))
    }

    fn take(&mut self, len: u64) -> Result<Vec<u8>, FormatError> {
        let left = self.end.saturating_sub(self.at);
        let bytes = usize::try_from(len).ok().filter(|_| len <= left).map(|len| vec![0; len]);
        let mut bytes = bytes.ok_or_else(|| self.wrong(format!("truncated, or longer than {MAX_HEADER} bytes,")))?;
        self.bytes.read_exact(&mut bytes).map_err(|error| FormatError::io(self.file.path(), "read", error))?;
        self.at += len;
        Ok(bytes)
    }

    /// Reads a little-endian number of `len` bytes.
    fn number(&mut self, len: u64) -> Result<u64, FormatError> {
        Ok(self.take(len)?.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte)))
    }

    /// Reads the argument of an opcode of protocol 0, which ends with a line feed.
    fn line_bytes(&mut self) -> Result<Vec<u8>, FormatError> {
        /// Max number of bytes of such an argument.
        const MAX_LINE: usize = 1 << 16;
        let mut line = Vec::new();
        loop {
            match self.number(1)? as u8 {
                b'\n' => return Ok(line),
                byte if line.len() < MAX_LINE => line.push(byte),
                _ => return Err(self.wrong(format!("a name of more than {MAX_LINE} bytes"))),
            }
        }
    }

    fn line(&mut self) -> Result<String, FormatError> {
        String::from_utf8(self.line_bytes()?).map_err(|_| self.wrong("a name that is not UTF-8"))
    }

    /// Reads the decimal number of an opcode of protocol 0.
    fn decimal<N: FromStr>(&mut self) -> Result<N, FormatError> {
        self.line()?.parse().map_err(|_| self.wrong("an invalid number"))
    }
}

/// Reads one pickle, and leaves `bytes` at the byte after its last opcode.
pub(super) fn read(bytes: &mut Bytes<'_>) -> Result<(Values, Id), FormatError> {
    let end = bytes.end;
    bytes.end = end.min(bytes.at.saturating_add(MAX_HEADER));
    let machine = Machine { bytes, values: Values::default(), stack: Vec::new(), marks: Vec::new(), weight: 0 };
    let done = machine.run()?;
    bytes.end = end;
    Ok(done)
}

struct Machine<'b, 'f> {
    bytes: &'b mut Bytes<'f>,
    values: Values,
    stack: Vec<Id>,
    /// Length of the stack at each mark.
    marks: Vec<usize>,
    /// Number of created values and copied entries, for the limit.
    weight: usize,
}

impl Machine<'_, '_> {
    fn run(mut self) -> Result<(Values, Id), FormatError> {
        let mut memo: HashMap<u64, Id> = HashMap::new();
        loop {
            if self.stack.len().max(self.marks.len()).max(memo.len()) > MAX_VALUES {
                return Err(self.too_large());
            }
            let opcode = self.bytes.number(1)? as u8;
            match opcode {
                // STOP
                b'.' => {
                    let root = self.pop()?;
                    return Ok((self.values, root));
                }
                // PROTO, FRAME
                0x80 => drop(self.bytes.take(1)?),
                0x95 => drop(self.bytes.take(8)?),
                // PUT, BINPUT, LONG_BINPUT, MEMOIZE, GET, BINGET, LONG_BINGET
                b'p' => drop(memo.insert(self.bytes.decimal()?, self.top()?)),
                b'q' => drop(memo.insert(self.bytes.number(1)?, self.top()?)),
                b'r' => drop(memo.insert(self.bytes.number(4)?, self.top()?)),
                0x94 => drop(memo.insert(memo.len() as u64, self.top()?)),
                b'g' | b'h' | b'j' => {
                    let place = match opcode {
                        b'g' => self.bytes.decimal()?,
                        b'h' => self.bytes.number(1)?,
                        _ => self.bytes.number(4)?,
                    };
                    let value = memo.get(&place).copied();
                    self.stack.push(value.ok_or_else(|| self.bytes.wrong("an unknown value of the memo"))?);
                }
                _ if self.scalar(opcode)? || self.container(opcode)? || self.object(opcode)? => {}
                _ => return Err(self.bytes.wrong(format!("opcode {opcode:#04x}, which is not read,"))),
            }
        }
    }

    /// Pushes a number, a string or another plain value; `false` for any other opcode.
    fn scalar(&mut self, opcode: u8) -> Result<bool, FormatError> {
        match opcode {
            // NONE, NEWTRUE, NEWFALSE
            b'N' | 0x88 | 0x89 => self.stack.push(PLAIN),
            // FLOAT, BINFLOAT
            b'F' => {
                self.bytes.line()?;
                self.stack.push(PLAIN);
            }
            b'G' => self.skip(8)?,
            // INT, which also has the bools 00 and 01, and LONG
            b'I' | b'L' => {
                let line = self.bytes.line()?;
                let number = line.strip_suffix('L').unwrap_or(&line);
                let is_bool = opcode == b'I' && matches!(number, "00" | "01");
                let value = number.parse().ok().filter(|_| !is_bool);
                self.push(value.map_or(Value::Plain, Value::Int))?;
            }
            // STRING and UNICODE
            b'S' => {
                let line = self.bytes.line()?;
                let text = line.get(1..line.len().saturating_sub(1)).filter(|text| !text.contains('\\'));
                self.push(text.map_or(Value::Plain, |text| Value::Text(text.to_owned())))?;
            }
            b'V' => {
                let text = unescaped(&self.bytes.line_bytes()?);
                self.push(text.map_or(Value::Plain, Value::Text))?;
            }
            // BININT, BININT1, BININT2
            b'J' => {
                let value = self.bytes.number(4)? as u32;
                self.push(Value::Int(i64::from(value.cast_signed())))?;
            }
            b'K' => self.int(1)?,
            b'M' => self.int(2)?,
            // LONG1, LONG4
            0x8a => self.long(1)?,
            0x8b => self.long(4)?,
            // BINUNICODE, SHORT_BINUNICODE, BINUNICODE8, and the strings of Python 2
            b'X' | b'T' => self.string(4)?,
            0x8c | b'U' => self.string(1)?,
            0x8d => self.string(8)?,
            // BINBYTES, SHORT_BINBYTES, BINBYTES8, BYTEARRAY8
            b'B' | b'C' | 0x8e | 0x96 => {
                let len = self.bytes.number(if opcode == b'B' {
                    4
                } else if opcode == b'C' {
                    1
                } else {
                    8
                })?;
                self.skip(len)?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Creates or fills a container, or rearranges the stack; `false` for any other opcode.
    fn container(&mut self, opcode: u8) -> Result<bool, FormatError> {
        match opcode {
            // MARK, POP, POP_MARK, DUP
            b'(' => self.marks.push(self.stack.len()),
            b'0' if self.marks.last() == Some(&self.stack.len()) => drop(self.marks.pop()),
            b'0' => drop(self.pop()?),
            b'1' => drop(self.pop_marked()?),
            b'2' => {
                let top = self.top()?;
                self.stack.push(top);
            }
            // EMPTY_DICT, EMPTY_LIST, EMPTY_SET, EMPTY_TUPLE
            b'}' => self.push(Value::Dict(Vec::new()))?,
            b']' | 0x8f => self.push(Value::List(Vec::new()))?,
            b')' => self.push(Value::Tuple(Vec::new()))?,
            // TUPLE1, TUPLE2, TUPLE3, TUPLE
            0x85..=0x87 => {
                let mut items = vec![PLAIN; usize::from(opcode - 0x84)];
                for item in items.iter_mut().rev() {
                    *item = self.pop()?;
                }
                self.push(Value::Tuple(items))?;
            }
            b't' => {
                let items = self.pop_marked()?;
                self.push(Value::Tuple(items))?;
            }
            // LIST, FROZENSET
            b'l' | 0x91 => {
                let items = self.pop_marked()?;
                self.push(Value::List(items))?;
            }
            // DICT
            b'd' => {
                let items = self.pop_marked()?;
                self.push(Value::Dict(Vec::new()))?;
                self.set(items.as_chunks().0)?;
            }
            // APPEND, APPENDS, ADDITEMS
            b'a' => {
                let item = self.pop()?;
                self.extend(&[item])?;
            }
            b'e' | 0x90 => {
                let items = self.pop_marked()?;
                self.extend(&items)?;
            }
            // SETITEM, SETITEMS
            b's' => {
                let (value, key) = (self.pop()?, self.pop()?);
                self.set(&[[key, value]])?;
            }
            b'u' => {
                let items = self.pop_marked()?;
                self.set(items.as_chunks().0)?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Pushes a global, or the result of calling one; `false` for any other opcode.
    fn object(&mut self, opcode: u8) -> Result<bool, FormatError> {
        match opcode {
            // GLOBAL, STACK_GLOBAL
            b'c' => {
                let (module, name) = (self.bytes.line()?, self.bytes.line()?);
                self.push(Value::Global(format!("{module}.{name}")))?;
            }
            0x93 => {
                let (name, module) = (self.pop()?, self.pop()?);
                let names = self.values.text(module).zip(self.values.text(name));
                let (module, name) = names.ok_or_else(|| self.bytes.wrong("a global without a name"))?;
                self.push(Value::Global(format!("{}.{}", Short(module), Short(name))))?;
            }
            // REDUCE, NEWOBJ, and NEWOBJ_EX, whose keywords are ignored because only opaque objects have them
            b'R' | 0x81 | 0x92 => {
                if opcode == 0x92 {
                    self.pop()?;
                }
                let (arguments, class) = (self.pop()?, self.pop()?);
                self.push_called(call::call(&self.values, class, arguments))?;
            }
            // INST, OBJ
            b'i' => {
                let class = format!("{}.{}", self.bytes.line()?, self.bytes.line()?);
                let arguments = self.pop_marked()?;
                let (class, arguments) = (self.add(Value::Global(class))?, self.add(Value::Tuple(arguments))?);
                self.push_called(call::call(&self.values, class, arguments))?;
            }
            b'o' => {
                let mut items = self.pop_marked()?.into_iter();
                let class = items.next().ok_or_else(|| self.bytes.wrong("an object without a class"))?;
                let arguments = self.add(Value::Tuple(items.collect()))?;
                self.push_called(call::call(&self.values, class, arguments))?;
            }
            // BINPERSID
            b'Q' => {
                let id = self.pop()?;
                self.push_called(call::persistent(&self.values, id))?;
            }
            // BUILD
            b'b' => {
                let (state, object) = (self.pop()?, self.top()?);
                if let Some(Value::Object(_, known)) = self.values.get_mut(object) {
                    *known = Some(state);
                }
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn too_large(&self) -> FormatError {
        self.bytes.wrong(format!("more than {MAX_VALUES} values"))
    }

    fn add(&mut self, value: Value) -> Result<Id, FormatError> {
        self.weight += 1;
        if self.weight > MAX_VALUES {
            return Err(self.too_large());
        }
        Ok(self.values.add(value))
    }

    fn push(&mut self, value: Value) -> Result<(), FormatError> {
        let id = self.add(value)?;
        self.stack.push(id);
        Ok(())
    }

    /// Pushes the result of a call.
    fn push_called(&mut self, called: Result<call::Called, &'static str>) -> Result<(), FormatError> {
        match called.map_err(|what| self.bytes.wrong(what))? {
            call::Called::Known(id) => self.stack.push(id),
            call::Called::New(value) => {
                if let Value::Dict(pairs) = &value {
                    self.weight += pairs.len();
                }
                self.push(value)?;
            }
        }
        Ok(())
    }

    fn top(&self) -> Result<Id, FormatError> {
        let known = self.stack.len() > self.marks.last().copied().unwrap_or(0);
        self.stack.last().copied().filter(|_| known).ok_or_else(|| self.bytes.wrong("an empty stack"))
    }

    fn pop(&mut self) -> Result<Id, FormatError> {
        let top = self.top()?;
        self.stack.pop();
        Ok(top)
    }

    fn pop_marked(&mut self) -> Result<Vec<Id>, FormatError> {
        let mark = self.marks.pop().ok_or_else(|| self.bytes.wrong("a missing mark"))?;
        // Popping stops at a mark, so the stack is at least as long as it was at the mark.
        Ok(self.stack.split_off(mark.min(self.stack.len())))
    }

    fn int(&mut self, bytes: u64) -> Result<(), FormatError> {
        let value = self.bytes.number(bytes)?;
        self.push(Value::Int(value as i64))
    }

    /// Reads an integer of any size. Tensors never need more than 64 bits, so a larger one becomes a placeholder.
    fn long(&mut self, bytes: u64) -> Result<(), FormatError> {
        let len = self.bytes.number(bytes)?;
        let digits = self.bytes.take(len)?;
        let fill = if digits.last().is_some_and(|byte| byte >> 7 == 1) { 0xff } else { 0 };
        let mut all = [fill; 8];
        match all.get_mut(..digits.len()) {
            Some(low) => {
                low.copy_from_slice(&digits);
                self.push(Value::Int(i64::from_le_bytes(all)))
            }
            None => self.push(Value::Plain),
        }
    }

    fn string(&mut self, bytes: u64) -> Result<(), FormatError> {
        let len = self.bytes.number(bytes)?;
        let text = String::from_utf8(self.bytes.take(len)?);
        self.push(text.map_or(Value::Plain, Value::Text))
    }

    /// Skips the bytes of a plain value.
    fn skip(&mut self, len: u64) -> Result<(), FormatError> {
        self.bytes.take(len)?;
        self.stack.push(PLAIN);
        Ok(())
    }

    /// Appends items to the list on top of the stack. An opaque object may be a subclass of list; its items are
    /// dropped.
    fn extend(&mut self, items: &[Id]) -> Result<(), FormatError> {
        let list = self.top()?;
        if let Some(Value::List(all)) = self.values.get_mut(list) {
            all.extend_from_slice(items);
        }
        Ok(())
    }

    /// Sets items of the dictionary on top of the stack.
    fn set(&mut self, items: &[[Id; 2]]) -> Result<(), FormatError> {
        let dict = self.top()?;
        if let Some(Value::Dict(all)) = self.values.get_mut(dict) {
            all.extend(items.iter().map(|&[key, value]| (key, value)));
        }
        Ok(())
    }
}

/// Decodes a string of protocol 0: characters of Latin-1, `\u` with four and `\U` with eight hexadecimal digits; `None`
/// if an escape is invalid.
fn unescaped(text: &[u8]) -> Option<String> {
    let mut characters = text.iter().map(|&byte| char::from(byte));
    let mut out = String::new();
    while let Some(character) = characters.next() {
        out.push(match character {
            '\\' => {
                let digits = match characters.next()? {
                    'u' => 4,
                    'U' => 8,
                    _ => return None,
                };
                let digits: String = characters.by_ref().take(digits).collect();
                char::from_u32(u32::from_str_radix(&digits, 16).ok()?)?
            }
            character => character,
        });
    }
    Some(out)
}
