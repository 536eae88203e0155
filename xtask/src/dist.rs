//! `cargo xtask dist`: what a program in C or C++ needs, in a folder and a tarball: the libraries, the header, files
//! for pkg-config and CMake, the guide, the examples and the licences, ours and those of the crates that are linked in.
//! (cargo-c makes the libraries, their names and the file for pkg-config, but no files for CMake with what the static
//! library needs, no licences, no guide and no tarball.)

mod names;

use clap::Args;
use names::{Link, Names};
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const PACKAGE: &str = "onnx-cast-capi";
const VERSION: &str = env!("CARGO_PKG_VERSION");
const TEMPLATES: [(&str, &str); 3] = [
    ("lib/pkgconfig/onnx_cast.pc", include_str!("../../crates/onnx-cast-capi/dist/onnx_cast.pc.in")),
    (
        "lib/cmake/onnx_cast/onnx_castConfig.cmake",
        include_str!("../../crates/onnx-cast-capi/dist/onnx_castConfig.cmake.in"),
    ),
    (
        "lib/cmake/onnx_cast/onnx_castConfigVersion.cmake",
        include_str!("../../crates/onnx-cast-capi/dist/onnx_castConfigVersion.cmake.in"),
    ),
];

/// Build the C interface and lay it out for programs in C and C++
///
/// Writes a folder, whose path it prints, and a tarball beside it: libraries, header, files for pkg-config and CMake,
/// examples, licences.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Build for this target [default: the host]
    #[arg(long, value_name = "TRIPLE")]
    target: Option<String>,
    /// The folder to write to [default: target/dist]
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
}

/// Lays everything out and packs it. Prints the folder.
pub(crate) fn run(options: Options) -> Result<()> {
    let Options { target, out } = options;
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let cargo = Cargo { root: root.clone(), target };
    let built = cargo.metadata()?;
    let triple = cargo.triple()?;
    let names = Names::of(&triple).ok_or_else(|| {
        format!("{triple} does not have the layout that dist makes (want Linux, macOS, Windows or a BSD)")
    })?;
    let name = format!("onnx-cast-{VERSION}-{triple}");
    let parent = out.unwrap_or_else(|| built.target_directory.join("dist"));
    let folder = parent.join(&name);
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }

    let mut artifacts = built.target_directory;
    artifacts.extend(cargo.target.as_ref());
    artifacts.push("release");
    let header = root.join("crates/onnx-cast-capi/include/onnx_cast.h");
    cargo.build("cdylib", &["-C", "strip=symbols"])?;
    copy(&artifacts.join(names.built_shared), &folder.join(names.shared))?;
    link(&triple, &names, &fs::read_to_string(&header)?, &folder)?;
    let notes = cargo.build("staticlib", &["--print", "native-static-libs"])?;
    copy(&artifacts.join(names.built_static), &folder.join(names.archive))?;
    without_debug(&names, &folder.join(names.archive))?;

    let private = names::private_libraries(&notes).ok_or("rustc does not say what the static library needs")?;
    let minor = VERSION.rsplit_once('.').map_or(VERSION, |(minor, _)| minor);
    for (place, template) in TEMPLATES {
        let private = if place.ends_with(".cmake") { &private.1 } else { &private.0 };
        let text = template.replace("@VERSION@", VERSION).replace("@MINOR_VERSION@", minor);
        let text = text.replace("@SHARED@", &names.cmake_properties()).replace("@STATIC@", names.archive);
        write(&folder.join(place), &text.replace("@PRIVATE_LIBS@", private))?;
    }

    copy(&header, &folder.join("include/onnx_cast.h"))?;
    let documents = folder.join("share/doc/onnx-cast");
    copy(&root.join("docs/c.md"), &documents.join("c.md"))?;
    copy_all(&root.join("examples/c"), &documents.join("examples"), |_| true)?;
    copy_all(&root, &documents, |name| name.starts_with("LICENSE-"))?;
    for (crate_name, sources) in built.dependencies {
        let is_licence = |name: &str| {
            let name = name.to_uppercase();
            ["LICENSE", "LICENCE", "COPYING", "NOTICE"].iter().any(|start| name.starts_with(start))
        };
        copy_all(&sources, &documents.join("licences").join(&crate_name), is_licence)?;
    }

    let tarball = parent.join(format!("{name}.tar.gz"));
    let mut tar = Command::new("tar");
    tar.arg("-C").arg(&parent).arg("-czf").arg(&tarball).arg(&name);
    output(&mut tar)?;
    eprintln!("packed {}", tarball.display());
    println!("{}", folder.display());
    Ok(())
}

/// The cargo that runs this, in the repository.
struct Cargo {
    root: PathBuf,
    target: Option<String>,
}

/// What cargo says of the workspace.
struct Built {
    target_directory: PathBuf,
    /// The crates that are linked into the library, with where their sources are.
    dependencies: Vec<(String, PathBuf)>,
}

impl Cargo {
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO"));
        command.current_dir(&self.root).args(arguments).arg("--locked");
        command
    }

    fn target(&self) -> impl Iterator<Item = &str> {
        self.target.iter().flat_map(|target| ["--target", target])
    }

    /// Builds one kind of library. Returns what the compiler noted.
    fn build(&self, kind: &str, rustc: &[&str]) -> Result<String> {
        let mut command = self.command(&["rustc", "--release", "--lib", "--package", PACKAGE, "--crate-type", kind]);
        command.args(self.target()).arg("--").args(rustc).stdin(Stdio::null());
        let done = command.output()?;
        let notes = String::from_utf8_lossy(&done.stderr).into_owned();
        if !done.status.success() {
            return Err(format!("{PACKAGE} does not build as {kind}:\n{notes}").into());
        }
        Ok(notes)
    }

    /// The triple that is built for.
    fn triple(&self) -> Result<String> {
        match &self.target {
            Some(target) => Ok(target.clone()),
            None => {
                let text = output(Command::new("rustc").arg("-vV"))?;
                let host = text.lines().find_map(|line| line.strip_prefix("host: "));
                Ok(host.ok_or("rustc does not name its host")?.to_owned())
            }
        }
    }

    fn metadata(&self) -> Result<Built> {
        let text = output(&mut self.command(&["metadata", "--format-version", "1"]))?;
        let metadata: serde_json::Value = serde_json::from_str(&text)?;
        let tree =
            ["tree", "--package", PACKAGE, "--edges", "normal,no-proc-macro", "--prefix", "none", "--format", "{p}"];
        let tree = output(self.command(&tree).args(self.target()))?;
        let linked: Vec<&str> = tree.lines().collect();
        let mut dependencies = Vec::new();
        for package in metadata["packages"].as_array().into_iter().flatten() {
            let (Some(name), Some(version)) = (package["name"].as_str(), package["version"].as_str()) else { continue };
            let (Some(manifest), false) = (package["manifest_path"].as_str(), package["source"].is_null()) else {
                continue;
            };
            let line = format!("{name} v{version}");
            if linked.iter().any(|linked| *linked == line || linked.starts_with(&format!("{line} "))) {
                let sources = Path::new(manifest).parent().ok_or("a manifest without a folder")?;
                dependencies.push((format!("{name}-{version}"), sources.to_owned()));
            }
        }
        let target_directory = metadata["target_directory"].as_str().ok_or("cargo names no target directory")?;
        Ok(Built { target_directory: target_directory.into(), dependencies })
    }
}

fn output(command: &mut Command) -> Result<String> {
    let done = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output();
    let done = done.map_err(|error| format!("{command:?}: {error}"))?;
    if !done.status.success() {
        return Err(format!("{command:?}: {}", done.status).into());
    }
    Ok(String::from_utf8(done.stdout)?)
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to.parent().unwrap_or(to))?;
    fs::copy(from, to).map_err(|error| format!("{}: {error}", from.display()))?;
    Ok(())
}

/// The files of a folder whose names are wanted.
fn copy_all(from: &Path, to: &Path, wanted: impl Fn(&str) -> bool) -> Result<()> {
    for entry in fs::read_dir(from).map_err(|error| format!("{}: {error}", from.display()))? {
        let entry = entry?;
        let name = entry.file_name();
        if entry.file_type()?.is_file() && wanted(&name.to_string_lossy()) {
            copy(&entry.path(), &to.join(name))?;
        }
    }
    Ok(())
}

fn write(to: &Path, text: &str) -> Result<()> {
    fs::create_dir_all(to.parent().unwrap_or(to))?;
    Ok(fs::write(to, text)?)
}

/// Makes what linkers take for the shared library: another name of it, or an import library.
fn link(triple: &str, names: &Names, header: &str, folder: &Path) -> Result<()> {
    let linked = folder.join(names.linked);
    if names.link == Link::Alias {
        return alias(Names::file(names.shared), &linked);
    }
    fs::create_dir_all(linked.parent().unwrap_or(folder))?;
    let definition = linked.with_extension("def");
    let dll = Names::file(names.shared);
    write(&definition, &names::definition(dll, &names::functions(header)))?;
    let option = |name: &str, path: &Path| format!("{name}{}", path.display());
    let (programs, arguments) = if names.link == Link::Lib {
        let machine = if triple.starts_with("aarch64") { "/MACHINE:ARM64" } else { "/MACHINE:X64" };
        let words = ["/NOLOGO".to_owned(), machine.to_owned(), option("/DEF:", &definition), option("/OUT:", &linked)];
        (vec!["lib".to_owned(), "llvm-lib".to_owned()], words.to_vec())
    } else {
        let processor = triple.split('-').next().unwrap_or_default();
        let words = [option("--input-def=", &definition), option("--output-lib=", &linked), format!("--dllname={dll}")];
        (vec![format!("{processor}-w64-mingw32-dlltool"), "dlltool".to_owned()], words.to_vec())
    };
    let found = programs.iter().find(|program| Command::new(program).arg("--version").output().is_ok());
    let program =
        found.ok_or_else(|| format!("the import library needs one of the programs {}", programs.join(", ")))?;
    output(Command::new(program).args(arguments))?;
    Ok(fs::remove_file(definition)?)
}

#[cfg(unix)]
fn alias(target: &str, at: &Path) -> Result<()> {
    Ok(std::os::unix::fs::symlink(target, at)?)
}

#[cfg(not(unix))]
fn alias(target: &str, at: &Path) -> Result<()> {
    copy(&at.with_file_name(target), at)
}

/// Takes debug information out of an archive, where the system has `strip`. Microsoft's is in files of its own.
fn without_debug(names: &Names, archive: &Path) -> Result<()> {
    if names.link == Link::Lib {
        return Ok(());
    }
    match Command::new("strip").arg("-S").arg(archive).status() {
        Ok(status) if !status.success() => Err(format!("strip: {status}").into()),
        Ok(_) => Ok(()),
        Err(error) => {
            eprintln!("the static library keeps its debug information: strip: {error}");
            Ok(())
        }
    }
}
