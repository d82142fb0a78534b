//! The input of a transaction (clauses 2.4.1, 2.5.1, 2.6.1, 2.7.1, 2.8.1).

/// Lines that an order has at most (clause 2.4.1.3).
pub const MAX_LINES: usize = 15;

/// One of the five transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
#[allow(missing_docs)] // each is the transaction of that name
pub enum Kind {
    NewOrder,
    Payment,
    OrderStatus,
    Delivery,
    StockLevel,
}

impl Kind {
    /// All of them, in the order of the specification.
    pub const ALL: [Kind; 5] =
        [Kind::NewOrder, Kind::Payment, Kind::OrderStatus, Kind::Delivery, Kind::StockLevel];

    /// Its name in the specification.
    pub fn name(self) -> &'static str {
        match self {
            Kind::NewOrder => "New-Order",
            Kind::Payment => "Payment",
            Kind::OrderStatus => "Order-Status",
            Kind::Delivery => "Delivery",
            Kind::StockLevel => "Stock-Level",
        }
    }

    /// Its index in [`Kind::ALL`].
    pub fn index(self) -> usize {
        self as usize
    }
}

/// The input of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // each is the transaction of that name
pub enum Input {
    NewOrder(NewOrder),
    Payment(Payment),
    OrderStatus(OrderStatus),
    Delivery(Delivery),
    StockLevel(StockLevel),
}

impl Input {
    /// Which transaction it is.
    pub fn kind(&self) -> Kind {
        match self {
            Input::NewOrder(_) => Kind::NewOrder,
            Input::Payment(_) => Kind::Payment,
            Input::OrderStatus(_) => Kind::OrderStatus,
            Input::Delivery(_) => Kind::Delivery,
            Input::StockLevel(_) => Kind::StockLevel,
        }
    }

    /// The terminal's warehouse.
    pub fn warehouse(&self) -> u32 {
        match self {
            Input::NewOrder(order) => order.warehouse,
            Input::Payment(payment) => payment.warehouse,
            Input::OrderStatus(status) => status.warehouse,
            Input::Delivery(delivery) => delivery.warehouse,
            Input::StockLevel(level) => level.warehouse,
        }
    }
}

/// A line of an order. An item number above 100,000 is unused: 1 % of the orders have one in the last line and are
/// rolled back after their work (clause 2.4.1.4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OrderLine {
    /// OL_I_ID.
    pub item: u32,
    /// OL_SUPPLY_W_ID.
    pub supply: u32,
    /// OL_QUANTITY, 1 to 10.
    pub quantity: u8,
}

/// Clause 2.4.1. The lines are in the order of entry; code that locks rows sorts them as needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewOrder {
    /// W_ID, the terminal's.
    pub warehouse: u32,
    /// D_ID, 1 to 10.
    pub district: u8,
    /// C_ID, 1 to 3000.
    pub customer: u16,
    /// Number of valid `all_lines`, 5 to 15.
    pub line_count: u8,
    /// The lines; only the first `line_count` are valid. See [`NewOrder::lines`].
    pub all_lines: [OrderLine; MAX_LINES],
}

impl NewOrder {
    /// The lines that there are.
    pub fn lines(&self) -> &[OrderLine] {
        &self.all_lines[..usize::from(self.line_count)]
    }

    /// Whether it is one of those that are to be rolled back.
    pub fn is_rolled_back(&self) -> bool {
        self.lines().last().is_some_and(|line| line.item > crate::population::ITEMS)
    }
}

/// How a customer is selected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Customer {
    /// By C_ID, 1 to 3000.
    Id(u16),
    /// By C_LAST: the last name with this number, 0 to 999 (clause 4.3.2.3). See [`crate::text::last_name`].
    Name(u16),
}

/// Clause 2.5.1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Payment {
    /// W_ID, the terminal's.
    pub warehouse: u32,
    /// D_ID, where it is paid.
    pub district: u8,
    /// C_W_ID: another warehouse in 15 % of the cases.
    pub customer_warehouse: u32,
    /// C_D_ID.
    pub customer_district: u8,
    /// The customer.
    pub customer: Customer,
    /// H_AMOUNT in cents: 100 to 500,000.
    pub amount_cents: u32,
}

/// Clause 2.6.1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrderStatus {
    /// W_ID, the terminal's.
    pub warehouse: u32,
    /// D_ID, 1 to 10.
    pub district: u8,
    /// The customer.
    pub customer: Customer,
}

/// Clause 2.7.1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// W_ID, the terminal's.
    pub warehouse: u32,
    /// O_CARRIER_ID, 1 to 10.
    pub carrier: u8,
}

/// Clause 2.8.1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StockLevel {
    /// W_ID, the terminal's.
    pub warehouse: u32,
    /// D_ID of the terminal: constant over the run.
    pub district: u8,
    /// The threshold, 10 to 20.
    pub threshold: u8,
}
