//! The statements of the client, and their parameters.

/// New-Order: W_ID, D_ID. Returns O_ID, D_TAX. Locks the district until the commit.
pub const TAKE_ORDER_NUMBER: &str =
    "UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = $1 AND d_id = $2 \
     RETURNING d_next_o_id - 1, d_tax";

/// New-Order: W_ID, D_ID, C_ID. Returns W_TAX, C_DISCOUNT, C_LAST, C_CREDIT.
pub const READ_CUSTOMER: &str = "SELECT w_tax, c_discount, c_last, c_credit FROM warehouse, customer \
     WHERE w_id = $1 AND c_w_id = $1 AND c_d_id = $2 AND c_id = $3";

/// New-Order: W_ID, D_ID; then of the lines, sorted by supplying warehouse and item, each row of STOCK at most
/// once: OL_NUMBER, OL_I_ID, OL_SUPPLY_W_ID, OL_QUANTITY as arrays. Returns a row for each line with an existing
/// item: OL_NUMBER, I_PRICE, OL_DIST_INFO, I_NAME, S_QUANTITY, whether it is "brand".
pub const TAKE_STOCK: &str = "UPDATE stock SET \
     s_quantity = s_quantity - quantity + CASE WHEN s_quantity >= quantity + 10 THEN 0 ELSE 91 END, \
     s_ytd = s_ytd + quantity, s_order_cnt = s_order_cnt + 1, s_remote_cnt = s_remote_cnt + (supply <> $1)::integer \
     FROM unnest($3, $4, $5, $6) AS line (number, item_id, supply, quantity) JOIN item ON i_id = item_id \
     WHERE s_w_id = supply AND s_i_id = item_id \
     RETURNING number, i_price, CASE $2 WHEN 1 THEN s_dist_01 WHEN 2 THEN s_dist_02 WHEN 3 THEN s_dist_03 \
         WHEN 4 THEN s_dist_04 WHEN 5 THEN s_dist_05 WHEN 6 THEN s_dist_06 WHEN 7 THEN s_dist_07 \
         WHEN 8 THEN s_dist_08 WHEN 9 THEN s_dist_09 WHEN 10 THEN s_dist_10 END, \
         i_name, s_quantity, i_data LIKE '%ORIGINAL%' AND s_data LIKE '%ORIGINAL%'";

/// New-Order: O_ID, D_ID, W_ID, C_ID, O_OL_CNT, O_ALL_LOCAL. Returns O_ENTRY_D.
pub const WRITE_ORDER: &str = "INSERT INTO orders \
     (o_id, o_d_id, o_w_id, o_c_id, o_entry_d, o_carrier_id, o_ol_cnt, o_all_local) \
     VALUES ($1, $2, $3, $4, localtimestamp, NULL, $5, $6) RETURNING o_entry_d";

/// New-Order: O_ID, D_ID, W_ID.
pub const WRITE_NEW_ORDER: &str = "INSERT INTO new_order (no_o_id, no_d_id, no_w_id) VALUES ($1, $2, $3)";

/// New-Order: O_ID, D_ID, W_ID; then of the lines: OL_NUMBER, OL_I_ID, OL_SUPPLY_W_ID, OL_QUANTITY, OL_AMOUNT, OL_DIST_INFO as
/// arrays.
pub const WRITE_LINES: &str =
    "INSERT INTO order_line (ol_o_id, ol_d_id, ol_w_id, ol_number, ol_i_id, ol_supply_w_id, \
     ol_delivery_d, ol_quantity, ol_amount, ol_dist_info) \
     SELECT $1, $2, $3, number, item_id, supply, NULL, quantity, amount, dist_info \
     FROM unnest($4, $5, $6, $7, $8, $9) AS line (number, item_id, supply, quantity, amount, dist_info)";

/// Payment: H_AMOUNT, W_ID. Returns the warehouse's name and address.
pub const PAY_WAREHOUSE: &str = "UPDATE warehouse SET w_ytd = w_ytd + $1 WHERE w_id = $2 \
     RETURNING w_name, w_street_1, w_street_2, w_city, w_state, w_zip";

/// Payment: H_AMOUNT, W_ID, D_ID. Returns the district's name and address.
pub const PAY_DISTRICT: &str = "UPDATE district SET d_ytd = d_ytd + $1 WHERE d_w_id = $2 AND d_id = $3 \
     RETURNING d_name, d_street_1, d_street_2, d_city, d_state, d_zip";

/// The body of the two customer updates; `{customer}` is the condition on C_ID.
macro_rules! pay_customer {
    ($customer:literal) => {
        concat!(
            "WITH paid AS (UPDATE customer SET c_balance = c_balance - $1, c_ytd_payment = c_ytd_payment + $1, \
                 c_payment_cnt = c_payment_cnt + 1, \
                 c_data = CASE c_credit WHEN 'BC' THEN \
                     left(concat_ws(' ', c_id, c_d_id, c_w_id, $3, $2, $1, c_data), 500) ELSE c_data END \
                 WHERE c_w_id = $4 AND c_d_id = $5 AND c_id = ",
            $customer,
            " RETURNING c_id, c_first, c_middle, c_last, c_street_1, c_street_2, c_city, c_state, c_zip, c_phone, c_since, \
                 c_credit, c_credit_lim, c_discount, c_balance, CASE c_credit WHEN 'BC' THEN left(c_data, 200) END), \
             noted AS (INSERT INTO history (h_c_id, h_c_d_id, h_c_w_id, h_d_id, h_w_id, h_date, h_amount, h_data) \
                 SELECT c_id, $5, $4, $3, $2, localtimestamp, $1, w_name || '    ' || d_name \
                 FROM paid, warehouse, district WHERE w_id = $2 AND d_w_id = $2 AND d_id = $3) \
             SELECT localtimestamp, paid.* FROM paid"
        )
    };
}

/// Payment: H_AMOUNT, W_ID, D_ID, C_W_ID, C_D_ID, C_ID. Updates the customer and writes HISTORY; returns H_DATE and
/// the displayed columns of the customer, last the first 200 characters of C_DATA for bad credit.
pub const PAY_CUSTOMER: &str = pay_customer!("$6");

/// Payment: as [`PAY_CUSTOMER`] with C_LAST in place of C_ID: row n / 2, rounded up, by C_FIRST (clause 2.5.2.2).
pub const PAY_CUSTOMER_BY_NAME: &str = pay_customer!(
    "(SELECT ids[(cardinality(ids) + 1) / 2] FROM (SELECT ARRAY(SELECT c_id FROM customer \
        WHERE c_w_id = $4 AND c_d_id = $5 AND c_last = $6 ORDER BY c_first, c_id) AS ids OFFSET 0) AS named)"
);

/// The body of the two statements of Order-Status.
macro_rules! order_status {
    ($customer:literal) => {
        concat!(
            "SELECT c_id, c_first, c_middle, c_last, c_balance, o_id, o_entry_d, o_carrier_id, \
                 ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d \
             FROM customer CROSS JOIN LATERAL (SELECT o_id, o_entry_d, o_carrier_id FROM orders \
                 WHERE o_w_id = $1 AND o_d_id = $2 AND o_c_id = c_id ORDER BY o_id DESC LIMIT 1) AS last_order \
             JOIN order_line ON ol_w_id = $1 AND ol_d_id = $2 AND ol_o_id = o_id \
             WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = ",
            $customer
        )
    };
}

/// Order-Status: W_ID, D_ID, C_ID. A row for each line of the customer's last order: the customer's C_ID, C_FIRST, C_MIDDLE, C_LAST,
/// C_BALANCE, the order's O_ID, O_ENTRY_D, O_CARRIER_ID, the line's OL_I_ID, OL_SUPPLY_W_ID, OL_QUANTITY, OL_AMOUNT, OL_DELIVERY_D.
pub const ORDER_STATUS: &str = order_status!("$3");

/// Order-Status: W_ID, D_ID, C_LAST. As [`ORDER_STATUS`].
pub const ORDER_STATUS_BY_NAME: &str = order_status!(
    "(SELECT ids[(cardinality(ids) + 1) / 2] FROM (SELECT ARRAY(SELECT c_id FROM customer \
        WHERE c_w_id = $1 AND c_d_id = $2 AND c_last = $3 ORDER BY c_first, c_id) AS ids OFFSET 0) AS named)"
);

/// Delivery: W_ID. Returns ten rows: the oldest new order of each district, locked; 0 if there is none.
pub const CHOOSE_ORDERS: &str = "SELECT coalesce((SELECT no_o_id FROM new_order \
     WHERE no_w_id = $1 AND no_d_id = district_id ORDER BY no_o_id LIMIT 1 FOR UPDATE), 0) \
     FROM generate_series(1, 10) AS district_id";

/// Delivery: W_ID, D_IDs without a new order, as an array. Blocks New-Orders in them; then [`CHOOSE_ORDERS`] runs
/// again.
pub const LOCK_DISTRICTS: &str = "SELECT FROM district WHERE d_w_id = $1 AND d_id = ANY ($2) \
     ORDER BY d_id FOR NO KEY UPDATE";

/// Delivery: W_ID, O_ID of each district as an array of ten, 0 if there is none.
pub const REMOVE_NEW_ORDERS: &str = "DELETE FROM new_order \
     USING unnest($2) WITH ORDINALITY AS chosen (order_id, district_id) \
     WHERE no_w_id = $1 AND no_d_id = district_id AND no_o_id = order_id";

/// Delivery: W_ID, O_ID of each district as an array of ten, O_CARRIER_ID.
pub const DELIVER: &str = "WITH carried AS (UPDATE orders SET o_carrier_id = $3 \
         FROM unnest($2) WITH ORDINALITY AS chosen (order_id, district_id) \
         WHERE o_w_id = $1 AND o_d_id = district_id AND o_id = order_id RETURNING o_d_id, o_c_id), \
     delivered AS (UPDATE order_line SET ol_delivery_d = localtimestamp \
         FROM unnest($2) WITH ORDINALITY AS chosen (order_id, district_id) \
         WHERE ol_w_id = $1 AND ol_d_id = district_id AND ol_o_id = order_id RETURNING ol_d_id, ol_amount) \
     UPDATE customer SET c_balance = c_balance + total, c_delivery_cnt = c_delivery_cnt + 1 \
     FROM carried JOIN (SELECT ol_d_id, sum(ol_amount) AS total FROM delivered GROUP BY ol_d_id) AS sums \
         ON ol_d_id = o_d_id \
     WHERE c_w_id = $1 AND c_d_id = o_d_id AND c_id = o_c_id";

/// Stock-Level: W_ID, D_ID, threshold. Returns low_stock.
pub const STOCK_LEVEL: &str = "SELECT count(*) FROM (SELECT DISTINCT ol_i_id FROM order_line \
         WHERE ol_w_id = $1 AND ol_d_id = $2 \
         AND ol_o_id >= (SELECT d_next_o_id - 20 FROM district WHERE d_w_id = $1 AND d_id = $2) \
         AND ol_o_id < (SELECT d_next_o_id FROM district WHERE d_w_id = $1 AND d_id = $2)) AS lately \
     JOIN stock ON s_w_id = $1 AND s_i_id = ol_i_id WHERE s_quantity < $3";
