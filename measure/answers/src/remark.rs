//! Warnings: what a reader of a table must know and cannot see in it, such as losses, missing names, empty columns.
//! They are data, so that each view can format them.

use crate::column::Dimension;
use crate::estimate::Share;
use crate::totals::{NamedShare, Totals};
use serde::Serialize;
use std::fmt;

/// A warning beside an answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Remark {
    /// No sample at all.
    NoSamples,
    /// Samples or records were lost.
    Lost {
        /// Samples known to be lost.
        samples: u64,
        /// Records lost, of any kind.
        records: u64,
    },
    /// The kernel throttled events.
    Throttled {
        /// Number of occurrences.
        times: u64,
    },
    /// Too few samples for meaningful shares.
    FewSamples {
        /// Number of samples.
        samples: u64,
    },
    /// Names of code are missing.
    Names {
        /// The affected files, or the kernel.
        subjects: Vec<String>,
        /// The reason.
        cause: String,
        /// What the user can do; may be empty.
        remedy: String,
    },
    /// Many user samples have no routine.
    Unidentified {
        /// Share of samples with an identified routine.
        identified: Share,
    },
    /// Many routines have an image but no name.
    Nameless {
        /// Samples in static functions.
        nameless: Share,
    },
    /// A column is empty in every row.
    EmptyColumn {
        /// The column.
        column: Dimension,
    },
    /// A limit of the source, recorded in the capture.
    Limit {
        /// The limit as text.
        text: String,
    },
}

/// Below this many samples a 10 % share is known no better than ± 6 %.
const FEW: u64 = 100;

impl Remark {
    /// The warnings on a capture as a whole.
    pub fn of_totals(totals: &Totals) -> Vec<Remark> {
        let mut remarks = Vec::new();
        match totals.samples() {
            0 => remarks.push(Remark::NoSamples),
            samples if samples < FEW => remarks.push(Remark::FewSamples { samples }),
            _ => {}
        }
        if totals.lost_samples + totals.lost_records > 0 {
            remarks.push(Remark::Lost { samples: totals.lost_samples, records: totals.lost_records });
        }
        if totals.throttled > 0 {
            remarks.push(Remark::Throttled { times: totals.throttled });
        }
        remarks
    }

    /// The warnings on how much user code could be named.
    pub fn of_names(names: NamedShare) -> Vec<Remark> {
        let mut remarks = Vec::new();
        let identified = names.identified();
        if identified.total > 0 && identified.fraction() < 0.95 {
            remarks.push(Remark::Unidentified { identified });
        }
        let nameless = Share { count: names.nameless, total: names.user_samples };
        if nameless.fraction() > 0.10 {
            remarks.push(Remark::Nameless { nameless });
        }
        remarks
    }
}

fn percent(share: &Share) -> String {
    format!("{:.1} % of n = {}", share.fraction() * 100.0, share.total)
}

impl fmt::Display for Remark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Remark::NoSamples => f.write_str(
                "the capture holds no sample: the target may have ended at once, slept all the time, or had \
                 fewer events than one period; record longer, or with a smaller period (hardmeter record --period)",
            ),
            Remark::Lost { samples, records } => write!(
                f,
                "lost while recording: {samples} samples, {records} other records; record with a longer period \
                 (hardmeter record --period), or fewer events"
            ),
            Remark::Throttled { times } => write!(
                f,
                "the kernel throttled sampling {times} times, so busy moments are under-represented; record with \
                 a larger period"
            ),
            Remark::FewSamples { samples } => {
                write!(f, "only {samples} samples: mind the intervals (--columns count,interval)")
            }
            Remark::Names { subjects, cause, remedy } => {
                write!(f, "{}: {cause}", some_of(subjects))?;
                if !remedy.is_empty() {
                    write!(f, "; {remedy}")?;
                }
                Ok(())
            }
            Remark::Unidentified { identified } => write!(
                f,
                "only {} user samples lie in an identified routine; the programs may have been replaced, removed \
                 or recorded on another machine",
                percent(identified)
            ),
            Remark::Nameless { nameless } => write!(
                f,
                "{} user samples lie in static functions that stripped programs do not name",
                percent(nameless)
            ),
            Remark::EmptyColumn { column } => write!(f, "column \"{column}\" is empty: {}", why_empty(*column)),
            Remark::Limit { text } => f.write_str(text),
        }
    }
}

/// The first few, and how many more.
fn some_of(subjects: &[String]) -> String {
    const SHOWN: usize = 3;
    let shown = subjects[..subjects.len().min(SHOWN)].join(", ");
    match subjects.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

fn why_empty(column: Dimension) -> &'static str {
    match column {
        Dimension::Line | Dimension::File => {
            "no debug information was found for the sampled code; install the debug symbols of the program"
        }
        Dimension::DataAddress | Dimension::CacheLine => {
            "the event recorded no data address; record a memory event (hardmeter events)"
        }
        Dimension::Level | Dimension::Operation | Dimension::Tlb | Dimension::Snoop => {
            "the event recorded no data source; record a memory event (hardmeter events)"
        }
        Dimension::Latency => "the event recorded no latency; record a memory event (hardmeter events)",
        Dimension::Cause => {
            "only the software PMU records causes; record with --source simulated, and without --no-causes"
        }
        Dimension::Set => "only the software PMU knows it; record with --source simulated",
        Dimension::Process => "the capture has no names of processes",
        Dimension::Class | Dimension::Object | Dimension::Part => {
            "the event recorded no data address; record a memory event (hardmeter events)"
        }
        Dimension::Statement => {
            "the capture records no statement; record a PostgreSQL server with the software PMU, or with --statements"
        }
        Dimension::Role => {
            "the capture has no side file of a server's processes; record a PostgreSQL server (--server DIR or -p PID)"
        }
        _ => "the capture does not tell",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_below_95_percent_and_many_static_functions_are_remarked() {
        let good = NamedShare { named: 95, nameless: 3, user_samples: 100 };
        assert_eq!(Remark::of_names(good), []);
        let poor = NamedShare { named: 50, nameless: 40, user_samples: 100 };
        let texts: Vec<String> = Remark::of_names(poor).iter().map(Remark::to_string).collect();
        assert_eq!(texts.len(), 2);
        assert!(texts[0].contains("90.0 % of n = 100"), "{}", texts[0]);
        assert!(texts[1].contains("40.0 % of n = 100"), "{}", texts[1]);
        assert_eq!(Remark::of_names(NamedShare::default()), [], "no user samples, nothing to say");
    }

    #[test]
    fn many_files_of_one_fault_are_one_remark() {
        let subjects = ["a", "b", "c", "d", "e"].map(String::from).to_vec();
        let remark =
            Remark::Names { subjects, cause: "is stripped".into(), remedy: "install symbols".into() };
        assert_eq!(remark.to_string(), "a, b, c and 2 more: is stripped; install symbols");
    }

    #[test]
    fn remedies_name_options_that_exist() {
        let lost = Remark::Lost { samples: 3, records: 0 }.to_string();
        assert!(lost.contains("--period") && !lost.contains("--mmap-pages"), "{lost}");
        let no_causes = Remark::EmptyColumn { column: Dimension::Cause }.to_string();
        assert!(no_causes.contains("without --no-causes"), "{no_causes}");
    }

    #[test]
    fn an_empty_capture_says_so() {
        assert_eq!(Remark::of_totals(&Totals::default()), [Remark::NoSamples]);
    }
}
