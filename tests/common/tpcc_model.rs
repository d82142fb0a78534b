//! A model of TPC-C's transactions, row by row in plain data, derived from the clauses and not from Hardmeter's
//! SQL.

use hardmeter_tpcc::text::last_name;
use hardmeter_tpcc::work::{Customer, Delivery, Input, NewOrder, Outcome, Payment};
use std::collections::BTreeMap;

/// Rows as a server gives them.
pub type Query<'a> = &'a dyn Fn(&str) -> Vec<Vec<Option<String>>>;

/// Warehouse, district.
type District = (u32, u32);
/// Warehouse, district, number.
type Key = (u32, u32, u32);

#[derive(Clone, Debug, PartialEq)]
struct DistrictRow {
    next_order: u32,
    ytd: i64,
    name: String,
}

#[derive(Clone, Debug, PartialEq)]
struct CustomerRow {
    first: String,
    last: String,
    credit: String,
    balance: i64,
    ytd_payment: i64,
    payments: u32,
    deliveries: u32,
    data: String,
}

#[derive(Clone, Debug, PartialEq)]
struct StockRow {
    quantity: i64,
    ytd: i64,
    orders: u32,
    remote: u32,
}

#[derive(Clone, Debug, PartialEq)]
struct OrderRow {
    customer: u32,
    carrier: Option<u32>,
    lines: u32,
    all_local: u32,
}

#[derive(Clone, Debug, PartialEq)]
struct LineRow {
    item: u32,
    supply: u32,
    delivered: bool,
    quantity: u32,
    cents: i64,
}

/// The database, all money in cents.
#[derive(Clone, Debug)]
pub struct Model {
    prices: BTreeMap<u32, i64>,
    /// W_NAME, W_YTD.
    warehouses: BTreeMap<u32, (String, i64)>,
    districts: BTreeMap<District, DistrictRow>,
    customers: BTreeMap<Key, CustomerRow>,
    stock: BTreeMap<(u32, u32), StockRow>,
    orders: BTreeMap<Key, OrderRow>,
    new_orders: BTreeMap<District, Vec<u32>>,
    lines: BTreeMap<(u32, u32, u32, u32), LineRow>,
    /// Rows of HISTORY without H_DATE, sorted: the table has no key.
    history: Vec<String>,
}

/// A row, column by column.
struct Row(std::vec::IntoIter<Option<String>>);

impl Row {
    fn optional(&mut self) -> Option<String> {
        self.0.next().expect("a column")
    }

    fn text(&mut self) -> String {
        self.optional().expect("no NULL")
    }

    fn number<T: std::str::FromStr>(&mut self) -> T {
        let text = self.text();
        text.parse().unwrap_or_else(|_| panic!("{text} is not a number"))
    }

    fn cents(&mut self) -> i64 {
        let text = self.text();
        let digits = text.replace('.', "");
        assert_eq!(text.len(), digits.len() + 1, "{text} has two places behind its point");
        digits.parse().unwrap()
    }
}

impl Model {
    /// Reads the database.
    pub fn read(query: Query<'_>) -> Model {
        let rows = |sql: &str| query(sql).into_iter().map(|row| Row(row.into_iter()));
        let mut new_orders: BTreeMap<District, Vec<u32>> = BTreeMap::new();
        for mut row in rows("SELECT no_w_id, no_d_id, no_o_id FROM new_order ORDER BY 1, 2, 3") {
            new_orders.entry((row.number(), row.number())).or_default().push(row.number());
        }
        Model {
            prices: rows("SELECT i_id, i_price FROM item").map(|mut row| (row.number(), row.cents())).collect(),
            warehouses: rows("SELECT w_id, w_name, w_ytd FROM warehouse")
                .map(|mut row| (row.number(), (row.text(), row.cents())))
                .collect(),
            districts: rows("SELECT d_w_id, d_id, d_next_o_id, d_ytd, d_name FROM district")
                .map(|mut row| {
                    let key = (row.number(), row.number());
                    (key, DistrictRow { next_order: row.number(), ytd: row.cents(), name: row.text() })
                })
                .collect(),
            customers: rows(
                "SELECT c_w_id, c_d_id, c_id, c_first, c_last, c_credit, c_balance, c_ytd_payment, c_payment_cnt,
                     c_delivery_cnt, c_data FROM customer",
            )
            .map(|mut row| {
                let key = (row.number(), row.number(), row.number());
                let customer = CustomerRow {
                    first: row.text(),
                    last: row.text(),
                    credit: row.text(),
                    balance: row.cents(),
                    ytd_payment: row.cents(),
                    payments: row.number(),
                    deliveries: row.number(),
                    data: row.text(),
                };
                (key, customer)
            })
            .collect(),
            stock: rows("SELECT s_w_id, s_i_id, s_quantity, s_ytd, s_order_cnt, s_remote_cnt FROM stock")
                .map(|mut row| {
                    let key = (row.number(), row.number());
                    let stock = StockRow {
                        quantity: row.number(),
                        ytd: row.number(),
                        orders: row.number(),
                        remote: row.number(),
                    };
                    (key, stock)
                })
                .collect(),
            orders: rows("SELECT o_w_id, o_d_id, o_id, o_c_id, o_carrier_id, o_ol_cnt, o_all_local FROM orders")
                .map(|mut row| {
                    let key = (row.number(), row.number(), row.number());
                    let order = OrderRow {
                        customer: row.number(),
                        carrier: row.optional().map(|carrier| carrier.parse().unwrap()),
                        lines: row.number(),
                        all_local: row.number(),
                    };
                    (key, order)
                })
                .collect(),
            new_orders,
            lines: rows(
                "SELECT ol_w_id, ol_d_id, ol_o_id, ol_number, ol_i_id, ol_supply_w_id, (ol_delivery_d IS NOT NULL)::int,
                     ol_quantity, ol_amount FROM order_line",
            )
            .map(|mut row| {
                let key = (row.number(), row.number(), row.number(), row.number());
                let line = LineRow {
                    item: row.number(),
                    supply: row.number(),
                    delivered: row.number::<u32>() == 1,
                    quantity: row.number(),
                    cents: row.cents(),
                };
                (key, line)
            })
            .collect(),
            history: history(query),
        }
    }

    /// Applies a transaction, and returns its expected outcome.
    pub fn apply(&mut self, input: &Input) -> Outcome {
        match input {
            Input::NewOrder(order) => self.order(order),
            Input::Payment(payment) => self.pay(payment),
            Input::Delivery(delivery) => self.deliver(delivery),
            Input::OrderStatus(_) | Input::StockLevel(_) => Outcome::Committed,
        }
    }

    /// Clause 2.4.2.
    fn order(&mut self, order: &NewOrder) -> Outcome {
        if order.lines().iter().any(|line| !self.prices.contains_key(&line.item)) {
            return Outcome::RolledBack;
        }
        let (warehouse, district) = (order.warehouse, u32::from(order.district));
        let row = self.districts.get_mut(&(warehouse, district)).unwrap();
        let number = row.next_order;
        row.next_order += 1;
        let mut all_local = 1;
        for (at, line) in (1..).zip(order.lines()) {
            let quantity = i64::from(line.quantity);
            let stock = self.stock.get_mut(&(line.supply, line.item)).unwrap();
            // At least ten must be left; otherwise 91 are added.
            stock.quantity -= quantity;
            if stock.quantity < 10 {
                stock.quantity += 91;
            }
            stock.ytd += quantity;
            stock.orders += 1;
            if line.supply != warehouse {
                stock.remote += 1;
                all_local = 0;
            }
            let line = LineRow {
                item: line.item,
                supply: line.supply,
                delivered: false,
                quantity: u32::from(line.quantity),
                cents: self.prices[&line.item] * quantity,
            };
            self.lines.insert((warehouse, district, number, at), line);
        }
        let customer = u32::from(order.customer);
        let row = OrderRow { customer, carrier: None, lines: order.lines().len() as u32, all_local };
        self.orders.insert((warehouse, district, number), row);
        self.new_orders.entry((warehouse, district)).or_default().push(number);
        Outcome::Ordered { order: number }
    }

    /// Clause 2.5.2.
    fn pay(&mut self, payment: &Payment) -> Outcome {
        let (warehouse, district) = (payment.warehouse, u32::from(payment.district));
        let (home, home_district) = (payment.customer_warehouse, u32::from(payment.customer_district));
        let cents = i64::from(payment.amount_cents);
        let money = format!("{}.{:02}", cents / 100, cents % 100);
        let number = match payment.customer {
            Customer::Id(number) => u32::from(number),
            Customer::Name(name) => self.named(home, home_district, &last_name(u32::from(name))),
        };
        let (warehouse_name, ytd) = self.warehouses.get_mut(&warehouse).unwrap();
        *ytd += cents;
        let row = self.districts.get_mut(&(warehouse, district)).unwrap();
        row.ytd += cents;
        let data = format!("{warehouse_name}    {}", row.name);
        let customer = self.customers.get_mut(&(home, home_district, number)).unwrap();
        customer.balance -= cents;
        customer.ytd_payment += cents;
        customer.payments += 1;
        if customer.credit == "BC" {
            let front = format!("{number} {home_district} {home} {district} {warehouse} {money} ");
            customer.data = (front + &customer.data).chars().take(500).collect();
        }
        let row = format!("{number}|{home_district}|{home}|{district}|{warehouse}|{money}|{data}");
        let at = self.history.partition_point(|other| *other < row);
        self.history.insert(at, row);
        Outcome::Committed
    }

    /// Row ceil(n / 2) of those of a name, in the order of their first names.
    fn named(&self, warehouse: u32, district: u32, name: &str) -> u32 {
        let all = self.customers.range((warehouse, district, 0)..(warehouse, district + 1, 0));
        let mut named: Vec<(&str, u32)> = all
            .filter(|(_, customer)| customer.last == name)
            .map(|(key, customer)| (customer.first.as_str(), key.2))
            .collect();
        named.sort_unstable();
        named[named.len().div_ceil(2) - 1].1
    }

    /// Clause 2.7.4.
    fn deliver(&mut self, delivery: &Delivery) -> Outcome {
        let warehouse = delivery.warehouse;
        let mut orders = [0; 10];
        for (district, delivered) in (1..).zip(&mut orders) {
            let waiting = self.new_orders.entry((warehouse, district)).or_default();
            if waiting.is_empty() {
                continue;
            }
            // The oldest has the smallest number.
            let number = waiting.remove(0);
            *delivered = number;
            let order = self.orders.get_mut(&(warehouse, district, number)).unwrap();
            order.carrier = Some(u32::from(delivery.carrier));
            let mut total = 0;
            let lines =
                self.lines.range_mut((warehouse, district, number, 0)..(warehouse, district, number + 1, 0));
            for (_, line) in lines {
                line.delivered = true;
                total += line.cents;
            }
            let customer = self.customers.get_mut(&(warehouse, district, order.customer)).unwrap();
            customer.balance += total;
            customer.deliveries += 1;
        }
        Outcome::Delivered { orders }
    }

    /// Compares the database with it, row by row.
    pub fn assert_is_left_in(&self, query: Query<'_>, what: &str) {
        let left = Model::read(query);
        same(&left.warehouses, &self.warehouses, what, "WAREHOUSE");
        same(&left.districts, &self.districts, what, "DISTRICT");
        same(&left.customers, &self.customers, what, "CUSTOMER");
        same(&left.stock, &self.stock, what, "STOCK");
        same(&left.orders, &self.orders, what, "ORDER");
        same(&left.lines, &self.lines, what, "ORDER-LINE");
        let kept = |orders: &BTreeMap<District, Vec<u32>>| -> BTreeMap<District, Vec<u32>> {
            orders
                .iter()
                .filter(|(_, orders)| !orders.is_empty())
                .map(|(key, orders)| (*key, orders.clone()))
                .collect()
        };
        same(&kept(&left.new_orders), &kept(&self.new_orders), what, "NEW-ORDER");
        let pairs: BTreeMap<usize, &String> = left.history.iter().enumerate().collect();
        same(&pairs, &self.history.iter().enumerate().collect(), what, "HISTORY");
        // S_DIST_xx of the order's district, of the supplying warehouse: computed, since the columns are many.
        let district = (1..=10).map(|d| format!("WHEN {d} THEN s_dist_{d:02} ")).collect::<String>();
        let wrong = query(&format!(
            "SELECT count(*), count(*) FILTER (WHERE ol_dist_info IS DISTINCT FROM CASE ol_d_id {district} END)
             FROM order_line LEFT JOIN stock ON s_w_id = ol_supply_w_id AND s_i_id = ol_i_id WHERE ol_o_id > 3000"
        ));
        let lines = self.lines.keys().filter(|key| key.2 > 3000).count();
        assert_eq!(wrong, [[Some(lines.to_string()), Some("0".into())]], "{what}: OL_DIST_INFO");
    }
}

fn history(query: Query<'_>) -> Vec<String> {
    let rows = query(
        "SELECT concat_ws('|', h_c_id, h_c_d_id, h_c_w_id, h_d_id, h_w_id, h_amount, h_data) FROM history",
    );
    let mut rows: Vec<String> = rows.into_iter().map(|mut row| row.remove(0).unwrap()).collect();
    rows.sort_unstable();
    rows
}

/// Compares, and names the first row that differs: a whole table would be too much to read.
fn same<K: Ord + std::fmt::Debug, V: PartialEq + std::fmt::Debug>(
    left: &BTreeMap<K, V>,
    model: &BTreeMap<K, V>,
    what: &str,
    table: &str,
) {
    for (key, row) in model {
        assert_eq!(left.get(key), Some(row), "{what}: {table} {key:?}");
    }
    let more = left.keys().find(|key| !model.contains_key(key));
    assert!(more.is_none(), "{what}: {table} has {more:?}, which nobody wrote");
}
