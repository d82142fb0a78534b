//! The scale of the data: scale 1 is about 1 GB of raw rows.

use crate::error::TpchError;
use crate::schema::Table;
use std::fmt;
use std::str::FromStr;

/// The specification's scale factor SF. Factors below 1 are not in the specification; they give small databases for
/// tests, with the same rules for the numbers of rows.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, serde::Serialize)]
pub struct Scale(f64);

impl Scale {
    /// The scale for which answers are published.
    pub const ONE: Scale = Scale(1.0);
    const SMALLEST: f64 = 0.01;
    /// Keys of orders are below 6,000,000 x SF; up to here they fit into an integer of four bytes.
    const LARGEST: f64 = 300.0;

    /// A scale, if data can be made for it.
    ///
    /// # Errors
    ///
    /// [`TpchError::BadScale`] with the reason.
    pub fn new(factor: f64) -> Result<Scale, TpchError> {
        let bad = |reason| TpchError::BadScale { scale: factor.to_string(), reason };
        if !factor.is_finite() {
            return Err(bad("it is not a number"));
        }
        if factor < Self::SMALLEST {
            return Err(bad("it is below 0.01: there are too few suppliers for four a part"));
        }
        if factor > Self::LARGEST {
            return Err(bad("above 300 the keys of orders do not fit into an integer"));
        }
        let scale = Scale(factor);
        if !has_four_suppliers(scale.rows(Table::Supplier)) {
            return Err(bad("clause 4.2.3 would give a part the same supplier twice"));
        }
        Ok(scale)
    }

    /// The factor.
    pub fn factor(self) -> f64 {
        self.0
    }

    /// Number of rows of a table, by clause 4.2.5. For `lineitem` it is an estimate: each order has one to seven
    /// items, drawn at random.
    pub fn rows(self, table: Table) -> u64 {
        let base = match table {
            Table::Region => return 5,
            Table::Nation => return 25,
            Table::Supplier => 10_000.0,
            Table::Customer => 150_000.0,
            Table::Part => 200_000.0,
            Table::PartSupp => 800_000.0,
            Table::Orders => 1_500_000.0,
            Table::LineItem => 6_000_000.0,
        };
        (base * self.0).round() as u64
    }

    /// Number of orders that a refresh function inserts or deletes: 0.1 %, by clause 2.5.
    pub fn orders_of_a_refresh(self) -> u64 {
        self.rows(Table::Orders) / 1000
    }
}

/// Whether the four suppliers of each part differ. By clause 4.2.3 they are (p + i (S/4 + (p - 1)/S)) mod S, where
/// the quotient runs from 0 to 19: twenty parts per supplier.
fn has_four_suppliers(suppliers: u64) -> bool {
    (0..20).all(|quotient| (1..=3_u64).all(|i| !(i * (suppliers / 4 + quotient)).is_multiple_of(suppliers)))
}

impl fmt::Display for Scale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl FromStr for Scale {
    type Err = TpchError;

    fn from_str(text: &str) -> Result<Scale, TpchError> {
        let bad = || TpchError::BadScale { scale: text.to_owned(), reason: "it is not a number" };
        Scale::new(text.trim().parse().map_err(|_| bad())?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_those_of_the_specification() {
        assert_eq!(Scale::ONE.rows(Table::Orders), 1_500_000);
        let hundredth = Scale::new(0.01).unwrap();
        assert_eq!(hundredth.rows(Table::Supplier), 100);
        assert_eq!(hundredth.rows(Table::PartSupp), 8_000);
        assert_eq!(hundredth.rows(Table::Nation), 25);
        assert_eq!(hundredth.orders_of_a_refresh(), 15);
        assert_eq!(Scale::ONE.orders_of_a_refresh(), 1_500);
    }

    #[test]
    fn scales_that_cannot_be_made_are_refused() {
        // With 120 suppliers, 3 x (30 + 10) is 120: the first and the last of the four are equal.
        for text in ["0", "-1", "nan", "inf", "301", "big", "", "0.001", "0.012"] {
            let error = text.parse::<Scale>().unwrap_err();
            assert!(error.remedy().contains("0.01 to 300"), "{text}: {error}");
        }
        assert!(has_four_suppliers(100) && has_four_suppliers(1000) && !has_four_suppliers(120));
        assert_eq!("0.1".parse::<Scale>().unwrap().to_string(), "0.1");
        assert_eq!(" 10 ".parse::<Scale>().unwrap().to_string(), "10");
    }
}
