//! The two scenarios of the paper (section 4.4, table 6): a fixed number of clients, each with a fixed list of
//! requests, one after the other, all clients in parallel; the measured time ends with the last answer.
//!
//! The paper has totals, not pages. The scenarios reproduce clients, files, statements, rows and bytes with pages
//! of this site: many accesses by searches that read all items in one statement, much data by catalogues with
//! thousands of small statements, and pictures for the files that ask the database nothing.

use crate::http::get;
use crate::interaction::Interaction::{self, Catalogue, Picture, SearchRegion, SearchWords};
use crate::random::{Part, Stream};
use crate::visit::Visits;
use crate::words::{CATEGORIES, KINDS, REGIONS};
use serde::{Deserialize, Serialize};

/// The scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scenario {
    /// Many accesses, each short, with little data.
    Accesses,
    /// Fewer accesses, each long, with much data.
    Volume,
}

/// Totals of a run, as in the paper's table 6.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Totals {
    /// Clients.
    pub clients: u64,
    /// Requested files: pages and pictures.
    pub files: u64,
    /// SQL statements.
    pub statements: u64,
    /// Rows that the database read for them.
    pub rows: u64,
    /// Bytes of all files.
    pub bytes: u64,
}

/// The paper's response times of a scenario (tables 7 and 8), in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PaperTimes {
    /// Figures without SPLiT.
    pub plain: f64,
    /// Collecting and predicting.
    pub collecting: f64,
    /// Placing, too.
    pub placing: f64,
}

impl Scenario {
    /// The paper's totals.
    pub fn paper(self) -> Totals {
        match self {
            Scenario::Accesses => Totals {
                clients: 1_000,
                files: 14_000,
                statements: 10_000,
                rows: 184_400_000,
                bytes: 218_200_000,
            },
            Scenario::Volume => Totals {
                clients: 100,
                files: 1_300,
                statements: 4_542_500,
                rows: 23_000_000,
                bytes: 409_700_000,
            },
        }
    }

    /// The paper's times.
    pub fn paper_times(self) -> PaperTimes {
        match self {
            Scenario::Accesses => PaperTimes { plain: 21.788, collecting: 22.888, placing: 20.759 },
            Scenario::Volume => PaperTimes { plain: 152.426, collecting: 156.275, placing: 112.738 },
        }
    }

    /// The requests of each client, in order.
    pub fn script(self) -> &'static [Interaction] {
        match self {
            // 14 files, 10 statements; 5 of them read all items.
            Scenario::Accesses => &[
                Picture,
                SearchWords,
                SearchRegion,
                SearchWords,
                SearchRegion,
                Picture,
                SearchWords,
                SearchRegion,
                SearchWords,
                SearchRegion,
                Picture,
                SearchWords,
                SearchRegion,
                Picture,
            ],
            // 13 files; nine catalogues with three statements an item.
            Scenario::Volume => &[
                Picture, Catalogue, Catalogue, Catalogue, Picture, Catalogue, Catalogue, Catalogue, Picture,
                Catalogue, Catalogue, Catalogue, Picture,
            ],
        }
    }

    /// Size of a picture in bytes, chosen so that the scenario's bytes are those of the paper, at scale 1.
    pub fn picture_bytes(self) -> usize {
        match self {
            Scenario::Accesses => 45_900,
            Scenario::Volume => 69_000,
        }
    }
}

/// The clients of a scenario.
pub struct Clients {
    scenario: Scenario,
    clients: Vec<(Stream, usize)>,
}

impl Clients {
    /// This number of clients. The seed and a client's number decide what it searches for.
    pub fn new(scenario: Scenario, clients: u32, seed: u64) -> Clients {
        let one = |number| (Stream::of_one(seed, Part::Visits, number), 0);
        Clients { scenario, clients: (0..clients).map(one).collect() }
    }
}

impl Visits for Clients {
    fn next(&mut self, visitor: usize, request: &mut Vec<u8>) -> Option<Interaction> {
        let script = self.scenario.script();
        let (stream, at) = self.clients.get_mut(visitor)?;
        let interaction = *script.get(*at)?;
        *at += 1;
        let category = stream.within(1, CATEGORIES.len() as u32);
        match interaction {
            SearchWords => {
                let words = stream.one_of(&KINDS).expect("there are kinds");
                get(&format!("search.php?words={words}"), request);
            }
            SearchRegion => {
                let region = stream.within(1, REGIONS);
                get(&format!("region.php?category={category}&region={region}"), request);
            }
            Catalogue => get(&format!("catalogue.php?category={category}"), request),
            _ => get(&format!("{}.svg", picture_name(stream.below(PICTURES))), request),
        }
        Some(interaction)
    }

    fn shown(&mut self, _visitor: usize, _interaction: Interaction, _body: &[u8]) {}

    fn failed(&mut self, _visitor: usize) {}

    fn total(&self) -> Option<u64> {
        Some(self.clients.len() as u64 * self.scenario.script().len() as u64)
    }
}

/// Number of pictures.
pub const PICTURES: u32 = 16;

/// The name of a picture, without `.svg`.
pub fn picture_name(number: u32) -> String {
    format!("picture{number}")
}

/// A generated picture of this size.
pub fn picture(seed: u64, number: u32, bytes: usize) -> String {
    const END: &str = "\"/></svg>\n";
    let mut stream = Stream::of_one(seed, Part::Pictures, number);
    let mut text = String::from(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 999 999\"><path fill=\"none\" stroke=\"#543\" d=\"M500 500",
    );
    while text.len() + END.len() + 8 <= bytes {
        text += &format!("L{} {}", stream.within(100, 999), stream.within(100, 999));
    }
    while text.len() + END.len() < bytes {
        text.push(' ');
    }
    text + END
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_have_the_files_and_statements_of_the_paper() {
        for scenario in [Scenario::Accesses, Scenario::Volume] {
            let paper = scenario.paper();
            let script = scenario.script();
            assert_eq!(paper.files, paper.clients * script.len() as u64);
            let count = |of: Interaction| script.iter().filter(|&&one| one == of).count() as f64;
            // 33,000 items in 20 categories: 1,650 an average catalogue.
            let statements =
                count(SearchWords) + count(SearchRegion) + count(Catalogue) * (1.0 + 3.0 * 1650.0);
            let ratio = statements * paper.clients as f64 / paper.statements as f64;
            assert!((0.97..1.03).contains(&ratio), "{scenario:?}: {ratio}");
        }
    }

    #[test]
    fn clients_ask_their_list_and_then_no_more() {
        let mut clients = Clients::new(Scenario::Accesses, 2, 1);
        assert_eq!(clients.total(), Some(28));
        let mut asked = Vec::new();
        let mut request = Vec::new();
        while let Some(interaction) = clients.next(1, &mut request) {
            asked.push(interaction);
        }
        assert_eq!(asked, Scenario::Accesses.script());
        assert_eq!(String::from_utf8(request).unwrap().matches("GET /").count(), 14);
        assert!(clients.next(2, &mut Vec::new()).is_none(), "there is no third");
    }

    #[test]
    fn a_picture_has_its_size_to_the_byte() {
        for bytes in [1000, 20_000, 40_001] {
            assert_eq!(picture(1, 3, bytes).len(), bytes);
        }
        assert_eq!(picture(1, 3, 1000), picture(1, 3, 1000));
        assert_ne!(picture(1, 3, 1000), picture(1, 4, 1000));
    }
}
