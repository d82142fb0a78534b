//! Inputs of transactions as from terminals, from a seed; more of the rare kinds than in TPC-C's mix.

use hardmeter_tpcc::random::{Part, Stream};
use hardmeter_tpcc::work::{
    Customer, Delivery, Input, NewOrder, OrderLine, OrderStatus, Payment, StockLevel, MAX_LINES,
};

/// `count` inputs for `warehouses` warehouses.
pub fn inputs(seed: u64, warehouses: u32, count: usize) -> Vec<Input> {
    let mut stream = Stream::of(seed, Part::Customer, 0);
    (0..count).map(|_| input(&mut stream, warehouses)).collect()
}

fn input(stream: &mut Stream, warehouses: u32) -> Input {
    let warehouse = stream.uniform(1..=warehouses);
    let district = stream.uniform(1..=10) as u8;
    match stream.uniform(1..=100) {
        1..=45 => {
            let line_count = stream.uniform(5..=15) as u8;
            let mut all_lines = [OrderLine::default(); MAX_LINES];
            for line in &mut all_lines[..usize::from(line_count)] {
                // Few items, so that some orders contain an item twice.
                line.item = stream.uniform(1..=60);
                let remote = stream.uniform(1..=20) == 1;
                line.supply = if remote { stream.uniform(1..=warehouses) } else { warehouse };
                line.quantity = stream.uniform(1..=10) as u8;
            }
            if stream.uniform(1..=20) == 1 {
                all_lines[usize::from(line_count) - 1].item = 200_000;
            }
            let customer = stream.uniform(1..=3_000) as u16;
            Input::NewOrder(NewOrder { warehouse, district, customer, line_count, all_lines })
        }
        46..=80 => {
            let remote = stream.uniform(1..=100) <= 15;
            Input::Payment(Payment {
                warehouse,
                district,
                customer_warehouse: if remote { stream.uniform(1..=warehouses) } else { warehouse },
                customer_district: if remote { stream.uniform(1..=10) as u8 } else { district },
                customer: customer(stream),
                amount_cents: stream.uniform(100..=500_000),
            })
        }
        81..=87 => {
            let customer = customer(stream);
            Input::OrderStatus(OrderStatus { warehouse, district, customer })
        }
        88..=93 => Input::Delivery(Delivery { warehouse, carrier: stream.uniform(1..=10) as u8 }),
        _ => {
            let threshold = stream.uniform(10..=20) as u8;
            Input::StockLevel(StockLevel { warehouse, district, threshold })
        }
    }
}

fn customer(stream: &mut Stream) -> Customer {
    if stream.uniform(1..=100) <= 60 {
        Customer::Name(stream.uniform(0..=999) as u16)
    } else {
        Customer::Id(stream.uniform(1..=3_000) as u16)
    }
}
