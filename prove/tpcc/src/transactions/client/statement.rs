//! The statements, by index among the prepared ones.

use super::statements;
use crate::wire::types::{INT4, INT4_ARRAY, NUMERIC, NUMERIC_ARRAY, TEXT_ARRAY, VARCHAR};
use crate::wire::StatementText;
use crate::work::Kind;

macro_rules! statements {
    ($($name:ident),* $(,)?) => {
        /// A statement, by index among the prepared ones.
        #[derive(Clone, Copy, Debug)]
        pub(super) enum Statement {
            $($name),*
        }

        impl Statement {
            /// All, in the order of their indices.
            pub(super) const ALL: [Statement; [$(stringify!($name)),*].len()] = [$(Statement::$name),*];
        }
    };
}

statements!(
    TakeOrderNumber,
    ReadCustomer,
    TakeStock,
    WriteOrder,
    WriteNewOrder,
    WriteLines,
    PayWarehouse,
    PayDistrict,
    PayCustomer,
    PayCustomerByName,
    OrderStatus,
    OrderStatusByName,
    ChooseOrders,
    LockDistricts,
    RemoveNewOrders,
    Deliver,
    StockLevel,
);

impl Statement {
    /// Its text, and the types of its parameters.
    pub(super) fn text(self) -> StatementText {
        let (sql, parameters): (&str, &[u32]) = match self {
            Statement::TakeOrderNumber => (statements::TAKE_ORDER_NUMBER, &[INT4; 2]),
            Statement::ReadCustomer => (statements::READ_CUSTOMER, &[INT4; 3]),
            Statement::TakeStock => {
                (statements::TAKE_STOCK, &[INT4, INT4, INT4_ARRAY, INT4_ARRAY, INT4_ARRAY, INT4_ARRAY])
            }
            Statement::WriteOrder => (statements::WRITE_ORDER, &[INT4; 6]),
            Statement::WriteNewOrder => (statements::WRITE_NEW_ORDER, &[INT4; 3]),
            Statement::WriteLines => (
                statements::WRITE_LINES,
                &[
                    INT4,
                    INT4,
                    INT4,
                    INT4_ARRAY,
                    INT4_ARRAY,
                    INT4_ARRAY,
                    INT4_ARRAY,
                    NUMERIC_ARRAY,
                    TEXT_ARRAY,
                ],
            ),
            Statement::PayWarehouse => (statements::PAY_WAREHOUSE, &[NUMERIC, INT4]),
            Statement::PayDistrict => (statements::PAY_DISTRICT, &[NUMERIC, INT4, INT4]),
            Statement::PayCustomer => (statements::PAY_CUSTOMER, &[NUMERIC, INT4, INT4, INT4, INT4, INT4]),
            Statement::PayCustomerByName => {
                (statements::PAY_CUSTOMER_BY_NAME, &[NUMERIC, INT4, INT4, INT4, INT4, VARCHAR])
            }
            Statement::OrderStatus => (statements::ORDER_STATUS, &[INT4; 3]),
            Statement::OrderStatusByName => (statements::ORDER_STATUS_BY_NAME, &[INT4, INT4, VARCHAR]),
            Statement::ChooseOrders => (statements::CHOOSE_ORDERS, &[INT4]),
            Statement::LockDistricts => (statements::LOCK_DISTRICTS, &[INT4, INT4_ARRAY]),
            Statement::RemoveNewOrders => (statements::REMOVE_NEW_ORDERS, &[INT4, INT4_ARRAY]),
            Statement::Deliver => (statements::DELIVER, &[INT4, INT4_ARRAY, INT4]),
            Statement::StockLevel => (statements::STOCK_LEVEL, &[INT4; 3]),
        };
        StatementText::typed(sql, parameters)
    }

    /// The transaction that sends it.
    pub(super) fn kind(self) -> Kind {
        use Statement::*;
        match self {
            TakeOrderNumber | ReadCustomer | TakeStock | WriteOrder | WriteNewOrder | WriteLines => {
                Kind::NewOrder
            }
            PayWarehouse | PayDistrict | PayCustomer | PayCustomerByName => Kind::Payment,
            OrderStatus | OrderStatusByName => Kind::OrderStatus,
            ChooseOrders | LockDistricts | RemoveNewOrders | Deliver => Kind::Delivery,
            StockLevel => Kind::StockLevel,
        }
    }

    /// Its index.
    pub(super) fn place(self) -> usize {
        self as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_stand_where_they_say() {
        for (at, statement) in Statement::ALL.into_iter().enumerate() {
            assert_eq!(statement.place(), at, "{statement:?}");
            let text = statement.text();
            // There are as many types as parameters.
            for number in 1..=text.parameters.len() {
                assert!(text.sql.contains(&format!("${number}")), "{statement:?} has no ${number}");
            }
            assert!(!text.sql.contains(&format!("${}", text.parameters.len() + 1)), "{statement:?}");
        }
    }
}
