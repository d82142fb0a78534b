//! The rows of a site, computed from a seed: a row is the same for every caller and in every order.
//!
//! Related rows are consistent, so that pages can be checked against sums: an item's price is its highest bid, its count that of
//! its bids; a member's rating is the sum of what was said of him.

use crate::random::{Part, Stream};
use crate::schema::Table;
use crate::words::{description, region, CATEGORIES, KINDS, REGIONS, THINGS};
use serde::{Deserialize, Serialize};
use std::io::Write;

const HOUR: u32 = 3600;
const DAY: u32 = 24 * HOUR;

/// How many there are of each, and what decides over them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Population {
    /// What decides over the rows.
    pub seed: u64,
    /// Seconds since 1970: "now" of the data. All open auctions end between one and eight days later.
    pub now: u64,
    /// Members; their names are `user1` to `userN`, their passwords `password1` to `passwordN`.
    pub users: u32,
    /// Open auctions.
    pub items: u32,
    /// Auctions that are over.
    pub old_items: u32,
    /// Things that were said.
    pub comments: u32,
    /// Purchases without an auction.
    pub purchases: u32,
}

impl Population {
    /// A site of a size: at scale 1 100,000 members, 33,000 open auctions with 330,000 bids, 100,000 old ones, 100,000 comments.
    pub fn of_scale(scale: f64, seed: u64, now: u64) -> Population {
        let scaled = |number: f64| ((number * scale).round() as u32).max(40);
        Population {
            seed,
            now,
            users: scaled(100_000.0),
            items: scaled(33_000.0),
            old_items: scaled(100_000.0),
            comments: scaled(100_000.0),
            purchases: scaled(10_000.0),
        }
    }

    /// How many units a table is made of: rows, but for bids, which are made by item.
    pub fn units(&self, table: Table) -> u32 {
        match table {
            Table::Categories => CATEGORIES.len() as u32,
            Table::Regions => REGIONS,
            Table::Users => self.users,
            Table::Items | Table::Bids => self.items,
            Table::OldItems => self.old_items,
            Table::Comments => self.comments,
            Table::BuyNow => self.purchases,
        }
    }

    /// What must be known of all comments before the first member's row can be written.
    pub fn ratings(&self) -> Vec<i32> {
        let mut ratings = vec![0; self.users as usize];
        for number in 0..self.comments {
            let comment = self.comment(number);
            ratings[comment.to as usize - 1] += comment.rating;
        }
        ratings
    }

    /// Appends a unit of a table as lines, columns between tabulators, as [`Table::load`] wants them.
    pub fn write(&self, table: Table, unit: u32, ratings: &[i32], to: &mut Vec<u8>) {
        let id = unit + 1;
        let written = match table {
            Table::Categories => writeln!(to, "{id}\t{}", CATEGORIES[unit as usize % CATEGORIES.len()]),
            Table::Regions => writeln!(to, "{id}\t{}", region(id)),
            Table::Users => self.write_user(id, ratings.get(unit as usize).copied().unwrap_or(0), to),
            Table::Items => self.write_item(id, to),
            Table::OldItems => self.write_old_item(id, to),
            Table::Bids => self.write_bids(id, to),
            Table::Comments => self.write_comment(unit, to),
            Table::BuyNow => self.write_purchase(unit, to),
        };
        written.expect("a vector takes everything");
    }

    fn write_user(&self, id: u32, rating: i32, to: &mut Vec<u8>) -> std::io::Result<()> {
        let mut stream = Stream::of_one(self.seed, Part::Users, id);
        let (region, age) = (stream.within(1, REGIONS), stream.within(30, 2000));
        let created = self.now - u64::from(age * DAY);
        writeln!(
            to,
            "{id}\tFirst{id}\tLast{id}\tuser{id}\tpassword{id}\tuser{id}@example.org\t{rating}\t0\t{created}\t{region}"
        )
    }

    fn write_item(&self, id: u32, to: &mut Vec<u8>) -> std::io::Result<()> {
        let item = self.item(id);
        let bids = self.bids(id, &item);
        let highest = bids.last().map_or(0, |bid| bid.bid);
        let start = self.now - u64::from(item.age);
        let end = self.now + u64::from(item.left);
        write!(to, "{id}\t{}\t{}\t{}\t{}\t", item.name, item.description, item.initial_price, item.quantity)?;
        write!(to, "{}\t{}\t{}\t{highest}\t", item.reserve_price, item.buy_now, bids.len())?;
        writeln!(to, "{start}\t{end}\t{}\t{}", item.seller, item.category)
    }

    fn write_old_item(&self, id: u32, to: &mut Vec<u8>) -> std::io::Result<()> {
        let mut stream = Stream::of_one(self.seed, Part::OldItems, id);
        let item = self.drawn(&mut stream);
        let bids = stream.below(21);
        let highest = if bids == 0 { 0 } else { item.initial_price + bids * 150 };
        let ended = self.now - u64::from(stream.within(HOUR, 300 * DAY));
        let began = ended - u64::from(7 * DAY);
        // Ids go on where those of open auctions end, so that an id means one auction.
        write!(to, "{}\t{}\t{}\t", self.items + id, item.name, item.description)?;
        write!(to, "{}\t{}\t{}\t", item.initial_price, item.quantity, item.reserve_price)?;
        writeln!(
            to,
            "{}\t{bids}\t{highest}\t{began}\t{ended}\t{}\t{}",
            item.buy_now, item.seller, item.category
        )
    }

    fn write_bids(&self, id: u32, to: &mut Vec<u8>) -> std::io::Result<()> {
        let item = self.item(id);
        for bid in self.bids(id, &item) {
            let date = self.now - u64::from(bid.age);
            writeln!(to, "{}\t{id}\t{}\t{}\t{}\t{date}", bid.user, bid.quantity, bid.bid, bid.bid + 500)?;
        }
        Ok(())
    }

    fn write_comment(&self, number: u32, to: &mut Vec<u8>) -> std::io::Result<()> {
        let mut comment = self.comment(number);
        let mut text = String::new();
        description(&mut comment.rest, 20, 300, &mut text);
        let date = self.now - u64::from(comment.rest.within(HOUR, 300 * DAY));
        let item = comment.rest.within(1, self.items + self.old_items);
        writeln!(to, "{}\t{}\t{item}\t{}\t{date}\t{text}", comment.from, comment.to, comment.rating)
    }

    fn write_purchase(&self, number: u32, to: &mut Vec<u8>) -> std::io::Result<()> {
        let mut stream = Stream::of_one(self.seed, Part::BuyNow, number);
        let (buyer, item) = (stream.within(1, self.users), stream.within(1, self.items));
        let date = self.now - u64::from(stream.within(HOUR, 6 * DAY));
        writeln!(to, "{buyer}\t{item}\t{}\t{date}", stream.within(1, 3))
    }

    fn item(&self, id: u32) -> Item {
        self.drawn(&mut Stream::of_one(self.seed, Part::Items, id))
    }

    fn drawn(&self, stream: &mut Stream) -> Item {
        let kind = stream.one_of(&KINDS).expect("there are kinds");
        let thing = stream.one_of(&THINGS).expect("there are things");
        let name = format!("{kind} {thing} no {}", stream.within(1, 9999));
        let initial_price = stream.within(100, 20_000);
        let mut text = String::new();
        description(stream, 100, 500, &mut text);
        Item {
            name,
            description: text,
            initial_price,
            quantity: stream.within(1, 10),
            reserve_price: if stream.below(5) < 2 { initial_price + 1000 } else { 0 },
            buy_now: if stream.below(5) < 2 { initial_price * 2 } else { 0 },
            age: stream.within(12 * HOUR, 6 * DAY),
            left: stream.within(DAY, 8 * DAY),
            seller: stream.within(1, self.users),
            category: stream.within(1, CATEGORIES.len() as u32),
        }
    }

    /// Of an item, rising: none to twenty, ten by the mean.
    fn bids(&self, id: u32, item: &Item) -> Vec<Bid> {
        let mut stream = Stream::of_one(self.seed, Part::Bids, id);
        let number = stream.below(21);
        let mut bid = item.initial_price;
        let each = |at: u32| {
            bid += if at == 0 { 0 } else { stream.within(100, 500) };
            let user = stream.within(1, self.users);
            let quantity = stream.within(1, item.quantity);
            // Evenly over the auction so far, so that later bids are higher ones.
            Bid { user, quantity, bid, age: item.age - item.age / (number + 1) * (at + 1) }
        };
        (0..number).map(each).collect()
    }

    fn comment(&self, number: u32) -> Comment {
        let mut stream = Stream::of_one(self.seed, Part::Comments, number);
        let (from, to) = (stream.within(1, self.users), stream.within(1, self.users));
        let rating = *stream.one_of(&[-5, -3, 0, 3, 5]).expect("there are ratings");
        Comment { from, to, rating, rest: stream }
    }
}

struct Item {
    name: String,
    description: String,
    initial_price: u32,
    quantity: u32,
    reserve_price: u32,
    buy_now: u32,
    /// Seconds since it began.
    age: u32,
    /// Seconds until it ends.
    left: u32,
    seller: u32,
    category: u32,
}

struct Bid {
    user: u32,
    quantity: u32,
    bid: u32,
    /// Seconds since.
    age: u32,
}

struct Comment {
    from: u32,
    to: u32,
    rating: i32,
    rest: Stream,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn small(seed: u64) -> Population {
        Population::of_scale(0.01, seed, 1_800_000_000)
    }

    fn lines(population: &Population, table: Table) -> Vec<Vec<String>> {
        let ratings = population.ratings();
        let mut bytes = Vec::new();
        for unit in 0..population.units(table) {
            population.write(table, unit, &ratings, &mut bytes);
        }
        let text = String::from_utf8(bytes).unwrap();
        text.lines().map(|line| line.split('\t').map(str::to_owned).collect()).collect()
    }

    #[test]
    fn a_seed_gives_the_same_rows_and_another_gives_others() {
        for table in Table::ALL {
            assert_eq!(lines(&small(5), table), lines(&small(5), table), "{table:?}");
        }
        assert_ne!(lines(&small(5), Table::Items), lines(&small(6), Table::Items));
    }

    #[test]
    fn prices_are_the_highest_bids_and_ratings_the_sum_of_comments() {
        let population = small(1);
        let (items, bids) = (lines(&population, Table::Items), lines(&population, Table::Bids));
        assert_eq!(items.len(), 330);
        assert!((2900..3700).contains(&bids.len()), "{} bids, ten an item", bids.len());
        for item in &items {
            let own: Vec<u32> =
                bids.iter().filter(|bid| bid[1] == item[0]).map(|bid| bid[3].parse().unwrap()).collect();
            assert_eq!(item[7], own.len().to_string());
            assert_eq!(item[8], own.iter().max().unwrap_or(&0).to_string());
            assert!(own.windows(2).all(|pair| pair[1] >= pair[0] + 100), "{own:?}");
            assert!(item[9].parse::<u64>().unwrap() < population.now);
            assert!(item[10].parse::<u64>().unwrap() >= population.now + u64::from(DAY));
        }
        let (users, comments) = (lines(&population, Table::Users), lines(&population, Table::Comments));
        assert_eq!((users.len(), comments.len()), (1000, 1000));
        for user in &users {
            let said = comments.iter().filter(|comment| comment[1] == user[0]);
            assert_eq!(
                user[6],
                said.map(|comment| comment[3].parse::<i32>().unwrap()).sum::<i32>().to_string()
            );
        }
        for bid in &bids {
            assert!(bid[5].parse::<u64>().unwrap() <= population.now);
        }
    }
}
