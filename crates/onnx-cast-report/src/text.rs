//! A report as text: for each type its verdict, and a table of the tensors that fits 80 columns, the worst first.

use crate::words::{printable, size};
use onnx_cast::__private::{Count, DefaultEnvironment};
use onnx_cast::DataType;
use onnx_cast_file::{
    Blocks, Candidate, CandidateFormat, Concern, Forecast, Grade, Layout, QuantizedFormat, Report, TensorReport, Totals,
};
use std::cmp::Ordering;
use std::fmt::Write;

/// Columns that are left for a name.
const NAME: usize = 22;

/// For each type its verdict, and a table of its tensors: `top` rows, or with 0 all of them. `limit` is what the caller
/// calls `top`.
pub fn text(report: &Report, top: usize, limit: &str) -> String {
    let _environment = DefaultEnvironment::enter();
    Tables::new(report).text(top, limit)
}

/// A report as text, of which as many rows are shown as are wanted.
#[derive(Clone, Debug)]
pub struct Tables {
    /// For each type its verdict, and the rows of its table, the worst first.
    pub tables: Vec<(String, Vec<String>)>,
    /// How many other tensors there are.
    pub others: usize,
}

impl Tables {
    /// The tables of a report.
    pub fn new(report: &Report) -> Self {
        let _environment = DefaultEnvironment::enter();
        let mut tables: Vec<_> = report.to.iter().map(|&to| table(report, to)).collect();
        if let Some((verdict, _)) = tables.first_mut() {
            *verdict = measured(report) + verdict;
        }
        Tables { tables, others: report.others }
    }

    /// As [`text`] of the report.
    pub fn text(&self, top: usize, limit: &str) -> String {
        let mut text = String::new();
        for (verdict, rows) in &self.tables {
            text += verdict;
            let shown = if top == 0 { rows.len() } else { top };
            text.extend(rows.iter().take(shown).map(String::as_str));
            if rows.len() > shown {
                // A String takes everything.
                let _ = writeln!(text, "and {} more ({limit} 0 shows all)", rows.len() - shown);
            }
            text.push('\n');
        }
        if self.others > 0 {
            let _ = writeln!(text, "{} would be kept unchanged", Count(self.others, "other tensor"));
        }
        text
    }
}

/// The verdict of a type with the head of its table, and the rows.
fn table(report: &Report, to: CandidateFormat) -> (String, Vec<String>) {
    let totals = report.totals(to);
    let saved = totals.bytes_before as i128 - totals.bytes_after as i128;
    let share = if totals.bytes_before == 0 { 0.0 } else { 100.0 * saved as f64 / totals.bytes_before as f64 };
    let forecast = report.forecast(to);
    let mut head = format!(
        "{to}: {}, {}, {} -> {} ({share:.0}% saved)\n{}{}\n",
        Count(totals.tensors, "tensor"),
        Count(totals.counts.values, "value"),
        size(totals.bytes_before),
        size(totals.bytes_after),
        forecast.map_or(String::new(), written),
        verdict(to, &totals)
    );
    let mut rows: Vec<(&TensorReport, &Candidate)> = report
        .tensors
        .iter()
        .filter_map(|tensor| Some((tensor, tensor.candidates.iter().find(|one| one.to == to)?)))
        .collect();
    rows.sort_by(|a, b| worse(a.1, b.1));
    if !rows.is_empty() {
        let _ = writeln!(
            head,
            "{:7} {:>4} {:>6} {:>6} {:>6} {:>6} {:>7} {:>7} tensor",
            "verdict", "SNR", "beyond", "zero", "subn", "error", "least", "most"
        );
    }
    (head, rows.into_iter().map(|(tensor, candidate)| row(tensor, candidate)).collect())
}

/// Returns one line per layout with the number of quantized weights that were dequantized and measured.
pub(crate) fn measured(report: &Report) -> String {
    let line = |&(layout, count): &(Layout, usize)| {
        let weights = Count(count, "quantized weight");
        format!("{weights} ({}) measured as dequantized floats\n", layout.name())
    };
    report.dequantized.iter().map(line).collect()
}

/// What `quantize` would keep, a line for each of the first matrices, or why it or `cast` would refuse.
pub(crate) fn written(forecast: &Forecast) -> String {
    const KEPT: usize = 5;
    let mut text = String::new();
    if let Some(why) = &forecast.refused {
        let job = if forecast.to.is_scaled() { "quantize" } else { "cast" };
        let _ = writeln!(text, "{job} would refuse: {why}\nthese are the figures of all tensors");
    }
    for (name, why) in forecast.kept.iter().take(KEPT) {
        let _ = writeln!(text, "kept: {} ({why})", short(&printable(name)));
    }
    if forecast.kept.len() > KEPT {
        let _ = writeln!(text, "kept: {} more", forecast.kept.len() - KEPT);
    }
    text
}

/// The verdict on a type in words: a line for each concern, the number of tensors with each grade, and the
/// signal-to-noise ratio.
pub fn verdict(to: CandidateFormat, totals: &Totals) -> String {
    let _environment = DefaultEnvironment::enter();
    let all = totals.tensors;
    let mut parts = Vec::new();
    for (concern, count) in Concern::ALL.iter().zip(totals.concerns) {
        let what = match concern {
            Concern::Overflow => {
                format!("have more than {}% of their values overflow or saturate", 100.0 * Grade::CARE_OVERFLOW)
            }
            Concern::Zero => format!("lose more than {}% of their values to zero", 100.0 * Grade::CARE_ZERO),
            Concern::Noise => format!("are below {} dB", Grade::CARE_SNR),
            Concern::Nan => "have NaN, which the type lacks".to_owned(),
            _ => continue,
        };
        if count > 0 {
            parts.push(format!("{count} of {all} tensors {what}"));
        }
    }
    let grades = Grade::ALL.iter().zip(totals.grades).filter(|(_, count)| *count > 0);
    parts.push(grades.map(|(grade, count)| format!("{count} {grade}")).collect::<Vec<_>>().join(", "));
    let loses = Grade::ALL.iter().zip(totals.grades).any(|(grade, count)| *grade >= Grade::Care && count > 0);
    parts.extend(bare(to).filter(|_| loses));
    let snr = totals.snr.map(|snr| format!("{snr:.1} dB overall"));
    parts.extend(snr);
    parts.extend(totals.blocks.as_ref().and_then(worst_blocks));
    parts.retain(|part| !part.is_empty());
    parts.join("\n")
}

/// A hint for lossy casts to the types that `quantize` gives scales: here the name of the type means a plain cast.
fn bare(to: CandidateFormat) -> Option<String> {
    let CandidateFormat::Bare(to) = to else { return None };
    let granularity = if to == DataType::Int4 { "32" } else { "row" };
    let is_quantized = QuantizedFormat::ELEMENTS.contains(&to);
    is_quantized.then(|| format!("a cast without scales; {to}/{granularity} has the scales that quantize writes"))
}

/// How the worst of the blocks fare, and those in the middle.
fn worst_blocks(blocks: &Blocks) -> Option<String> {
    let shares = [(0.01, "1%"), (0.5, "half")].into_iter();
    let below = shares.filter_map(|(share, name)| Some(format!("{name} below {} dB", blocks.snr_below(share)?)));
    let below = below.collect::<Vec<_>>().join(", ");
    (!below.is_empty()).then(|| format!("{} blocks: {below}", blocks.count))
}

fn worse(a: &Candidate, b: &Candidate) -> Ordering {
    // Without noise there is no ratio, and nothing is better.
    let snr = |candidate: &Candidate| candidate.snr().unwrap_or(f64::INFINITY);
    b.grade().cmp(&a.grade()).then(snr(a).total_cmp(&snr(b)))
}

fn row(tensor: &TensorReport, candidate: &Candidate) -> String {
    let counts = &candidate.counts;
    let share = |count| percent(candidate.share(count));
    let number = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.1e}"));
    let snr = candidate.snr().map_or("-".to_owned(), |snr| format!("{snr:.0}"));
    format!(
        "{:7} {snr:>4} {:>6} {:>6} {:>6} {:>6} {:>7} {:>7} {}\n",
        candidate.grade().name(),
        share(counts.overflowed + counts.saturated),
        share(counts.zero),
        share(counts.subnormal),
        number(candidate.mean_relative_error().filter(|error| *error > 0.0)),
        number(tensor.smallest),
        number(tensor.largest),
        short(&printable(&tensor.name)),
    )
}

/// A share in six columns.
fn percent(share: f64) -> String {
    let percent = 100.0 * share;
    if share <= 0.0 {
        "0".to_owned()
    } else if percent < 0.01 {
        "<0.01%".to_owned()
    } else if percent < 10.0 {
        format!("{percent:.2}%")
    } else {
        format!("{percent:.1}%")
    }
}

/// Fits a name into its columns: all parts except the last are cut to their first letter, from the left, until the name
/// fits; numbers stay.
fn short(name: &str) -> String {
    let mut parts: Vec<&str> = name.split_inclusive(['.', '/', '_']).collect();
    let width = |parts: &[&str]| parts.iter().map(|part| part.chars().count()).sum::<usize>();
    let mut texts: Vec<String> = Vec::new();
    for index in 0..parts.len().saturating_sub(1) {
        if width(&parts[index..]) + texts.iter().map(|text| text.chars().count()).sum::<usize>() <= NAME {
            break;
        }
        let part = parts[index];
        let whole = part.starts_with(|letter: char| letter.is_ascii_digit());
        let first = part.chars().next().filter(|letter| letter.is_alphanumeric());
        let end = part.chars().last().filter(|_| part.chars().count() > 1);
        texts.push(if whole { part.to_owned() } else { first.into_iter().chain(end).collect() });
    }
    let rest = parts.split_off(texts.len());
    let short = texts.concat() + &rest.concat();
    let len = short.chars().count();
    if len <= NAME { short } else { "..".to_owned() + &short.chars().skip(len + 2 - NAME).collect::<String>() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_fit_and_are_told_apart() {
        for (name, want) in [
            ("w", "w"),
            ("encoder.layer.0.weight", "encoder.layer.0.weight"),
            ("encoder.layer.10.attention.self.query.weight", "e.l.10.a.s.q.weight"),
            ("encoder.layer.10.output.dense.bias", "e.l.10.o.dense.bias"),
            ("a_name_that_is_of_one_part_and_goes_on_without_end", ".._i_o_o_p_a_g_o_w_end"),
            ("onepartthatgoesonandonwithoutend", "..oesonandonwithoutend"),
        ] {
            assert_eq!(short(name), want);
            assert!(want.chars().count() <= NAME);
        }
    }

    #[test]
    fn shares_fit() {
        for (share, want) in [(0.0, "0"), (1e-9, "<0.01%"), (0.000_5, "0.05%"), (0.5, "50.0%"), (1.0, "100.0%")] {
            assert_eq!(percent(share), want);
        }
    }
}
