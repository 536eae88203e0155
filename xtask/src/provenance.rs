//! What a record says about where it comes from: the day, the processor, the commit, the memory taken.

use std::process::Command;

/// What a program prints, if it succeeds and prints something.
fn printed(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

/// Today in UTC, as year-month-day.
pub(crate) fn date() -> String {
    printed("date", &["-u", "+%F"]).unwrap_or_else(|| "an unknown day".to_owned())
}

/// The processor, as Linux names it.
pub(crate) fn processor() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let field = |name: &str| {
        let line = text.lines().find(|line| line.split(':').next().is_some_and(|key| key.trim() == name))?;
        line.split_once(':').map(|(_, value)| value.trim().to_owned())
    };
    let family = field("cpu family").zip(field("model"));
    let family = family.map_or(String::new(), |(family, model)| format!(" (family {family}, model {model})"));
    let name = field("model name").unwrap_or_else(|| std::env::consts::ARCH.to_owned());
    format!("{name}{family}")
}

/// The commit that the working tree is at, if it is one.
pub(crate) fn commit() -> Option<String> {
    printed("git", &["rev-parse", "--short=12", "HEAD"])
}

/// The resident bytes of this process, where the system says.
pub(crate) fn resident() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? << 10)
}
