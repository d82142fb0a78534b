//! Lines of an audit: conditions, and what the data say of their driver.

/// How a line of an audit ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// As it should be.
    Held,
    /// Not as it should be.
    Short,
    /// Too few rows to tell, or beside the bar by less than chance does.
    Undecided,
    /// It says nothing of these data.
    NotApplicable,
}

/// A condition of clause 3.3.2, and what came of it.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Condition {
    /// 1 to 12.
    pub number: u8,
    /// What must hold.
    pub rule: &'static str,
    /// What came of it.
    pub verdict: Verdict,
    /// Rows that break it.
    pub violations: u64,
    /// The first of them, in words.
    pub examples: Vec<String>,
    /// How long it took. Conditions 4, 6, 7, 10 and 12 share a statement: each has a fifth of its time.
    pub seconds: f64,
}

/// Something that the data say of their driver.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Finding {
    /// What it is.
    pub name: &'static str,
    /// The clause that asks for it.
    pub clause: &'static str,
    /// What was found: a share in percent, a mean, or a p-value, as `unit` says.
    pub value: Option<f64>,
    /// Of `value`.
    pub unit: &'static str,
    /// Rows behind it.
    pub n: u64,
    /// What it should be, in words.
    pub expected: String,
    /// What came of it.
    pub verdict: Verdict,
}
