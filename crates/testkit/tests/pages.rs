//! Do the pages' links lead somewhere, do the files that they name exist, are all pages of the manual in its table of
//! contents, are they short, and does docs/dev/unsafe.md list every file with `unsafe` in it? (lychee checks links too, in
//! minutes of building it; the rest no linter knows.)

use regex_lite::Regex;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

/// The most words of a page for users.
const PAGE: usize = 1500;

/// Pages that may be longer: the rules of casts, and what is generated or has a reason of its own.
const LONGER: [(&str, usize); 5] = [
    ("docs/semantics.md", 2600),
    ("docs/scaled-casts.md", 2600),
    ("docs/differences.md", 2600),
    ("docs/command.md", 2600),
    ("docs/dev/architecture.md", 2500),
];

/// The most columns of a line of prose.
const COLUMNS: usize = 120;

/// Folders without pages of ours.
const SKIPPED: [&str; 3] = ["target", "node_modules", "vendor"];

/// Paths that exist only once something has been built or found.
const GENERATED: [&str; 4] = ["fuzz/artifacts", "web/dist", "npm/wasm", "docs/book"];

/// The folders by whose names a path in a page begins.
const TOP: [&str; 10] = ["bench", "bindings", "crates", "docs", "examples", "fuzz", "npm", "records", "scripts", "web"];

fn root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    fs::canonicalize(root).expect("the root of the repository")
}

/// Every file below a folder, by its path from the root; no hidden folders but `.github`, no links.
fn files(root: &Path, folder: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(root.join(folder)).expect("a folder") {
        let entry = entry.expect("an entry");
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = folder.join(&name);
        let kind = entry.file_type().expect("its type");
        if kind.is_dir() && (!name.starts_with('.') || name == ".github") && !SKIPPED.contains(&name.as_str()) {
            files(root, &path, found);
        } else if kind.is_file() {
            found.push(path.to_string_lossy().replace('\\', "/"));
        }
    }
}

/// The pages of the repository: their paths and texts.
fn pages(root: &Path) -> BTreeMap<String, String> {
    let mut found = Vec::new();
    files(root, Path::new(""), &mut found);
    let pages = found.into_iter().filter(|path| path.ends_with(".md"));
    pages.map(|path| (path.clone(), fs::read_to_string(root.join(&path)).expect("a page"))).collect()
}

/// A page in parts: the lines of prose with their numbers, and the blocks of code, each with its line and language.
struct Page<'a> {
    prose: Vec<(usize, &'a str)>,
    blocks: Vec<(usize, &'a str, String)>,
}

impl Page<'_> {
    fn of(text: &str) -> Page<'_> {
        let (mut page, mut is_code) = (Page { prose: Vec::new(), blocks: Vec::new() }, false);
        for (number, line) in (1..).zip(text.lines()) {
            match (line.trim_start().strip_prefix("```"), page.blocks.last_mut()) {
                (Some(_), _) if is_code => is_code = false,
                (Some(language), _) => {
                    is_code = true;
                    page.blocks.push((number, language, String::new()));
                }
                (None, Some((_, _, code))) if is_code => *code += &format!("{line}\n"),
                _ => page.prose.push((number, line)),
            }
        }
        page
    }
}

/// Everything that a pattern's groups find in a text.
fn found(pattern: &str, text: &str) -> Vec<String> {
    let pattern = Regex::new(pattern).expect("a pattern");
    let group =
        |found: regex_lite::Captures<'_>| (1..found.len()).find_map(|at| Some(found.get(at)?.as_str().to_owned()));
    pattern.captures_iter(text).filter_map(group).collect()
}

/// The targets of a line's links and pictures, those in code left out.
fn targets(line: &str) -> Vec<String> {
    let line = Regex::new("`[^`]*`").expect("a pattern").replace_all(line, "x");
    found(r#"\]\(([^)]*)\)|(?:src|href)="([^"]*)""#, &line)
}

/// The anchors of a page, as GitHub and mdBook name them: letters and digits of each heading in lower case. The target
/// of a link in a heading is not part of its anchor.
fn anchors(text: &str) -> BTreeSet<String> {
    let (mut found, mut counts) = (BTreeSet::new(), HashMap::<String, usize>::new());
    let link = Regex::new(r"\]\([^)]*\)").expect("a pattern");
    for (_, line) in Page::of(text).prose.into_iter().filter(|(_, line)| line.starts_with('#')) {
        let title = link.replace_all(line.trim_start_matches('#').trim(), "").to_lowercase();
        let letters = title.chars().filter(|it| it.is_alphanumeric() || " -_".contains(*it));
        let slug: String = letters.map(|it| if it == ' ' { '-' } else { it }).collect();
        let count = counts.entry(slug.clone()).or_default();
        found.insert(if *count == 0 { slug } else { format!("{slug}-{count}") });
        *count += 1;
    }
    found
}

/// What is wrong with a target on a page.
fn fault(root: &Path, pages: &BTreeMap<String, String>, page: &str, target: &str) -> Option<String> {
    if target.starts_with("https://") || target.starts_with("mailto:") {
        return None;
    }
    let (path, anchor) = target.split_once('#').map_or((target, None), |(path, anchor)| (path, Some(anchor)));
    let path = if path.is_empty() { root.join(page) } else { root.join(page).with_file_name(path) };
    let Ok(path) = fs::canonicalize(&path) else { return Some(format!("{} does not exist", path.display())) };
    let Ok(path) = path.strip_prefix(root) else { return Some("leaves the repository".to_owned()) };
    let (path, anchor) = (path.to_string_lossy().replace('\\', "/"), anchor?);
    let Some(text) = pages.get(&path) else { return Some(format!("{path} has no headings")) };
    (!anchors(text).contains(anchor)).then(|| format!("{path} has no heading `#{anchor}`"))
}

#[test]
fn links_lead_somewhere() {
    let root = root();
    let pages = pages(&root);
    let (mut count, mut wrong) = (0, Vec::new());
    for (page, text) in &pages {
        for (line, content) in Page::of(text).prose {
            for target in targets(content) {
                count += 1;
                let fault = fault(&root, &pages, page, &target);
                wrong.extend(fault.map(|fault| format!("{page}:{line}: ({target}): {fault}")));
            }
        }
    }
    assert!(count > 300, "{count} links");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A link whose text is a page's name leads to that page.
#[test]
fn links_lead_to_the_page_that_they_name() {
    let (mut count, mut wrong) = (0, Vec::new());
    for (page, text) in &pages(&root()) {
        for (line, content) in Page::of(text).prose {
            for (before, rest) in content.match_indices("](").map(|(at, _)| (&content[..at], &content[at + 2..])) {
                let name = before.rsplit('[').next().unwrap_or_default();
                if !name.ends_with(".md") || name.contains(' ') {
                    continue;
                }
                count += 1;
                let target = rest.split([')', '#']).next().unwrap_or_default();
                if !format!("/{target}").ends_with(&format!("/{name}")) {
                    wrong.push(format!("{page}:{line}: [{name}] leads to {target}"));
                }
            }
        }
    }
    assert!(count > 100, "{count} links");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Whether a word of code names a file or a folder, not a pattern or a place to fill in.
fn is_name(word: &str) -> bool {
    let is_plain = word.chars().all(|it| it.is_ascii_alphanumeric() || "/._-".contains(it));
    let is_filled_in =
        |part: &str| part.len() > 1 && part.trim_end_matches(".rs").chars().all(|it| it.is_ascii_uppercase());
    is_plain && !word.contains("..") && !word.split('/').any(is_filled_in)
}

/// Whether a word is a file of sources by its ending, or a path from the root.
fn names_a_file(word: &str) -> bool {
    let has_ending = [".rs", ".py", ".sh", ".mjs"].iter().any(|ending| word.len() > 4 && word.ends_with(ending));
    let first = word.split('/').next().unwrap_or_default();
    is_name(word) && (has_ending || word.contains('/') && TOP.contains(&first))
}

/// Every example for users is in a language whose examples some test runs, or says why it is not run.
#[test]
fn examples_are_run() {
    // Where the examples of a language are found: in all pages, or in these.
    let anywhere = ["sh", "bash", "python", "c", "text", "toml"];
    let some: [(&str, &[&str]); 2] =
        [("rust", &["README.md", "docs/runtime-authors.md"]), ("js", &["README.md", "docs/javascript.md"])];
    let (mut count, mut wrong) = (0, Vec::new());
    for (page, text) in pages(&root()) {
        let is_for_users = page == "README.md" || page.starts_with("docs/") && !page.starts_with("docs/dev/");
        for (line, language, code) in Page::of(&text).blocks.into_iter().filter(|_| is_for_users) {
            let is_run = some.iter().any(|(name, pages)| *name == language && pages.contains(&page.as_str()));
            if !anywhere.contains(&language) && !is_run && !code.contains(" not run by the tests: ") {
                wrong.push(format!("{page}:{line}: no test runs `{language}` of this page"));
            }
            count += 1;
        }
    }
    assert!(count > 80, "{count} blocks");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Files of sources may be named by the end of their path.
#[test]
fn named_files_exist() {
    let root = root();
    let mut all = Vec::new();
    files(&root, Path::new(""), &mut all);
    let mut known: BTreeSet<&str> = BTreeSet::new();
    for path in &all {
        known.insert(path);
        known.extend(path.match_indices('/').map(|(at, _)| &path[at + 1..]));
        known.extend(path.match_indices('/').map(|(at, _)| &path[..at]));
    }
    let (mut count, mut wrong) = (0, Vec::new());
    // What has been in earlier versions stays in the list of changes.
    for (page, text) in pages(&root).iter().filter(|(page, _)| *page != "CHANGELOG.md") {
        let Page { prose, blocks } = Page::of(text);
        let inline = |(line, content)| found("`([^`]*)`", content).into_iter().map(move |code| (line, code));
        let shell = blocks.into_iter().filter(|(_, language, _)| ["sh", "bash"].contains(language));
        let codes = prose.into_iter().flat_map(inline).chain(shell.map(|(line, _, code)| (line, code)));
        for (line, code) in codes {
            for word in code.split_whitespace().map(|word| word.trim_end_matches(['/', ',', ':', ')'])) {
                if !names_a_file(word) || GENERATED.iter().any(|path| word.starts_with(path)) {
                    continue;
                }
                count += 1;
                if !known.contains(word) {
                    wrong.push(format!("{page}:{line}: `{word}` does not exist"));
                }
            }
        }
    }
    assert!(count > 200, "{count} names");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn pages_are_short() {
    let mut wrong = Vec::new();
    for (page, text) in pages(&root()) {
        let is_for_users = page.starts_with("docs/") && page.matches('/').count() == 1;
        let longer = LONGER.iter().find(|(name, _)| *name == page).map(|(_, most)| *most);
        let words = text.split_whitespace().count();
        if let Some(most) = longer.or(is_for_users.then_some(PAGE)).filter(|most| words > *most) {
            wrong.push(format!("{page}: {words} words (at most {most})"));
        }
        // Tables and long addresses cannot be wrapped.
        let may_be_long = |line: &str| line.contains('|') || line.starts_with('<') || !line.trim().contains(' ');
        for (number, line) in Page::of(&text).prose.into_iter().filter(|(_, line)| !may_be_long(line)) {
            let is_manual = page.starts_with("docs/") || !page.contains('/') && page != "CHANGELOG.md";
            if line.chars().count() > COLUMNS && is_manual {
                wrong.push(format!("{page}:{number}: {} columns (at most {COLUMNS})", line.chars().count()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Below its title, a page says who it is for.
#[test]
fn pages_say_who_they_are_for() {
    let is_of_the_manual = |page: &str| page.starts_with("docs/") && !page.starts_with("docs/dev/decisions/");
    let pages = pages(&root());
    let ours: Vec<_> = pages.iter().filter(|(page, _)| is_of_the_manual(page) && *page != "docs/SUMMARY.md").collect();
    assert!(ours.len() > 45, "{} pages", ours.len());
    for (page, text) in ours {
        let below = text.lines().nth(2).unwrap_or_default();
        assert!(below.starts_with("*For ") && below.ends_with(".*"), "{page}: line 3 is `{below}` (want `*For ...*`)");
    }
}

#[test]
fn the_contents_list_every_page() {
    let root = root();
    let summary = fs::read_to_string(root.join("docs/SUMMARY.md")).expect("the table of contents");
    let listed: Vec<String> = summary.lines().flat_map(targets).collect();
    let unique: BTreeSet<&String> = listed.iter().collect();
    assert_eq!(unique.len(), listed.len(), "a page appears twice in docs/SUMMARY.md");
    let pages = pages(&root);
    let ours = pages.keys().filter_map(|page| page.strip_prefix("docs/")).filter(|page| *page != "SUMMARY.md");
    let missing: Vec<&str> = ours.filter(|page| !listed.iter().any(|it| it == page)).collect();
    assert!(missing.is_empty(), "docs/SUMMARY.md lacks {missing:?}");
}

/// Blocks, functions, and traits with their implementations, without those in comments.
fn unsafe_in(code: &str) -> [usize; 3] {
    let code: Vec<&str> = code.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    let code = code.join("\n");
    let functions = r#"(unsafe (?:extern "(?:C|system)" )?fn )"#;
    ["(unsafe \\{)", functions, "(unsafe (?:impl|trait))"].map(|pattern| found(pattern, &code).len())
}

/// Of code that users run; tests and examples are not.
#[test]
fn the_list_of_unsafe_code_is_complete() {
    let root = root();
    let mut all = Vec::new();
    ["crates", "bindings/python/src"].iter().for_each(|folder| files(&root, Path::new(folder), &mut all));
    let is_run = |path: &&String| !["/tests/", "/benches/", "/examples/"].iter().any(|folder| path.contains(folder));
    let mut counted = BTreeMap::new();
    for path in all.into_iter().filter(|path| path.ends_with(".rs")).filter(|path| is_run(&path)) {
        let counts = unsafe_in(&fs::read_to_string(root.join(&path)).expect("a source"));
        if counts != [0; 3] {
            counted.insert(path, counts);
        }
    }
    let text = fs::read_to_string(root.join("docs/dev/unsafe.md")).expect("docs/dev/unsafe.md");
    let row = |line: &str| {
        let cells: Vec<&str> = line.strip_prefix("| `")?.split('|').map(str::trim).collect();
        let number = |at: usize| cells.get(at)?.parse().ok();
        Some((cells[0].trim_end_matches('`').to_owned(), [number(1)?, number(2)?, number(3)?]))
    };
    let listed: BTreeMap<String, [usize; 3]> = text.lines().filter_map(row).collect();
    let missing: Vec<_> = counted.iter().filter(|(name, counts)| listed.get(*name) != Some(counts)).collect();
    let stale: Vec<_> = listed.iter().filter(|(name, counts)| counted.get(*name) != Some(counts)).collect();
    assert!(counted.len() > 20, "{} files", counted.len());
    assert!(missing.is_empty() && stale.is_empty(), "docs/dev/unsafe.md lacks {missing:#?}\nand has {stale:#?}");
}

#[test]
fn faults_are_found() {
    let code =
        "// unsafe {\nunsafe extern \"C\" fn f() { unsafe { g() } }\nunsafe fn g() {}\nunsafe impl Send for A {}\n";
    assert_eq!(unsafe_in(code), [1, 2, 1]);
    let page = "# A `b` page\n\n## Twice\n\n## Twice\n\n```\n# no heading\n```\n";
    let want = ["a-b-page", "twice", "twice-1"].map(str::to_owned);
    assert_eq!(anchors(page), BTreeSet::from(want));
    let found = Page::of("a\n```sh\nb\n```\n```\n```\nc");
    assert_eq!(found.blocks, [(2, "sh", "b\n".to_owned()), (5, "", String::new())]);
    assert_eq!(found.prose, [(1, "a"), (7, "c")]);
    let pages: BTreeMap<String, String> = [("docs/README.md".to_owned(), page.to_owned())].into();
    let root = root();
    let found = |target| fault(&root, &pages, "docs/README.md", target);
    assert_eq!(found("#twice-1"), None);
    assert_eq!(found("../README.md"), None);
    assert!(found("#thrice").is_some() && found("b.md").is_some() && found("../..").is_some());
    assert!(found("../LICENSE-MIT#mit").is_some());
    assert_eq!(targets("[a](b.md), `[c](d)`, [e](f#g) <img src=\"h.png\">"), ["b.md", "f#g", "h.png"]);
    assert!(names_a_file("crates/onnx-cast/src") && names_a_file("step.rs") && !names_a_file("src/arch/NAME.rs"));
    assert!(!names_a_file("f32") && !names_a_file("docs") && !names_a_file("*.rs"));
}
