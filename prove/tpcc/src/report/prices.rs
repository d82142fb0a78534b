//! A price sheet: the cost of the measured system, and per New-Order per minute.
//!
//! ```toml
//! currency = "EUR"
//! months = 36                  # of maintenance; 36 if nothing is said
//!
//! [[item]]
//! name = "server, 2 CPUs, 24 GiB"
//! price = 4200.0               # each
//! quantity = 1                 # 1 if nothing is said
//! maintenance = 35.0           # each, a month; 0 if nothing is said
//! ```

use crate::error::TpccError;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// A price sheet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prices {
    /// Currency of the prices.
    pub currency: String,
    /// Months of maintenance: three years, as in the specification's pricing.
    #[serde(default = "three_years")]
    pub months: u32,
    /// The priced items.
    #[serde(default, rename = "item")]
    pub items: Vec<Item>,
}

/// A priced item.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Item {
    /// Its name.
    pub name: String,
    /// Price of one.
    pub price: f64,
    /// Number of items.
    #[serde(default = "one")]
    pub quantity: f64,
    /// Maintenance per month of one.
    #[serde(default)]
    pub maintenance: f64,
}

fn three_years() -> u32 {
    36
}

fn one() -> f64 {
    1.0
}

impl Item {
    /// With its maintenance over this many months.
    pub fn total(&self, months: u32) -> f64 {
        self.quantity * (self.price + self.maintenance * f64::from(months))
    }
}

impl Prices {
    /// Parses a price sheet; `file` names it in errors.
    ///
    /// # Errors
    ///
    /// [`TpccError::BadPrices`] with what is wrong.
    pub fn parse(text: &str, file: &str) -> Result<Prices, TpccError> {
        let bad = |reason: String| TpccError::BadPrices { file: file.into(), reason };
        let prices: Prices =
            toml::from_str(text).map_err(|error| bad(error.to_string().trim_end().into()))?;
        if prices.items.is_empty() {
            return Err(bad("it has no [[item]]".into()));
        }
        for item in &prices.items {
            let numbers = [item.price, item.quantity, item.maintenance];
            if numbers.iter().any(|number| !number.is_finite() || *number < 0.0) {
                return Err(bad(format!("invalid number of {:?}", item.name)));
            }
        }
        Ok(prices)
    }

    /// Reads a price sheet.
    ///
    /// # Errors
    ///
    /// [`TpccError`] if the file cannot be read or is not a price sheet.
    pub fn load(path: &Path) -> Result<Prices, TpccError> {
        let file = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|error| TpccError::File {
            action: "read",
            file: file.clone(),
            error,
        })?;
        Prices::parse(&text, &file)
    }

    /// Total price.
    pub fn total(&self) -> f64 {
        self.items.iter().map(|item| item.total(self.months)).sum()
    }

    /// Price of one New-Order per minute; `None` without New-Orders.
    pub fn per_new_order(&self, new_orders_a_minute: f64) -> Option<f64> {
        (new_orders_a_minute >= 1.0).then(|| self.total() / new_orders_a_minute.floor())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sheet_adds_up() {
        let text = "currency = \"EUR\"\nmonths = 12\n[[item]]\nname = \"server\"\nprice = 1000\nquantity = 2\nmaintenance = 10\n\
                    [[item]]\nname = \"disk\"\nprice = 60.0\n";
        let prices = Prices::parse(text, "prices.toml").unwrap();
        // 2 x (1000 + 12 x 10) + 60.
        assert_eq!(prices.total(), 2300.0);
        assert_eq!(prices.per_new_order(1150.9), Some(2.0));
        assert_eq!(prices.per_new_order(0.0), None);
        assert_eq!(Prices::parse("currency='x'\n[[item]]\nname='a'\nprice=1\n", "").unwrap().months, 36);
    }

    #[test]
    fn what_is_no_sheet_is_refused_by_line() {
        let told = |text: &str| Prices::parse(text, "prices.toml").unwrap_err().to_string();
        assert!(told("currency = \"EUR\"").contains("no [[item]]"));
        assert!(told("currency = 'EUR'\n[[item]]\nname = 'a'\nprise = 3\n").contains("prise"));
        assert!(told("currency = 'EUR'\n[[item]]\nname = 'a'\nprice = -3\n").contains("invalid number of"));
        assert!(told("{}").contains("prices.toml is not a price sheet"));
    }
}
