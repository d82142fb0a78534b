//! The initial population, clause 4.3.3.1: rows of each table and warehouse, generated while they are loaded.

use crate::copy::{Decimal, Rows, Timestamp};
use crate::random::{Constants, Part, Share, Stream, A_LAST};
use crate::schema::Table;
use crate::text;

/// Items, and stock of each warehouse.
pub const ITEMS: u32 = 100_000;
/// Districts of a warehouse.
pub const DISTRICTS: u32 = 10;
/// Customers of a district; also the number of its orders.
pub const CUSTOMERS: u32 = 3_000;
/// The first order that is not yet delivered.
pub const FIRST_NEW_ORDER: u32 = 2_101;

/// The parameters that determine every byte of a population.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Population {
    /// Seed of all random streams.
    pub seed: u64,
    /// Constants of NURand; a load uses only that of C_LAST.
    pub constants: Constants,
    /// "The current date" of clause 4.3.3.1, one for all rows.
    pub loaded_at: Timestamp,
}

/// Appends some rows; returns whether more follow.
pub type RowMaker = Box<dyn FnMut(&mut Rows) -> bool + Send>;

/// Rows of a counted table that a [`RowMaker`] appends per call: about 50 KB.
const BATCH: u32 = 200;

impl Population {
    /// The rows of a load with this seed, at this "current date".
    pub fn of_load(seed: u64, loaded_at: Timestamp) -> Population {
        Population { seed, constants: Constants::for_load(seed), loaded_at }
    }

    /// The rows of a table that belong to a warehouse; for ITEM, all rows.
    pub fn rows(&self, table: Table, warehouse: u32) -> RowMaker {
        let population = *self;
        let columns = table.column_count();
        match table {
            Table::Item => {
                let mut stream = population.stream(Part::Item, 0);
                let mut original = Share::of(ITEMS / 10, ITEMS);
                counted(ITEMS, move |item, rows| {
                    population.item(item, &mut stream, &mut original, rows.row(columns));
                })
            }
            Table::Warehouse => {
                let mut stream = population.stream(Part::Warehouse, warehouse);
                counted(1, move |_, rows| population.warehouse(warehouse, &mut stream, rows.row(columns)))
            }
            Table::Stock => {
                let mut stream = population.stream(Part::Stock, warehouse);
                let mut original = Share::of(ITEMS / 10, ITEMS);
                counted(ITEMS, move |item, rows| {
                    population.stock(warehouse, item, &mut stream, &mut original, rows.row(columns));
                })
            }
            Table::District => {
                let mut stream = population.stream(Part::District, warehouse);
                counted(DISTRICTS, move |district, rows| {
                    population.district(warehouse, district, &mut stream, rows.row(columns));
                })
            }
            Table::Customer => {
                let mut stream = population.stream(Part::Customer, warehouse);
                let mut bad_credit = Share::of(0, 0);
                counted(DISTRICTS * CUSTOMERS, move |number, rows| {
                    let (district, customer) = split(number);
                    if customer == 1 {
                        bad_credit = Share::of(CUSTOMERS / 10, CUSTOMERS);
                    }
                    let bad = bad_credit.takes(&mut stream);
                    population.customer(warehouse, district, customer, bad, &mut stream, rows.row(columns));
                })
            }
            Table::History => {
                let mut stream = population.stream(Part::History, warehouse);
                counted(DISTRICTS * CUSTOMERS, move |number, rows| {
                    let (district, customer) = split(number);
                    rows.row(columns).integer(customer).integer(district).integer(warehouse);
                    rows.integer(district).integer(warehouse).timestamp(population.loaded_at);
                    rows.numeric(Decimal::cents(1_000));
                    rows.made(|bytes| text::a_string(&mut stream, 12..=24, bytes));
                })
            }
            Table::Orders => population.orders(warehouse),
            Table::NewOrder => counted(DISTRICTS * (CUSTOMERS - FIRST_NEW_ORDER + 1), move |number, rows| {
                let per_district = CUSTOMERS - FIRST_NEW_ORDER + 1;
                let (district, order) = ((number - 1) / per_district + 1, (number - 1) % per_district);
                rows.row(columns).integer(FIRST_NEW_ORDER + order).integer(district).integer(warehouse);
            }),
            Table::OrderLine => population.order_lines(warehouse),
        }
    }

    fn stream(&self, part: Part, warehouse: u32) -> Stream {
        Stream::of(self.seed, part, warehouse)
    }

    fn item(&self, item: u32, stream: &mut Stream, original: &mut Share, rows: &mut Rows) {
        rows.integer(item).integer(stream.uniform(1..=10_000));
        rows.made(|bytes| text::a_string(stream, 14..=24, bytes));
        rows.numeric(Decimal::cents(i64::from(stream.uniform(100..=10_000))));
        let original = original.takes(stream);
        rows.made(|bytes| text::data(stream, original, bytes));
    }

    fn warehouse(&self, warehouse: u32, stream: &mut Stream, rows: &mut Rows) {
        rows.integer(warehouse).made(|bytes| text::a_string(stream, 6..=10, bytes));
        address(stream, rows);
        rows.numeric(Decimal::rate(i64::from(stream.uniform(0..=2000))));
        rows.numeric(Decimal::cents(30_000_000));
    }

    fn district(&self, warehouse: u32, district: u32, stream: &mut Stream, rows: &mut Rows) {
        rows.integer(district).integer(warehouse).made(|bytes| text::a_string(stream, 6..=10, bytes));
        address(stream, rows);
        rows.numeric(Decimal::rate(i64::from(stream.uniform(0..=2000))));
        rows.numeric(Decimal::cents(3_000_000)).integer(CUSTOMERS + 1);
    }

    fn stock(&self, warehouse: u32, item: u32, stream: &mut Stream, original: &mut Share, rows: &mut Rows) {
        rows.integer(item).integer(warehouse).integer(stream.uniform(10..=100));
        for _ in 0..DISTRICTS {
            rows.made(|bytes| text::a_string(stream, 24..=24, bytes));
        }
        rows.integer(0).integer(0).integer(0);
        let original = original.takes(stream);
        rows.made(|bytes| text::data(stream, original, bytes));
    }

    fn customer(
        &self,
        warehouse: u32,
        district: u32,
        customer: u32,
        bad_credit: bool,
        stream: &mut Stream,
        rows: &mut Rows,
    ) {
        // The first thousand customers have all names in order, so that every name occurs (clause 4.3.3.1).
        let name = match customer {
            1..=1000 => customer - 1,
            _ => stream.nurand(A_LAST, self.constants.last, 0..=999),
        };
        rows.integer(customer).integer(district).integer(warehouse);
        rows.made(|bytes| text::a_string(stream, 8..=16, bytes)).text(b"OE");
        rows.text(text::last_name(name).as_bytes());
        address(stream, rows);
        rows.made(|bytes| text::n_string(stream, 16, bytes)).timestamp(self.loaded_at);
        rows.text(if bad_credit { b"BC" } else { b"GC" }).numeric(Decimal::cents(5_000_000));
        rows.numeric(Decimal::rate(i64::from(stream.uniform(0..=5000))));
        rows.numeric(Decimal::cents(-1_000)).numeric(Decimal::cents(1_000)).integer(1).integer(0);
        rows.made(|bytes| text::a_string(stream, 300..=500, bytes));
    }

    fn orders(&self, warehouse: u32) -> RowMaker {
        let population = *self;
        let columns = Table::Orders.column_count();
        let mut stream = self.stream(Part::Orders, warehouse);
        let mut line_counts = self.stream(Part::OrderLineCounts, warehouse);
        let mut customers = vec![];
        counted(DISTRICTS * CUSTOMERS, move |number, rows| {
            let (district, order) = split(number);
            if order == 1 {
                customers = stream.permutation(1..=CUSTOMERS);
            }
            rows.row(columns).integer(order).integer(district).integer(warehouse);
            rows.integer(customers[order as usize - 1]).timestamp(population.loaded_at);
            if order < FIRST_NEW_ORDER {
                rows.integer(stream.uniform(1..=10));
            } else {
                rows.null();
            }
            rows.integer(line_count(&mut line_counts)).integer(1);
        })
    }

    fn order_lines(&self, warehouse: u32) -> RowMaker {
        let population = *self;
        let columns = Table::OrderLine.column_count();
        let mut stream = self.stream(Part::OrderLine, warehouse);
        let mut line_counts = self.stream(Part::OrderLineCounts, warehouse);
        counted(DISTRICTS * CUSTOMERS, move |number, rows| {
            let (district, order) = split(number);
            for line in 1..=line_count(&mut line_counts) {
                rows.row(columns).integer(order).integer(district).integer(warehouse).integer(line);
                rows.integer(stream.uniform(1..=ITEMS)).integer(warehouse);
                if order < FIRST_NEW_ORDER {
                    rows.timestamp(population.loaded_at).integer(5).numeric(Decimal::cents(0));
                } else {
                    let amount = stream.uniform(1..=999_999);
                    rows.null().integer(5).numeric(Decimal::cents(i64::from(amount)));
                }
                rows.made(|bytes| text::a_string(&mut stream, 24..=24, bytes));
            }
        })
    }
}

/// O_OL_CNT. ORDERS and ORDER-LINE draw it from streams of the same name, so that they agree.
fn line_count(stream: &mut Stream) -> u32 {
    stream.uniform(5..=15)
}

/// District and customer, or order, of a number that counts through all districts of a warehouse.
fn split(number: u32) -> (u32, u32) {
    ((number - 1) / CUSTOMERS + 1, (number - 1) % CUSTOMERS + 1)
}

fn address(stream: &mut Stream, rows: &mut Rows) {
    for _ in 0..3 {
        rows.made(|bytes| text::a_string(stream, 10..=20, bytes));
    }
    rows.made(|bytes| text::letters(stream, 2, bytes)).made(|bytes| text::zip(stream, bytes));
}

/// A maker of `count` rows, numbered from 1.
fn counted(count: u32, mut make: impl FnMut(u32, &mut Rows) + Send + 'static) -> RowMaker {
    let mut next = 1;
    Box::new(move |rows| {
        let end = count.min(next + BATCH - 1);
        for number in next..=end {
            make(number, rows);
        }
        next = end + 1;
        next <= count
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn population(seed: u64) -> Population {
        Population { seed, constants: Constants::for_load(seed), loaded_at: Timestamp(0) }
    }

    fn bytes(population: &Population, table: Table, warehouse: u32) -> Vec<u8> {
        let mut make = population.rows(table, warehouse);
        let mut rows = Rows::default();
        while make(&mut rows) {}
        rows.into_bytes()
    }

    /// Parses COPY's bytes into rows of fields; `None` is NULL.
    fn parsed(bytes: &[u8]) -> Vec<Vec<Option<Vec<u8>>>> {
        let mut rest = bytes;
        let mut take = |length: usize| {
            let (taken, left) = rest.split_at(length);
            rest = left;
            taken
        };
        let mut rows = vec![];
        let mut used = 0;
        while used < bytes.len() {
            let columns = i16::from_be_bytes(take(2).try_into().unwrap());
            used += 2;
            let mut row = vec![];
            for _ in 0..columns {
                let length = i32::from_be_bytes(take(4).try_into().unwrap());
                used += 4;
                if length < 0 {
                    row.push(None);
                } else {
                    row.push(Some(take(length as usize).to_vec()));
                    used += length as usize;
                }
            }
            rows.push(row);
        }
        rows
    }

    fn integer(field: &Option<Vec<u8>>) -> u32 {
        u32::from_be_bytes(field.as_deref().unwrap().try_into().unwrap())
    }

    #[test]
    fn a_warehouse_is_the_same_whoever_makes_it_and_others_are_not() {
        for table in [Table::District, Table::Customer, Table::Orders] {
            assert!(bytes(&population(1), table, 3) == bytes(&population(1), table, 3));
            assert!(bytes(&population(1), table, 3) != bytes(&population(1), table, 4));
            assert!(bytes(&population(1), table, 3) != bytes(&population(2), table, 3));
        }
    }

    #[test]
    fn tables_have_their_cardinalities() {
        for table in Table::ALL {
            if table != Table::OrderLine {
                let rows = parsed(&bytes(&population(1), table, 1));
                assert_eq!(rows.len() as u64, table.rows(), "{table}");
                assert!(rows.iter().all(|row| row.len() == table.column_count() as usize));
            }
        }
    }

    #[test]
    fn orders_and_their_lines_agree() {
        let orders = parsed(&bytes(&population(7), Table::Orders, 2));
        let lines = parsed(&bytes(&population(7), Table::OrderLine, 2));
        let mut at = 0;
        for order in &orders {
            let count = integer(&order[6]);
            assert!((5..=15).contains(&count));
            let delivered = order[5].is_some();
            assert_eq!(delivered, integer(&order[0]) < 2101);
            for number in 1..=count {
                let line = &lines[at];
                assert_eq!((integer(&line[0]), integer(&line[1])), (integer(&order[0]), integer(&order[1])));
                assert_eq!(integer(&line[3]), number);
                assert_eq!(line[6].is_some(), delivered);
                at += 1;
            }
        }
        assert_eq!(at, lines.len());
    }

    #[test]
    fn tenths_are_exact_and_every_name_is_there() {
        let items = parsed(&bytes(&population(1), Table::Item, 0));
        let original = |row: &Vec<Option<Vec<u8>>>| {
            String::from_utf8(row[4].clone().unwrap()).unwrap().contains(text::ORIGINAL)
        };
        // Ten thousand; a random string contains ORIGINAL with probability 10^-9.
        assert_eq!(items.iter().filter(|row| original(row)).count(), 10_000);
        let customers = parsed(&bytes(&population(1), Table::Customer, 1));
        for district in customers.chunks(3000) {
            assert_eq!(district.iter().filter(|row| row[13].as_deref() == Some(b"BC")).count(), 300);
            let mut names: Vec<_> = district[..1000].iter().map(|row| row[5].clone().unwrap()).collect();
            names.sort();
            names.dedup();
            assert_eq!(names.len(), 1000);
        }
    }
}
