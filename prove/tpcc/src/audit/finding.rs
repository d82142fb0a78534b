//! Lines of an audit: conditions, and findings about the driver.

/// The verdict of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Passed.
    Held,
    /// Failed.
    Short,
    /// Too few rows, or outside the window by less than chance explains.
    Undecided,
    /// Not applicable to these data.
    NotApplicable,
}

/// A condition of clause 3.3.2 with its result.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Condition {
    /// 1 to 12.
    pub number: u8,
    /// The rule.
    pub rule: &'static str,
    /// The result.
    pub verdict: Verdict,
    /// Rows that break it.
    pub violations: u64,
    /// The first of them, as text.
    pub examples: Vec<String>,
    /// Its duration. Conditions 4, 6, 7, 10 and 12 share a statement: each has a fifth of its time.
    pub seconds: f64,
}

/// A property of the data that depends on their driver.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Finding {
    /// Its name.
    pub name: &'static str,
    /// The clause that requires it.
    pub clause: &'static str,
    /// The observed value: a share in percent, a mean, or a p-value, see `unit`.
    pub value: Option<f64>,
    /// Unit of `value`.
    pub unit: &'static str,
    /// Rows behind it.
    pub n: u64,
    /// The expected value, as text.
    pub expected: String,
    /// The result.
    pub verdict: Verdict,
}
