//! Parameters of queries: the validation values of clauses 2.4.x.4, for which answers are published, or values
//! drawn by the rules of clauses 2.4.x.3.

use crate::queries::Query;
use crate::scale::Scale;
use tpchgen::distribution::Distributions;

/// The origin of a run's parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The specification's validation values.
    Validation,
    /// Drawn by the specification's rules from this seed.
    Seed(u64),
}

/// Names and values for one query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameters(Vec<(String, String)>);

impl Parameters {
    /// The parameters of a query. `scale` is that of the data: one of them (Q11) depends on it.
    pub fn of(query: Query, source: Source, scale: Scale) -> Parameters {
        match source {
            Source::Validation => validation(query, scale),
            Source::Seed(seed) => drawn(query, scale, &mut Draw::new(seed, query)),
        }
    }

    /// Each name with its value.
    pub fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// The value of a name.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.pairs().find_map(|(other, value)| (other == name).then_some(value))
    }
}

fn given(pairs: &[(&str, &str)]) -> Parameters {
    Parameters(pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
}

/// `size1`, `size2` ... for a list of values.
fn numbered(name: &str, values: impl IntoIterator<Item = impl ToString>) -> Vec<(String, String)> {
    let values = values.into_iter().zip(1..);
    values.map(|(value, number)| (format!("{name}{number}"), value.to_string())).collect()
}

/// Clause 2.4.11.3: 0.0001 / SF, without an exponent, so that the server takes it for a numeric.
fn fraction(scale: Scale) -> String {
    format!("{:.10}", 0.0001 / scale.factor())
}

fn validation(query: Query, scale: Scale) -> Parameters {
    match query.number() {
        1 => given(&[("delta", "90")]),
        2 => given(&[("size", "15"), ("type", "BRASS"), ("region", "EUROPE")]),
        3 => given(&[("segment", "BUILDING"), ("date", "1995-03-15")]),
        4 => given(&[("date", "1993-07-01")]),
        5 => given(&[("region", "ASIA"), ("date", "1994-01-01")]),
        6 => given(&[("date", "1994-01-01"), ("discount", "0.06"), ("quantity", "24")]),
        7 => given(&[("nation1", "FRANCE"), ("nation2", "GERMANY")]),
        8 => given(&[("nation", "BRAZIL"), ("region", "AMERICA"), ("type", "ECONOMY ANODIZED STEEL")]),
        9 => given(&[("color", "green")]),
        10 => given(&[("date", "1993-10-01")]),
        11 => given(&[("nation", "GERMANY"), ("fraction", &fraction(scale))]),
        12 => given(&[("shipmode1", "MAIL"), ("shipmode2", "SHIP"), ("date", "1994-01-01")]),
        13 => given(&[("word1", "special"), ("word2", "requests")]),
        14 => given(&[("date", "1995-09-01")]),
        15 => given(&[("date", "1996-01-01")]),
        16 => {
            let mut parameters = given(&[("brand", "Brand#45"), ("type", "MEDIUM POLISHED")]);
            parameters.0.extend(numbered("size", [49, 14, 23, 45, 19, 3, 36, 9]));
            parameters
        }
        17 => given(&[("brand", "Brand#23"), ("container", "MED BOX")]),
        18 => given(&[("quantity", "300")]),
        19 => Parameters(
            [
                numbered("brand", ["Brand#12", "Brand#23", "Brand#34"]),
                numbered("quantity", ["1", "10", "20"]),
            ]
            .concat(),
        ),
        20 => given(&[("color", "forest"), ("date", "1994-01-01"), ("nation", "CANADA")]),
        21 => given(&[("nation", "SAUDI ARABIA")]),
        _ => Parameters(numbered("code", [13, 31, 23, 29, 30, 18, 17])),
    }
}

fn drawn(query: Query, scale: Scale, draw: &mut Draw) -> Parameters {
    let lists = Distributions::static_default();
    let types = lists.part_types().get_values();
    let syllables = |kind: &str, from: usize, to: usize| -> String {
        kind.split(' ').skip(from).take(to - from).collect::<Vec<_>>().join(" ")
    };
    let (nations, regions) = (lists.nations().get_values(), lists.regions().get_values());
    match query.number() {
        1 => given(&[("delta", &draw.number(60, 120))]),
        2 => {
            let kind = syllables(draw.one_of(types), 2, 3);
            let (size, region) = (draw.number(1, 50), draw.one_of(regions));
            given(&[("size", &size), ("type", &kind), ("region", region)])
        }
        3 => {
            let segment = draw.one_of(lists.market_segments().get_values());
            given(&[("segment", segment), ("date", &format!("1995-03-{:02}", draw.between(1, 31)))])
        }
        4 => given(&[("date", &draw.month((1993, 1), (1997, 10)))]),
        5 => given(&[("region", draw.one_of(regions)), ("date", &draw.year())]),
        6 => {
            let discount = format!("0.{:02}", draw.between(2, 9));
            given(&[("date", &draw.year()), ("discount", &discount), ("quantity", &draw.number(24, 25))])
        }
        7 => {
            let two = draw.distinct(2, nations);
            given(&[("nation1", two[0]), ("nation2", two[1])])
        }
        8 => {
            let nation = draw.between(0, nations.len() as u64 - 1) as usize;
            // The generator has it as the weight: the key of the nation's region.
            let region = lists.nations().get_weight(nation) as usize;
            let kind = draw.one_of(types);
            given(&[("nation", nations[nation]), ("region", regions[region]), ("type", kind)])
        }
        9 => given(&[("color", draw.one_of(lists.part_colors().get_values()))]),
        10 => given(&[("date", &draw.month((1993, 2), (1995, 1)))]),
        11 => given(&[("nation", draw.one_of(nations)), ("fraction", &fraction(scale))]),
        12 => {
            let two = draw.distinct(2, lists.ship_modes().get_values());
            given(&[("shipmode1", two[0]), ("shipmode2", two[1]), ("date", &draw.year())])
        }
        13 => {
            let first = draw.one_of(&["special", "pending", "unusual", "express"]);
            given(&[
                ("word1", first),
                ("word2", draw.one_of(&["packages", "requests", "accounts", "deposits"])),
            ])
        }
        14 => given(&[("date", &draw.month((1993, 1), (1997, 12)))]),
        15 => given(&[("date", &draw.month((1993, 1), (1997, 10)))]),
        16 => {
            let kind = syllables(draw.one_of(types), 0, 2);
            let mut parameters = given(&[("brand", &draw.brand()), ("type", &kind)]);
            let sizes: Vec<u64> = (1..=50).collect();
            parameters.0.extend(numbered("size", draw.distinct(8, &sizes)));
            parameters
        }
        17 => {
            let container = draw.one_of(lists.part_containers().get_values());
            given(&[("brand", &draw.brand()), ("container", container)])
        }
        18 => given(&[("quantity", &draw.number(312, 315))]),
        19 => {
            let brands = [draw.brand(), draw.brand(), draw.brand()];
            let quantities = [draw.number(1, 10), draw.number(10, 20), draw.number(20, 30)];
            Parameters([numbered("brand", brands), numbered("quantity", quantities)].concat())
        }
        20 => {
            let color = draw.one_of(lists.part_colors().get_values());
            given(&[("color", color), ("date", &draw.year()), ("nation", draw.one_of(nations))])
        }
        21 => given(&[("nation", draw.one_of(nations))]),
        _ => {
            // Country codes are the keys of nations plus ten (clause 4.2.2.9).
            let codes: Vec<u64> = (10..10 + nations.len() as u64).collect();
            Parameters(numbered("code", draw.distinct(7, &codes)))
        }
    }
}

/// Draws values. Each query has its own stream, so that its parameters do not depend on which other queries run.
struct Draw(u64);

impl Draw {
    fn new(seed: u64, query: Query) -> Draw {
        let mut draw = Draw(seed ^ (u64::from(query.number()) << 56));
        draw.next();
        draw
    }

    /// The next of SplitMix64 (Steele, Lea, Flood 2014): equidistributed, and any seed will do.
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number from `low` to `high`, both possible.
    fn between(&mut self, low: u64, high: u64) -> u64 {
        // The remainder of 64 bits by at most a few hundred prefers some values by less than one in 10^16.
        low + self.next() % (high - low + 1)
    }

    fn number(&mut self, low: u64, high: u64) -> String {
        self.between(low, high).to_string()
    }

    fn one_of<T: Copy>(&mut self, values: &[T]) -> T {
        values[self.between(0, values.len() as u64 - 1) as usize]
    }

    fn distinct<T: Copy>(&mut self, count: usize, values: &[T]) -> Vec<T> {
        let mut left = values.to_vec();
        (0..count).map(|_| left.remove(self.between(0, left.len() as u64 - 1) as usize)).collect()
    }

    /// The first of January of one of the five whole years.
    fn year(&mut self) -> String {
        format!("{}-01-01", self.between(1993, 1997))
    }

    /// The first day of a month from one to another, each as year and month.
    fn month(&mut self, first: (u64, u64), last: (u64, u64)) -> String {
        let count = |(year, month): (u64, u64)| year * 12 + month - 1;
        let month = self.between(count(first), count(last));
        format!("{}-{:02}-01", month / 12, month % 12 + 1)
    }

    fn brand(&mut self) -> String {
        format!("Brand#{}{}", self.between(1, 5), self.between(1, 5))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn value(number: u8, seed: u64, name: &str) -> String {
        let parameters = Parameters::of(Query::new(number).unwrap(), Source::Seed(seed), Scale::ONE);
        parameters.get(name).unwrap_or_else(|| panic!("Q{number} has no {name}")).to_owned()
    }

    /// All values that many seeds give.
    fn values(number: u8, name: &str) -> HashSet<String> {
        (0..3000).map(|seed| value(number, seed, name)).collect()
    }

    fn numbers(number: u8, name: &str) -> (i64, i64) {
        let values: Vec<i64> = values(number, name).iter().map(|value| value.parse().unwrap()).collect();
        (*values.iter().min().unwrap(), *values.iter().max().unwrap())
    }

    #[test]
    fn no_placeholder_stays_and_none_is_superfluous() {
        for query in Query::all() {
            for source in [Source::Validation, Source::Seed(1)] {
                let parameters = Parameters::of(query, source, Scale::ONE);
                let sql = query.sql(&parameters);
                assert!(!sql.contains(['{', '}']), "{query}: {sql}");
                for (name, _) in parameters.pairs() {
                    assert!(query.template().contains(&format!("{{{name}}}")), "{query}: {name}");
                }
            }
        }
    }

    #[test]
    fn drawn_values_have_the_ranges_of_the_specification() {
        assert_eq!(numbers(1, "delta"), (60, 120));
        assert_eq!(numbers(2, "size"), (1, 50));
        assert_eq!(values(2, "type"), ["TIN", "NICKEL", "BRASS", "STEEL", "COPPER"].map(String::from).into());
        assert_eq!(values(2, "region").len(), 5);
        assert_eq!(values(3, "segment").len(), 5);
        assert_eq!(values(3, "date").len(), 31);
        assert_eq!(values(6, "discount").len(), 8);
        assert_eq!(numbers(6, "quantity"), (24, 25));
        assert_eq!(values(9, "color").len(), 92);
        assert_eq!(values(12, "shipmode1").len(), 7);
        assert_eq!(values(13, "word1").len() + values(13, "word2").len(), 8);
        assert_eq!(values(16, "type").len(), 30);
        assert_eq!(values(17, "container").len(), 40);
        assert_eq!(values(17, "brand").len(), 25);
        assert_eq!(numbers(18, "quantity"), (312, 315));
        assert_eq!(numbers(19, "quantity1"), (1, 10));
        assert_eq!(numbers(19, "quantity2"), (10, 20));
        assert_eq!(numbers(19, "quantity3"), (20, 30));
        assert_eq!(values(21, "nation").len(), 25);
        assert_eq!(numbers(22, "code7"), (10, 34));
    }

    #[test]
    fn months_and_years_end_where_the_specification_says() {
        let ends = |number| {
            let values = values(number, "date");
            let (first, last) = (values.iter().min().unwrap().clone(), values.iter().max().unwrap().clone());
            (first, last, values.len())
        };
        let months = |first: &str, last: &str, count| (first.to_owned(), last.to_owned(), count);
        assert_eq!(ends(4), months("1993-01-01", "1997-10-01", 58));
        assert_eq!(ends(5), months("1993-01-01", "1997-01-01", 5));
        assert_eq!(ends(10), months("1993-02-01", "1995-01-01", 24));
        assert_eq!(ends(14), months("1993-01-01", "1997-12-01", 60));
        assert_eq!(ends(15), months("1993-01-01", "1997-10-01", 58));
    }

    #[test]
    fn what_must_differ_differs() {
        for seed in 0..1000 {
            assert_ne!(value(7, seed, "nation1"), value(7, seed, "nation2"));
            assert_ne!(value(12, seed, "shipmode1"), value(12, seed, "shipmode2"));
            let sizes: HashSet<String> = (1..=8).map(|at| value(16, seed, &format!("size{at}"))).collect();
            assert_eq!(sizes.len(), 8);
            let codes: HashSet<String> = (1..=7).map(|at| value(22, seed, &format!("code{at}"))).collect();
            assert_eq!(codes.len(), 7);
        }
    }

    #[test]
    fn the_region_is_that_of_the_nation() {
        let told: HashSet<(String, String)> =
            (0..2000).map(|seed| (value(8, seed, "nation"), value(8, seed, "region"))).collect();
        assert_eq!(told.len(), 25, "one region a nation");
        for (nation, region) in
            [("FRANCE", "EUROPE"), ("BRAZIL", "AMERICA"), ("EGYPT", "MIDDLE EAST"), ("CHINA", "ASIA")]
        {
            assert!(told.contains(&(nation.into(), region.into())), "{nation}");
        }
    }

    #[test]
    fn a_seed_says_all_and_another_something_else() {
        let all = |seed| -> Vec<Parameters> {
            Query::all().iter().map(|query| Parameters::of(*query, Source::Seed(seed), Scale::ONE)).collect()
        };
        assert_eq!(all(7), all(7));
        assert_ne!(all(7), all(8));
    }

    #[test]
    fn the_fraction_shrinks_with_the_scale() {
        let of = |scale| {
            let query = Query::new(11).unwrap();
            let parameters = Parameters::of(query, Source::Validation, Scale::new(scale).unwrap());
            parameters.get("fraction").unwrap().to_owned()
        };
        assert_eq!(of(1.0), "0.0001000000");
        assert_eq!(of(0.01), "0.0100000000");
        assert_eq!(of(300.0), "0.0000003333");
    }
}
