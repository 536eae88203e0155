//! Which tensors of a file are cast, and to which type: by name, size and element type.
//!
//! A pattern is a glob over the whole name (`*`, `?`, `[a-z]`, `{a,b}`; `*` also goes over points and slashes), or
//! behind `re:` a regular expression that is searched for anywhere in the name.

use crate::error::FileError;
use crate::formats::error::{Invalid, InvalidKind};
use crate::glob::{Regex, to_regex};
use crate::io::fs;
use crate::text::{PathText, Short, Wording};
use onnx_cast::DataType;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use thiserror::Error;

/// A pattern or a rule that cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SelectionError {
    /// A glob or a regular expression with a mistake in it.
    #[error("pattern `{}`: {what}", Short(pattern))]
    Pattern {
        /// The pattern.
        pattern: String,
        /// What is wrong with it.
        what: String,
    },
    /// A rule that is not of the form PATTERN=TYPE.
    #[error("rule `{}` is not of the form PATTERN=TYPE", Short(rule))]
    Rule {
        /// The rule.
        rule: String,
    },
    /// A rule with an invalid type.
    #[error("rule `{}`: neither `keep` nor a type: {what}", Short(rule))]
    Type {
        /// The rule.
        rule: String,
        /// What is wrong with the type.
        what: String,
    },
    /// A file of rules that cannot be read, or has a mistake in it.
    #[error("{}: {what}", PathText(path))]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// A mistake in a line of a list of rules.
    #[error("line {line}: {error}")]
    Line {
        /// The line, from 1.
        line: usize,
        /// What is wrong there.
        error: Box<SelectionError>,
    },
}

/// A pattern of a request that matches no name: nothing would be done by it, or nothing spared.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unmatched {
    /// The field of the request: `include`, `exclude` or `rules`.
    pub field: &'static str,
    /// The pattern.
    pub pattern: String,
    /// The name that it nearly matches, or a pattern that matches.
    pub near: Option<String>,
    /// The noun for what has names (tensor or value), and the command that lists the names.
    names: (&'static str, &'static str),
}

impl Unmatched {
    /// A pattern that matches none of these names. What is likely meant is the name that it nearly matches, or a glob
    /// around it where it is a part of a name.
    pub(crate) fn new(field: &'static str, pattern: &Pattern, names: &[&str]) -> Unmatched {
        let text = &pattern.text;
        let is_part = || matches!(pattern.matcher, Matcher::Glob(_)) && names.iter().any(|name| name.contains(text));
        let near = pattern.nearest(names.iter().copied()).map(literal);
        let near = near.or_else(|| is_part().then(|| format!("*{text}*")));
        Unmatched { field, pattern: text.clone(), near, names: ("tensor", "info") }
    }

    /// The same for a pattern of names of quantized weights, if it matches elements or scales alone.
    pub(crate) fn of_weights<'n>(self, mut parts: impl Iterator<Item = &'n str>) -> Unmatched {
        let pattern: Option<Pattern> = self.pattern.parse().ok();
        let names = match pattern.is_some_and(|pattern| parts.any(|part| pattern.matches(part))) {
            true => ("weight by its plain name, only its parts", "info"),
            false => self.names,
        };
        Unmatched { names, ..self }
    }

    /// The same for a pattern that was matched against the names of a model's values.
    pub fn of_values(self) -> Unmatched {
        Unmatched { names: ("value", "info --types"), ..self }
    }
}

impl From<Unmatched> for Invalid {
    fn from(Unmatched { field, pattern, near, names: (what, list) }: Unmatched) -> Invalid {
        let hint = match near {
            Some(name) => format!("did you mean `{}`?", Short(&name)),
            None => format!("`{list}` lists the names"),
        };
        let what = format!(" `{}` matches no {what} ({hint})", Short(&pattern));
        Invalid::new(InvalidKind::Request, Wording::default().field(field, what))
    }
}

/// The glob that matches a name alone.
fn literal(name: &str) -> String {
    let special = |sign: char| if "*?[]{}\\".contains(sign) { "\\" } else { "" };
    name.chars().flat_map(|sign| special(sign).chars().chain([sign])).collect()
}

/// A pattern for names: a glob, or behind `re:` a regular expression.
#[derive(Clone, Debug)]
pub struct Pattern {
    text: String,
    matcher: Matcher,
    is_optional: bool,
    /// What names may have before them, and a `/`.
    folder: Option<String>,
}

#[derive(Clone, Debug)]
enum Matcher {
    Glob(Regex),
    Regex(Regex),
    /// The text itself.
    Exact,
}

impl Pattern {
    /// Whether a name matches.
    pub fn matches(&self, name: &str) -> bool {
        let is_match = |name: &str| match &self.matcher {
            Matcher::Glob(regex) | Matcher::Regex(regex) => regex.is_match(name),
            Matcher::Exact => self.text == name,
        };
        is_match(name) || self.folder.as_ref().is_some_and(|folder| is_match(&format!("{folder}/{name}")))
    }

    /// The pattern of one name, which may be missing.
    pub fn exactly(name: &str) -> Self {
        Pattern { text: name.to_owned(), matcher: Matcher::Exact, is_optional: true, folder: None }
    }

    /// The same pattern, for names in a folder: it may match them with its name before them. An empty
    /// name stands for no folder.
    pub(crate) fn within(self, folder: &str) -> Self {
        let folder = Some(folder.to_owned()).filter(|folder| !folder.is_empty());
        Pattern { folder, ..self }
    }

    /// Whether it may match no name of a file.
    pub(crate) fn is_optional(&self) -> bool {
        self.is_optional
    }

    /// The same pattern, which may match no name of a file: it is meant for several files.
    pub fn optional(self) -> Self {
        Pattern { is_optional: true, ..self }
    }

    /// The name that a glob nearly matches, if there is one; see [`nearest`].
    pub fn nearest<'n>(&self, names: impl Iterator<Item = &'n str>) -> Option<&'n str> {
        match self.matcher {
            Matcher::Glob(_) => nearest(&self.text, names),
            Matcher::Regex(_) | Matcher::Exact => None,
        }
    }
}

/// The name that differs from a glob, or from a word, in the fewest letters: one, and one more for every four letters
/// of the glob, at most.
pub fn nearest<'n>(glob: &str, names: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    let near = names.filter(|name| !name.is_empty()).map(|name| (distance(glob, name), name)).min();
    near.filter(|(distance, _)| *distance <= 1 + glob.len() / 4).map(|(_, name)| name)
}

/// How many letters of a glob have to change for it to match a name; `*` takes any.
fn distance(glob: &str, name: &str) -> usize {
    let name: Vec<char> = name.chars().collect();
    let mut row: Vec<usize> = (0..=name.len()).collect();
    for glob in glob.chars() {
        let mut before = row[0];
        row[0] += usize::from(glob != '*');
        for (place, &letter) in name.iter().enumerate() {
            let (above, left) = (row[place + 1], row[place]);
            row[place + 1] = match glob {
                '*' => above.min(left),
                _ => (before + usize::from(glob != letter && glob != '?')).min(above + 1).min(left + 1),
            };
            before = above;
        }
    }
    row[name.len()]
}

impl FromStr for Pattern {
    type Err = SelectionError;

    fn from_str(text: &str) -> Result<Pattern, SelectionError> {
        let wrong = |what: String| SelectionError::Pattern { pattern: text.to_owned(), what };
        let of = |regex: &str| {
            Regex::new(regex).map_err(|error| {
                // The last line of the reader's message says what is wrong; those above draw it.
                let error = error.to_string();
                let line = error.lines().last().unwrap_or_default();
                wrong(line.strip_prefix("error: ").unwrap_or(line).to_owned())
            })
        };
        let matcher = match text.strip_prefix("re:") {
            Some(regex) => Matcher::Regex(of(regex)?),
            None => Matcher::Glob(of(&to_regex(text).map_err(wrong)?)?),
        };
        Ok(Pattern { text: text.to_owned(), matcher, is_optional: false, folder: None })
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Pattern {}

/// The type, or the format of quantized weights, for the tensors whose names match: `PATTERN=TYPE`, or `PATTERN=keep`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule<T = DataType> {
    /// The names.
    pub pattern: Pattern,
    /// The type; `None` to keep what they have.
    pub to: Option<T>,
}

impl<T: FromStr<Err: fmt::Display>> FromStr for Rule<T> {
    type Err = SelectionError;

    fn from_str(rule: &str) -> Result<Self, SelectionError> {
        // No type has a `=` in its name, but a pattern may.
        let (pattern, name) = rule.rsplit_once('=').ok_or_else(|| SelectionError::Rule { rule: rule.to_owned() })?;
        let (pattern, name) = (pattern.trim(), name.trim());
        if pattern.is_empty() || name.is_empty() {
            return Err(SelectionError::Rule { rule: rule.to_owned() });
        }
        let unknown = |error: T::Err| SelectionError::Type { rule: rule.to_owned(), what: error.to_string() };
        let keeps = name.eq_ignore_ascii_case("keep");
        let to = if keeps { None } else { Some(name.parse().map_err(unknown)?) };
        Ok(Rule { pattern: pattern.parse()?, to })
    }
}

impl<T: FromStr<Err: fmt::Display>> Rule<T> {
    /// The rules of a file: see [`Rule::parse_lines`].
    ///
    /// # Errors
    /// Where the file cannot be read, or a line is not a rule.
    pub fn read(path: &Path) -> Result<Vec<Self>, SelectionError> {
        let wrong = |what| SelectionError::File { path: path.to_owned(), what };
        let text = fs::read_to_string(path).map_err(|error| wrong(format!("cannot read: {error}")))?;
        Rule::parse_lines(&text).map_err(|error| wrong(error.to_string()))
    }

    /// The rules of a text of one a line; empty lines, and those that start with `#`, are passed over, as is a byte
    /// order mark at the beginning. A pattern may match no name: such a text may be meant for several files.
    ///
    /// # Errors
    /// Where a line is not a rule.
    pub fn parse_lines(text: &str) -> Result<Vec<Self>, SelectionError> {
        let mut rules = Vec::new();
        // Windows' editors put it there; it would be part of the first pattern, which then matches nothing.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if !line.is_empty() && !line.starts_with('#') {
                let wrong = |error| SelectionError::Line { line: index + 1, error: Box::new(error) };
                let rule: Self = line.parse().map_err(wrong)?;
                rules.push(Rule { pattern: rule.pattern.optional(), ..rule });
            }
        }
        Ok(rules)
    }
}

/// The element type of tensors that do not tell theirs: of all, or, as `PATTERN=TYPE`, of those whose names match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceType {
    /// The names; `None` for all tensors that no pattern matches.
    pub pattern: Option<Pattern>,
    /// The type.
    pub data_type: DataType,
}

impl SourceType {
    /// The type that is given for a name: that of the last pattern that matches, or the one for all tensors.
    pub(crate) fn of(given: &[SourceType], name: &str) -> Option<DataType> {
        let by_name = |one: &&SourceType| one.pattern.as_ref().is_some_and(|pattern| pattern.matches(name));
        let found = given.iter().rev().find(by_name);
        found.or_else(|| given.iter().rev().find(|one| one.pattern.is_none())).map(|one| one.data_type)
    }
}

impl From<DataType> for SourceType {
    fn from(data_type: DataType) -> Self {
        SourceType { pattern: None, data_type }
    }
}

impl FromStr for SourceType {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let data_type = |name: &str| name.trim().parse::<DataType>().map_err(|error| error.to_string());
        let Some((pattern, name)) = text.rsplit_once('=') else { return Ok(data_type(text)?.into()) };
        let pattern = pattern.trim();
        if pattern.is_empty() {
            return Err(format!("`{}` is neither TYPE nor PATTERN=TYPE", Short(text)));
        }
        let pattern: Pattern = pattern.parse().map_err(|error: SelectionError| error.to_string())?;
        Ok(SourceType { pattern: Some(pattern), data_type: data_type(name)? })
    }
}

/// Whether a name matches one of `include`, or there are none, and none of `exclude`.
pub fn admits(include: &[Pattern], exclude: &[Pattern], name: &str) -> bool {
    let matches = |patterns: &[Pattern]| patterns.iter().any(|pattern| pattern.matches(name));
    (include.is_empty() || matches(include)) && !matches(exclude)
}

/// Refuses patterns of `include` and `exclude` that match none of a file's names.
///
/// # Errors
/// The first such pattern.
pub fn check_names<'n>(
    include: &[Pattern],
    exclude: &[Pattern],
    names: impl Iterator<Item = &'n str> + Clone,
) -> Result<(), Unmatched> {
    if include.is_empty() && exclude.is_empty() {
        return Ok(());
    }
    let names: Vec<&str> = names.collect();
    check_matched("include", include.iter(), &names)?;
    check_matched("exclude", exclude.iter(), &names)
}

/// Refuses patterns of `exclude` that leave nothing to do.
pub(crate) fn refuse_nothing(exclude: &[Pattern], action: &str) -> Result<(), Invalid> {
    // A folder of several checkpoints may be excluded as a whole: its patterns are optional.
    match exclude.iter().find(|pattern| !pattern.is_optional) {
        Some(pattern) => {
            let what = Wording::default().field("exclude", format!(" `{pattern}` leaves no tensor to {action}"));
            Err(Invalid::new(InvalidKind::Request, what))
        }
        None => Ok(()),
    }
}

/// Refuses patterns of a field that match none of these names.
pub(crate) fn check_matched<'p>(
    field: &'static str,
    mut patterns: impl Iterator<Item = &'p Pattern>,
    names: &[&str],
) -> Result<(), Unmatched> {
    let is_unmatched = |pattern: &&Pattern| !pattern.is_optional && !names.iter().any(|name| pattern.matches(name));
    match patterns.find(is_unmatched) {
        Some(pattern) => Err(Unmatched::new(field, pattern, names)),
        None => Ok(()),
    }
}

/// Which tensors are cast, and to which type.
///
/// A tensor is left alone if its name matches one of `exclude`, or none of `include` where there are any, or if it has
/// fewer elements than `min_elements`. Of the others the last rule that matches decides. Without one, it is cast to `to`:
/// if that is a floating type, where the tensor's is one too; if it is not, whatever numbers the tensor holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection<T = DataType> {
    /// The type for what no rule matches; `None` to keep it.
    pub to: Option<T>,
    /// Names to cast; all of them where this is empty.
    pub include: Vec<Pattern>,
    /// Names to leave alone.
    pub exclude: Vec<Pattern>,
    /// Types by name, the last that matches first.
    pub rules: Vec<Rule<T>>,
    /// The fewest elements that a tensor is cast with; where that is not said, 256 in models and any number elsewhere.
    pub min_elements: Option<u64>,
}

/// What decides about a tensor, and its target, if it has one.
pub(crate) enum Chosen<T> {
    /// It has a name that is left out.
    Excluded,
    /// It has too few elements.
    Small,
    ByRule(Option<T>),
    Default(Option<T>),
}

impl<T> Default for Selection<T> {
    fn default() -> Self {
        Selection { to: None, include: Vec::new(), exclude: Vec::new(), rules: Vec::new(), min_elements: None }
    }
}

impl<T: Copy> Selection<T> {
    /// Every tensor, to one type.
    pub fn new(to: T) -> Self {
        Selection { to: Some(to), ..Selection::default() }
    }

    /// Whether names and sizes let this tensor be cast.
    pub fn admits(&self, name: &str, elements: u64) -> bool {
        elements >= self.min_elements.unwrap_or(0) && admits(&self.include, &self.exclude, name)
    }

    /// Refuses patterns that match none of a file's names.
    ///
    /// # Errors
    /// The first such pattern.
    pub fn check_names<'n>(&self, names: impl Iterator<Item = &'n str> + Clone) -> Result<(), Unmatched> {
        check_names(&self.include, &self.exclude, names.clone())?;
        check_matched("rules", self.rules.iter().map(|rule| &rule.pattern), &names.collect::<Vec<_>>())
    }

    /// The first rule that decides about tensors none of which can have its target, and the first of these tensors.
    /// `tensors` are all names of a file, and whether each tensor takes what decides about it.
    pub fn ineffective_rule<'n>(
        &self,
        tensors: impl Iterator<Item = (&'n str, bool)> + Clone,
    ) -> Option<(&Rule<T>, &'n str)> {
        let decides =
            |at: usize, name: &str| self.rules.iter().rposition(|rule| rule.pattern.matches(name)) == Some(at);
        let rules = self.rules.iter().enumerate().filter(|(_, rule)| rule.to.is_some() && !rule.pattern.is_optional);
        rules.into_iter().find_map(|(at, rule)| {
            let mut decided = tensors.clone().filter(|(name, _)| decides(at, name));
            let (first, takes) = decided.next()?;
            (!takes && decided.all(|(_, takes)| !takes)).then_some((rule, first))
        })
    }

    /// As [`Selection::target`], of a tensor that is the only one of its file: whatever its type, it is meant.
    pub fn target_of_one(&self, name: &str, elements: u64) -> Option<T> {
        self.target_if(name, elements, |_| true)
    }

    /// The target of a tensor; `default` says whether one that no rule matches is meant.
    pub fn target_if(&self, name: &str, elements: u64, default: impl Fn(T) -> bool) -> Option<T> {
        match self.choose(name, elements) {
            Chosen::Excluded | Chosen::Small => None,
            Chosen::ByRule(to) => to,
            Chosen::Default(to) => to.filter(|&to| default(to)),
        }
    }

    /// Whether a tensor is meant by its name to be cast: a pattern of `include`, or a rule, matches it.
    pub fn names(&self, name: &str, elements: u64) -> bool {
        match self.choose(name, elements) {
            Chosen::Excluded | Chosen::Small => false,
            Chosen::ByRule(to) => to.is_some(),
            Chosen::Default(to) => to.is_some() && !self.include.is_empty(),
        }
    }

    /// What decides about a tensor.
    pub(crate) fn choose(&self, name: &str, elements: u64) -> Chosen<T> {
        if !admits(&self.include, &self.exclude, name) {
            return Chosen::Excluded;
        }
        if elements < self.min_elements.unwrap_or(0) {
            return Chosen::Small;
        }
        match self.rules.iter().rev().find(|rule| rule.pattern.matches(name)) {
            Some(rule) => Chosen::ByRule(rule.to),
            None => Chosen::Default(self.to),
        }
    }

    /// Every type that this may give.
    pub fn targets(&self) -> impl Iterator<Item = T> + '_ {
        self.to.into_iter().chain(self.rules.iter().filter_map(|rule| rule.to))
    }

    /// Checks that there is a type or a rule. Without either, a job would do nothing.
    ///
    /// # Errors
    /// If there is neither a type nor a rule.
    pub fn check_given(&self, path: &Path) -> Result<(), FileError> {
        if self.to.is_some() || !self.rules.is_empty() {
            return Ok(());
        }
        let what = Wording::from("no type is given (want ").field("to", "").then(" or ").field("rules", ")");
        Err(FileError::request(path, what))
    }
}

impl Selection {
    /// The type that a tensor is to be cast to; `None` where it is left alone. It may be the type that the tensor has.
    pub fn target(&self, name: &str, from: DataType, elements: u64) -> Option<DataType> {
        let by_type = |to: DataType| if to.is_float() { from.is_float() } else { from.is_numeric() };
        self.target_if(name, elements, by_type)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use DataType::{BFloat16, Bool, Float, Float8E4M3FN, Float16, Int8, Int64, String};

    fn patterns(list: &[&str]) -> Vec<Pattern> {
        list.iter().map(|text| text.parse().expect("a pattern")).collect()
    }

    fn rules(list: &[&str]) -> Vec<Rule> {
        list.iter().map(|text| text.parse().expect("a rule")).collect()
    }

    #[test]
    fn a_byte_order_mark_is_no_part_of_a_pattern() {
        let rules = Rule::<DataType>::parse_lines("\u{feff}*.w=float16\r\n# no rule\n*.b=keep").expect("two rules");
        assert_eq!(rules.len(), 2);
        assert!(rules[0].pattern.matches("layer.w") && rules[0].to == Some(DataType::Float16));
    }

    #[test]
    fn distances_of_globs() {
        for (glob, name, want) in [
            ("a.weight", "a.weight", 0),
            ("*.weight", "layers.0.weight", 0),
            ("*.wieght", "layers.0.weight", 2),
            ("l?yers.*", "layers.0.weight", 0),
            ("*norm*", "layers.0.nrm", 1),
            ("", "abc", 3),
            ("abc", "", 3),
        ] {
            assert_eq!(distance(glob, name), want, "{glob} {name}");
        }
    }

    #[test]
    fn a_near_name_is_found() {
        let names = || ["layer.0.norm", "layer.0.weight"].into_iter();
        for (glob, want) in [("*nrom", Some("layer.0.norm")), ("layer.0.wheit", Some("layer.0.weight")), ("bias", None)]
        {
            assert_eq!(patterns(&[glob])[0].nearest(names()), want, "{glob}");
            assert_eq!(nearest(glob, names()), want, "{glob}");
        }
        assert_eq!(patterns(&["re:^layer.0.nrm$"])[0].nearest(names()), None);
    }

    #[test]
    fn a_pattern_that_matches_no_name_is_refused() {
        let names = || ["layer.0.norm", "layer.0.weight"].into_iter();
        let matched = Selection { rules: rules(&["*.norm=keep"]), ..Selection::new(Int8) };
        assert_eq!(matched.check_names(names()), Ok(()));
        let near = |option: &str, pattern: &str| {
            format!("`{option}` `{pattern}` matches no tensor (did you mean `layer.0.norm`?)")
        };
        for (selection, want) in [
            (Selection { include: patterns(&["*.norm", "*.nrom"]), ..matched.clone() }, near("include", "*.nrom")),
            (Selection { exclude: patterns(&["layer.0.nrm"]), ..matched.clone() }, near("exclude", "layer.0.nrm")),
            (Selection { rules: rules(&["*.norm=keep", "*nrm=int8"]), ..matched.clone() }, near("rules", "*nrm")),
            (
                Selection { exclude: patterns(&["re:bias$"]), ..matched.clone() },
                "`exclude` `re:bias$` matches no tensor (`info` lists the names)".to_owned(),
            ),
        ] {
            let error = selection.check_names(names()).expect_err("no match");
            assert_eq!(Invalid::from(error).to_string(), want);
        }
        // A list of rules may be meant for other files too.
        let listed = Selection { rules: Rule::parse_lines("*.bias=keep").expect("a rule"), ..matched };
        assert_eq!(listed.check_names(names()), Ok(()));
    }

    #[test]
    fn patterns_match_whole_names_and_expressions_parts() {
        for (pattern, name, want) in [
            ("layer.0.weight", "layer.0.weight", true),
            ("layer.0", "layer.0.weight", false),
            ("layer.*", "layer.0.attention.weight", true),
            ("*weight", "a/b/c.weight", true),
            ("layer.?.w", "layer.7.w", true),
            ("layer.[0-3].w", "layer.4.w", false),
            ("{q,k}_proj", "k_proj", true),
            ("**", "anything", true),
            ("über*", "überall", true),
            (r"w\*", "w*", true),
            (r"w\*", "ww", false),
            ("*", "", true),
            (r"re:\.\d+\.weight$", "layer.10.weight", true),
            (r"re:^0\.", "layer.0.weight", false),
            ("re:norm", "layer_norm.bias", true),
        ] {
            assert_eq!(patterns(&[pattern])[0].matches(name), want, "{pattern} on {name}");
        }
    }

    #[test]
    fn by_default_floats_for_floats() {
        let to_half = Selection::new(Float16);
        for (from, want) in
            [(Float, Some(Float16)), (Float16, Some(Float16)), (Int64, None), (Bool, None), (String, None)]
        {
            assert_eq!(to_half.target("w", from, 1), want, "{from}");
        }
        let to_int = Selection::new(Int8);
        for (from, want) in [(Float, Some(Int8)), (Int64, Some(Int8)), (Bool, Some(Int8)), (String, None)] {
            assert_eq!(to_int.target("w", from, 1), want, "{from}");
        }
        assert_eq!(Selection::default().target("w", Float, 1), None);
    }

    #[test]
    fn names_and_sizes_select_and_the_last_rule_decides() {
        let selection = Selection {
            include: patterns(&["layer.*", "head"]),
            exclude: patterns(&["re:norm"]),
            rules: rules(&["layer.*=float8e4m3fn", "*.ids = int8", "layer.9.*=keep"]),
            min_elements: Some(4),
            ..Selection::new(BFloat16)
        };
        for (name, from, elements, want) in [
            ("layer.1.w", Float, 4, Some(Float8E4M3FN)),
            ("layer.1.w", Float, 3, None),
            ("layer.1.ids", Int64, 9, Some(Int8)),
            ("layer.9.ids", Int64, 9, None),
            ("layer.1.norm", Float, 9, None),
            ("head", Float, 9, Some(BFloat16)),
            ("head", Int64, 9, None),
            ("tail", Float, 9, None),
        ] {
            assert_eq!(selection.target(name, from, elements), want, "{name} {from} {elements}");
        }
        assert_eq!(selection.targets().collect::<Vec<_>>(), [BFloat16, Float8E4M3FN, Int8]);
    }

    #[test]
    fn lists_of_rules() {
        let text = "# the embeddings\n\n  emb.*=bf16  \na=b=int8\n";
        assert_eq!(Rule::parse_lines(text), Ok(rules(&["emb.*=bfloat16", "a=b=int8"])));
        for (text, message) in [
            ("w", "line 1: rule `w` is not of the form PATTERN=TYPE"),
            ("\n=float", "line 2: rule `=float` is not of the form PATTERN=TYPE"),
            (
                "w=floaty",
                "line 1: rule `w=floaty`: neither `keep` nor a type: `floaty` is not an element type (did you",
            ),
            ("w=i4", "line 1: rule `w=i4`: neither `keep` nor a type: `i4` may mean int4, and to numpy means int32 ("),
            ("[=int8", "line 1: pattern `[`: unclosed character class; missing ']'"),
            ("re:(=int8", "line 1: pattern `re:(`: unclosed group"),
        ] {
            let error = Rule::<DataType>::parse_lines(text).expect_err(text);
            assert!(error.to_string().starts_with(message), "{error}");
        }
    }
}
