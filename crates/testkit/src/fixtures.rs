//! Files that other packages wrote, as lines of a table: `NAME HEX`.

/// The bytes of hexadecimal digits; `-` stands for none.
///
/// # Panics
/// Where the text is anything else.
pub fn unhex(text: &str) -> Vec<u8> {
    if text == "-" {
        return Vec::new();
    }
    let digit = |byte: u8| (byte as char).to_digit(16).expect("a hex digit") as u8;
    text.as_bytes().chunks(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect()
}

/// The names and the bytes of a table.
pub fn files(table: &'static str) -> Vec<(&'static str, Vec<u8>)> {
    table.lines().filter_map(|line| line.split_once(' ')).map(|(name, hex)| (name, unhex(hex))).collect()
}

/// The bytes of a name.
///
/// # Panics
/// Where the table has no such name.
pub fn file(table: &'static str, name: &str) -> Vec<u8> {
    files(table).into_iter().find(|(known, _)| *known == name).unwrap_or_else(|| panic!("no fixture {name}")).1
}

/// A text as systems other than Windows print it: slashes in paths, and their words for a file that does not exist.
pub fn as_on_unix(text: &str) -> String {
    if !cfg!(windows) {
        return text.to_owned();
    }
    let absent = std::io::Error::from_raw_os_error(2).to_string();
    // Where texts are escaped, a backslash is two.
    text.replace("\\\\", "/").replace('\\', "/").replace(&absent, "No such file or directory (os error 2)")
}

/// The text of an error as [`as_on_unix`], with paths relative to `folder`.
pub fn text_without(folder: &std::path::Path, error: impl ToString) -> String {
    as_on_unix(&error.to_string()).replace(&as_on_unix(&format!("{}/", folder.display())), "")
}
