//! What the libraries are called on each system: as cargo builds them, and as the archive has them.

/// How a program is linked with the shared library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Link {
    /// By a second name of the library, without the major version of its ABI.
    Alias,
    /// By an import library that `dlltool` makes, in the format of GNU's tools.
    DllTool,
    /// By an import library that `lib` makes, in Microsoft's format.
    Lib,
}

/// The names of the libraries. Those that are laid out are paths in the archive.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Names {
    pub(super) built_shared: &'static str,
    pub(super) built_static: &'static str,
    /// What a program loads.
    pub(super) shared: &'static str,
    /// What a linker takes for the shared library.
    pub(super) linked: &'static str,
    pub(super) archive: &'static str,
    pub(super) link: Link,
}

const ELF: Names = Names {
    built_shared: "libonnx_cast_capi.so",
    built_static: "libonnx_cast_capi.a",
    shared: "lib/libonnx_cast.so.0",
    linked: "lib/libonnx_cast.so",
    archive: "lib/libonnx_cast.a",
    link: Link::Alias,
};

/// `build.rs` of the crate sets the install name `@rpath/libonnx_cast.0.dylib`.
const APPLE: Names = Names {
    built_shared: "libonnx_cast_capi.dylib",
    shared: "lib/libonnx_cast.0.dylib",
    linked: "lib/libonnx_cast.dylib",
    ..ELF
};

const WINDOWS_GNU: Names = Names {
    built_shared: "onnx_cast_capi.dll",
    shared: "bin/onnx_cast.dll",
    linked: "lib/libonnx_cast.dll.a",
    link: Link::DllTool,
    ..ELF
};

/// A static and an import library end alike here, so the former has another stem.
const WINDOWS_MSVC: Names = Names {
    built_static: "onnx_cast_capi.lib",
    linked: "lib/onnx_cast.lib",
    archive: "lib/onnx_cast_static.lib",
    link: Link::Lib,
    ..WINDOWS_GNU
};

impl Names {
    /// The names for a target; none where the archive has no layout for it.
    pub(super) fn of(triple: &str) -> Option<Names> {
        let has = |part: &str| triple.split('-').any(|of_triple| of_triple.starts_with(part));
        match () {
            () if has("windows") && has("msvc") => Some(WINDOWS_MSVC),
            () if has("windows") => Some(WINDOWS_GNU),
            () if has("apple") => Some(APPLE),
            () if ["linux", "freebsd", "netbsd", "openbsd", "dragonfly"].into_iter().any(has) => Some(ELF),
            () => None,
        }
    }

    /// The last part of a path of the archive.
    pub(super) fn file(path: &str) -> &str {
        path.rsplit_once('/').map_or(path, |(_, file)| file)
    }

    /// The lines of the CMake file that say where the shared library is.
    pub(super) fn cmake_properties(&self) -> String {
        let location = format!("IMPORTED_LOCATION \"${{_onnx_cast_prefix}}/{}\"", self.shared);
        match self.link {
            Link::Alias => location,
            _ => format!("{location}\n    IMPORTED_IMPLIB \"${{_onnx_cast_prefix}}/{}\"", self.linked),
        }
    }
}

/// The functions that a header declares, for an import library. Each declaration begins in the first column, with what
/// the function returns.
pub(super) fn functions(header: &str) -> Vec<&str> {
    let declared = |line: &'_ str| line.starts_with(|first: char| first.is_ascii_alphabetic());
    let mut names: Vec<&str> = header.lines().filter(|line| declared(line)).filter_map(function).collect();
    names.sort_unstable();
    names
}

/// The function that a line declares.
fn function(line: &str) -> Option<&str> {
    let (before, _) = line.split_once('(')?;
    let name = before.rsplit([' ', '*']).next()?;
    (name.starts_with("onnx_cast_") && !before.contains("typedef")).then_some(name)
}

/// A module definition, from which `dlltool` and `lib` make the import library of a DLL of that name.
pub(super) fn definition(dll: &str, functions: &[&str]) -> String {
    format!("LIBRARY {dll}\nEXPORTS\n{}", functions.iter().map(|name| format!("  {name}\n")).collect::<String>())
}

/// What the linker of a target takes beside the static library, as pkg-config and as CMake list it. CMake takes an
/// option of Microsoft's linker for a path where it begins with a slash.
pub(super) fn private_libraries(notes: &str) -> Option<(String, String)> {
    let (_, list) = notes.lines().find_map(|line| line.split_once("native-static-libs: "))?;
    let words: Vec<String> = list.split_whitespace().map(dashed).collect();
    Some((words.join(" "), words.join(";")))
}

fn dashed(word: &str) -> String {
    word.strip_prefix('/').filter(|option| option.contains(':')).map_or(word.to_owned(), |option| format!("-{option}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = include_str!("../../../crates/onnx-cast-capi/include/onnx_cast.h");

    #[test]
    fn libraries_are_named_as_the_system_names_them() {
        let (so, a) = ("libonnx_cast_capi.so", "libonnx_cast_capi.a");
        let (dll, archive) = ("onnx_cast_capi.dll", "lib/libonnx_cast.a");
        let elf = [so, a, "lib/libonnx_cast.so.0", "lib/libonnx_cast.so", archive];
        let gnu = [dll, a, "bin/onnx_cast.dll", "lib/libonnx_cast.dll.a", archive];
        let apple = ["libonnx_cast_capi.dylib", a, "lib/libonnx_cast.0.dylib", "lib/libonnx_cast.dylib", archive];
        let msvc = [dll, "onnx_cast_capi.lib", "bin/onnx_cast.dll", "lib/onnx_cast.lib", "lib/onnx_cast_static.lib"];
        for (triple, want) in [
            ("x86_64-unknown-linux-gnu", elf),
            ("aarch64-unknown-linux-musl", elf),
            ("x86_64-unknown-freebsd", elf),
            ("aarch64-apple-darwin", apple),
            ("x86_64-pc-windows-gnu", gnu),
            ("x86_64-pc-windows-gnullvm", gnu),
            ("aarch64-pc-windows-msvc", msvc),
        ] {
            let names = Names::of(triple).unwrap_or_else(|| panic!("{triple} has no names"));
            let Names { built_shared, built_static, shared, linked, archive, .. } = names;
            assert_eq!([built_shared, built_static, shared, linked, archive], want, "{triple}");
        }
        for triple in ["wasm32-unknown-unknown", "x86_64-unknown-none", "x86_64-unknown-uefi", ""] {
            assert_eq!(Names::of(triple), None, "{triple}");
        }
    }

    #[test]
    fn cmake_finds_the_import_library_of_a_dll() {
        assert_eq!(ELF.cmake_properties(), "IMPORTED_LOCATION \"${_onnx_cast_prefix}/lib/libonnx_cast.so.0\"");
        assert_eq!(
            WINDOWS_MSVC.cmake_properties(),
            "IMPORTED_LOCATION \"${_onnx_cast_prefix}/bin/onnx_cast.dll\"\n    \
             IMPORTED_IMPLIB \"${_onnx_cast_prefix}/lib/onnx_cast.lib\""
        );
    }

    #[test]
    fn an_import_library_has_the_functions_of_the_header() {
        let names = functions(HEADER);
        for name in ["onnx_cast_cast", "onnx_cast_last_error", "onnx_cast_plan_free", "onnx_cast_version"] {
            assert!(names.contains(&name), "no {name} in {names:?}");
        }
        let definition = definition("onnx_cast.dll", &["onnx_cast_a", "onnx_cast_b"]);
        assert_eq!(definition, "LIBRARY onnx_cast.dll\nEXPORTS\n  onnx_cast_a\n  onnx_cast_b\n");
    }

    #[test]
    fn libraries_of_the_system_are_listed_for_pkg_config_and_cmake() {
        let of = |notes| private_libraries(notes).expect("a list");
        let notes = "note: link against these\nnote: native-static-libs: -lgcc_s -lc\n";
        assert_eq!(of(notes), ("-lgcc_s -lc".to_owned(), "-lgcc_s;-lc".to_owned()));
        let notes = "note: native-static-libs: kernel32.lib /defaultlib:msvcrt";
        assert_eq!(of(notes).1, "kernel32.lib;-defaultlib:msvcrt");
        assert_eq!(private_libraries("nothing"), None);
    }
}
