//! The input data of transactions (clauses 2.4.1, 2.5.1, 2.6.1, 2.7.1, 2.8.1).

use crate::order::RunOrder;
use crate::population::ITEMS;
use crate::random::{Constants, Stream, A_CUSTOMER, A_ITEM, A_LAST};
use crate::work::{
    Customer, Delivery, Input, Kind, NewOrder, OrderLine, OrderStatus, Payment, StockLevel, MAX_LINES,
};

/// Common parameters of all inputs of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entries {
    constants: Constants,
    /// Warehouses of the whole database, from 1.
    all_warehouses: u32,
}

impl Entries {
    pub fn of(order: &RunOrder) -> Entries {
        Entries { constants: order.constants, all_warehouses: order.all_warehouses }
    }

    /// Draws the input at a terminal of a warehouse; the district is the terminal's in Stock-Level.
    pub fn draw(&self, kind: Kind, warehouse: u32, district: u8, stream: &mut Stream) -> Input {
        match kind {
            Kind::NewOrder => Input::NewOrder(self.new_order(warehouse, stream)),
            Kind::Payment => Input::Payment(self.payment(warehouse, stream)),
            Kind::OrderStatus => Input::OrderStatus(OrderStatus {
                warehouse,
                district: district_of(stream),
                customer: self.customer(stream),
            }),
            Kind::Delivery => Input::Delivery(Delivery { warehouse, carrier: stream.uniform(1..=10) as u8 }),
            Kind::StockLevel => Input::StockLevel(StockLevel {
                warehouse,
                district,
                threshold: stream.uniform(10..=20) as u8,
            }),
        }
    }

    fn new_order(&self, warehouse: u32, stream: &mut Stream) -> NewOrder {
        let district = district_of(stream);
        let customer = self.customer_number(stream);
        let line_count = stream.uniform(5..=15) as u8;
        let mut all_lines = [OrderLine::default(); MAX_LINES];
        let lines = &mut all_lines[..usize::from(line_count)];
        for line in &mut *lines {
            let item = stream.nurand(A_ITEM, self.constants.item, 1..=ITEMS);
            let supply = if stream.one_in(100) { self.other_warehouse(warehouse, stream) } else { warehouse };
            *line = OrderLine { item, supply, quantity: stream.uniform(1..=10) as u8 };
        }
        if stream.one_in(100) {
            lines[usize::from(line_count) - 1].item = ITEMS + 1;
        }
        NewOrder { warehouse, district, customer, line_count, all_lines }
    }

    fn payment(&self, warehouse: u32, stream: &mut Stream) -> Payment {
        let district = district_of(stream);
        let (customer_warehouse, customer_district) = if stream.uniform(1..=100) <= 85 {
            (warehouse, district)
        } else {
            (self.other_warehouse(warehouse, stream), district_of(stream))
        };
        let customer = self.customer(stream);
        let amount_cents = stream.uniform(100..=500_000);
        Payment { warehouse, district, customer_warehouse, customer_district, customer, amount_cents }
    }

    fn customer(&self, stream: &mut Stream) -> Customer {
        if stream.uniform(1..=100) <= 60 {
            Customer::Name(stream.nurand(A_LAST, self.constants.last, 0..=999) as u16)
        } else {
            Customer::Id(self.customer_number(stream))
        }
    }

    fn customer_number(&self, stream: &mut Stream) -> u16 {
        stream.nurand(A_CUSTOMER, self.constants.customer, 1..=3000) as u16
    }

    /// One of the other warehouses of the database, with equal probability; the same one if there is no other.
    fn other_warehouse(&self, warehouse: u32, stream: &mut Stream) -> u32 {
        if self.all_warehouses < 2 {
            return warehouse;
        }
        let other = stream.uniform(1..=self.all_warehouses - 1);
        other + u32::from(other >= warehouse)
    }
}

fn district_of(stream: &mut Stream) -> u8 {
    stream.uniform(1..=10) as u8
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Part;

    const DRAWS: u32 = 100_000;
    const ENTRIES: Entries =
        Entries { constants: Constants { last: 100, customer: 200, item: 300 }, all_warehouses: 5 };

    fn chi_square(counts: &[u32]) -> f64 {
        let expected = f64::from(counts.iter().sum::<u32>()) / counts.len() as f64;
        counts.iter().map(|&count| (f64::from(count) - expected).powi(2) / expected).sum()
    }

    /// Whether a count is within five deviations of its expected value.
    fn is_share(count: u32, of: u32, share: f64) -> bool {
        let deviation = (f64::from(of) * share * (1.0 - share)).sqrt();
        (f64::from(count) - f64::from(of) * share).abs() < 5.0 * deviation
    }

    fn orders(entries: Entries) -> impl Iterator<Item = NewOrder> {
        let mut stream = Stream::of(1, Part::Item, 0);
        (0..DRAWS).map(move |_| entries.new_order(3, &mut stream))
    }

    fn payments(entries: Entries) -> impl Iterator<Item = Payment> {
        let mut stream = Stream::of(2, Part::Item, 0);
        (0..DRAWS).map(move |_| entries.payment(3, &mut stream))
    }

    #[test]
    fn orders_are_those_of_the_specification() {
        let (mut districts, mut counts, mut quantities, mut supplies) = ([0; 10], [0; 11], [0; 10], [0; 4]);
        let (mut lines, mut rolled_back) = (0, 0);
        for order in orders(ENTRIES) {
            assert!(order.warehouse == 3 && (1..=3000).contains(&order.customer));
            districts[usize::from(order.district) - 1] += 1;
            counts[usize::from(order.line_count) - 5] += 1;
            rolled_back += u32::from(order.is_rolled_back());
            let (last, others) = order.lines().split_last().unwrap();
            assert!(others.iter().all(|line| (1..=ITEMS).contains(&line.item)) && last.item <= ITEMS + 1);
            for line in order.lines() {
                lines += 1;
                quantities[usize::from(line.quantity) - 1] += 1;
                match line.supply {
                    1 | 2 => supplies[line.supply as usize - 1] += 1,
                    3 => {}
                    other => supplies[other as usize - 2] += 1,
                }
            }
        }
        // p = 0.001 of chi-square with 9, 10, 9 and 3 degrees of freedom.
        assert!(chi_square(&districts) < 27.9, "{districts:?}");
        assert!(chi_square(&counts) < 29.6, "{counts:?}");
        assert!(chi_square(&quantities) < 27.9, "{quantities:?}");
        assert!(chi_square(&supplies) < 16.3, "{supplies:?}");
        assert!(is_share(supplies.iter().sum(), lines, 0.01), "{supplies:?} of {lines}");
        assert!(is_share(rolled_back, DRAWS, 0.01), "{rolled_back}");
    }

    #[test]
    fn payments_are_those_of_the_specification() {
        let (mut districts, mut theirs, mut warehouses) = ([0; 10], [0; 10], [0; 5]);
        let (mut by_name, mut amounts) = (0, [0; 10]);
        for payment in payments(ENTRIES) {
            districts[usize::from(payment.district) - 1] += 1;
            warehouses[payment.customer_warehouse as usize - 1] += 1;
            if payment.customer_warehouse == 3 {
                assert_eq!(payment.customer_district, payment.district);
            } else {
                theirs[usize::from(payment.customer_district) - 1] += 1;
            }
            by_name += u32::from(matches!(payment.customer, Customer::Name(name) if name < 1000));
            assert!((100..=500_000).contains(&payment.amount_cents));
            amounts[((payment.amount_cents - 100) * 10 / 499_901) as usize] += 1;
        }
        assert!(chi_square(&districts) < 27.9, "{districts:?}");
        assert!(chi_square(&theirs) < 27.9, "{theirs:?}");
        assert!(chi_square(&amounts) < 27.9, "{amounts:?}");
        let remote = [warehouses[0], warehouses[1], warehouses[3], warehouses[4]];
        assert!(chi_square(&remote) < 16.3, "{warehouses:?}");
        assert!(is_share(remote.iter().sum(), DRAWS, 0.15), "{warehouses:?}");
        assert!(is_share(by_name, DRAWS, 0.6), "{by_name}");
    }

    #[test]
    fn a_single_warehouse_has_no_others() {
        let alone = Entries { all_warehouses: 1, ..ENTRIES };
        // Warehouse 3 is the only one here.
        assert!(orders(alone).take(2000).all(|order| order.lines().iter().all(|line| line.supply == 3)));
        assert!(payments(alone).take(2000).all(|payment| payment.customer_warehouse == 3));
    }

    #[test]
    fn the_other_transactions_are_those_of_the_specification() {
        let mut stream = Stream::of(3, Part::Item, 0);
        let (mut carriers, mut thresholds, mut districts, mut by_name) = ([0; 10], [0; 11], [0; 10], 0);
        for _ in 0..DRAWS {
            match ENTRIES.draw(Kind::Delivery, 3, 7, &mut stream) {
                Input::Delivery(delivery) => carriers[usize::from(delivery.carrier) - 1] += 1,
                other => panic!("{other:?}"),
            }
            match ENTRIES.draw(Kind::StockLevel, 3, 7, &mut stream) {
                Input::StockLevel(level) => {
                    assert_eq!((level.warehouse, level.district), (3, 7));
                    thresholds[usize::from(level.threshold) - 10] += 1;
                }
                other => panic!("{other:?}"),
            }
            match ENTRIES.draw(Kind::OrderStatus, 3, 7, &mut stream) {
                Input::OrderStatus(status) => {
                    districts[usize::from(status.district) - 1] += 1;
                    by_name += u32::from(matches!(status.customer, Customer::Name(_)));
                }
                other => panic!("{other:?}"),
            }
        }
        assert!(chi_square(&carriers) < 27.9, "{carriers:?}");
        assert!(chi_square(&thresholds) < 29.6, "{thresholds:?}");
        assert!(chi_square(&districts) < 27.9, "{districts:?}");
        assert!(is_share(by_name, DRAWS, 0.6), "{by_name}");
    }

    #[test]
    fn customers_and_items_are_drawn_by_nurand_with_the_constants_of_the_run() {
        // Expected values from the formula: the exact probability of each customer, and a chi-square over all of
        // them.
        let mut exact = vec![0f64; 3000];
        for low in 0..=A_CUSTOMER {
            for high in 1..=3000 {
                exact[(((low | high) + 200) % 3000) as usize] += 1.0 / (1024.0 * 3000.0);
            }
        }
        let mut counts = vec![0u32; 3000];
        for order in orders(ENTRIES) {
            counts[usize::from(order.customer) - 1] += 1;
        }
        let chi: f64 = counts
            .iter()
            .zip(&exact)
            .map(|(&count, share)| {
                let expected = share * f64::from(DRAWS);
                (f64::from(count) - expected).powi(2) / expected
            })
            .sum();
        // 2999 degrees of freedom: mean 2999, standard deviation 77.4. The rarest customer is expected 0.1 times,
        // which widens the deviation by about 2 %.
        assert!((chi - 2999.0).abs() < 6.0 * 77.4, "{chi}");
        // With another C, the same draws give other customers with the same counts.
        let turned = Entries { constants: Constants { customer: 201, ..ENTRIES.constants }, ..ENTRIES };
        for (one, other) in orders(ENTRIES).zip(orders(turned)).take(1000) {
            assert_eq!(u32::from(one.customer) % 3000 + 1, u32::from(other.customer));
        }
    }
}
