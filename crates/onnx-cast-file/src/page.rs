//! Pages of HTML, which are written beside a job's own output.

use crate::formats::error::FormatError;
use crate::formats::existing::Existing;
use crate::io::atomic::AtomicFile;
use crate::io::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

/// How pages begin.
const BEGINNINGS: [&str; 2] = ["<!doctype html", "<html"];

/// Starts a page. It obeys the rule for outputs, and replaces nothing but another page: a name given by mistake is often
/// that of a model.
///
/// # Errors
/// As [`Existing::check_file`] and [`AtomicFile::create`], and where there is something other than a page or an empty
/// file.
pub fn create_page(path: &Path, existing: Existing) -> Result<AtomicFile, FormatError> {
    existing.check_file(path)?;
    let failed = |error| FormatError::io(path, "write", error);
    if fs::is_file(path) {
        let (mut file, mut start) = (File::open(path).map_err(failed)?, Vec::new());
        (&mut file).take(512).read_to_end(&mut start).map_err(failed)?;
        let text = String::from_utf8_lossy(&start).trim_start_matches('\u{feff}').trim_start().to_ascii_lowercase();
        if !text.is_empty() && !BEGINNINGS.iter().any(|beginning| text.starts_with(beginning)) {
            let what = "it exists, and is not a page of HTML (name another file)";
            return Err(failed(io::Error::new(io::ErrorKind::AlreadyExists, what)));
        }
    }
    Ok(AtomicFile::create(path, existing.replaces())?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn a_page_replaces_only_pages() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("x.html");
        for (there, replaced) in [
            ("", true),
            ("<!DOCTYPE html>\n<html>", true),
            ("\n <html lang=en>", true),
            ("\u{8}\n12", false),
            ("{}", false),
        ] {
            std::fs::write(&path, there).expect("a file");
            let page = create_page(&path, Existing::new(true));
            assert_eq!(page.is_ok(), replaced, "{there}");
            assert!(create_page(&path, Existing::new(false)).is_err());
        }
        let error = create_page(&path, Existing::new(true)).expect_err("not a page").to_string();
        assert!(
            error.ends_with("x.html: cannot write: it exists, and is not a page of HTML (name another file)"),
            "{error}"
        );
        std::fs::remove_file(&path).expect("removed");
        let mut page = create_page(&path, Existing::new(false)).expect("nothing is there");
        page.write_all(b"<!doctype html>").and_then(|()| page.commit().map_err(|error| error.error)).expect("written");
        create_page(&path, Existing::new(true)).expect("a page");
    }
}
